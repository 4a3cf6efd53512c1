//! Who is to hear of a task, and what they have not heard yet. A configuration is stored before it is acknowledged; what
//! is owed to it is stored in the transaction that changes its task, and goes when it has been delivered
//! ([`delivery`]). Configurations are kept in memory beside the store: their number is bounded, and most tasks have none.

mod delivery;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_a2a::push::{CONFIGS_OF_TASK, PushConfig, Sender};
use agentd_a2a::{Away, ServiceError};
use agentd_base::clock::SharedClock;
use agentd_state::{Entry, EntryKind, EntryQuery, StoreError, Task, TaskState, Write};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{RwLock, RwLockReadGuard, Semaphore};

use self::delivery::{AT_ONCE, Debt};
use super::health::Watched;
use super::{away, lock, unavailable};
use crate::metrics::Metrics;

/// All configurations: each is some kilobytes in memory at most.
const CONFIGS: usize = 1024;
/// Those of one principal: a quarter, so that nobody has all of them.
const CONFIGS_OF_ONE: usize = CONFIGS / 4;
/// How long a delivery is tried, and how long a configuration outlives the end of its task.
const AGE: Duration = Duration::from_secs(86_400);
/// The scope of both kinds of entries: their keys begin with the task.
const SCOPE: &str = "push";
/// Entries that are read at once at the start.
const PAGE: usize = 256;

/// A configuration: its task and its id.
type Name = (String, String);

/// See the module.
pub(super) struct Push {
    store: Watched,
    sender: Sender,
    clock: SharedClock,
    metrics: Metrics,
    /// Held for reading while a task is written, and for writing while a configuration is, so that nobody who asked to be
    /// told misses a change.
    book: RwLock<Book>,
    owed: Mutex<HashMap<Name, Debt>>,
    /// Deliveries at once.
    places: Semaphore,
}

/// The configurations, by their tasks.
type Book = HashMap<String, OfTask>;

/// Those of one task.
struct OfTask {
    owner: String,
    configs: BTreeMap<String, PushConfig>,
    standing: Mutex<Standing>,
}

/// What is known of a task here.
#[derive(Default)]
struct Standing {
    /// The change that was owed last.
    told: Option<Mark>,
    /// From when nothing is kept for it.
    expires_at: Option<Timestamp>,
}

/// A change of a task: what it is now, and since when.
type Mark = (TaskState, i64);

/// What is stored of a configuration.
#[derive(Serialize, Deserialize)]
struct Kept {
    owner: String,
    config: PushConfig,
}

/// What a batch owes, until it is written.
pub(super) struct Owing<'a> {
    book: Option<RwLockReadGuard<'a, Book>>,
    tasks: Vec<(String, Mark, Timestamp)>,
}

impl Push {
    /// With what the process before left; what is owed is delivered from now on.
    pub(super) async fn load(
        store: Watched,
        sender: Sender,
        clock: SharedClock,
        metrics: Metrics,
    ) -> Result<Arc<Self>, StoreError> {
        let push = Arc::new(Self {
            store,
            sender,
            clock,
            metrics,
            book: RwLock::default(),
            owed: Mutex::default(),
            places: Semaphore::new(AT_ONCE),
        });
        let mut book = Book::new();
        for (name, entry) in push.stored(EntryKind::Push).await? {
            match serde_json::from_value::<Kept>(entry.value) {
                Ok(kept) => {
                    let of_task = book.entry(name.0).or_insert_with(|| OfTask::new(kept.owner));
                    of_task.standing().expires_at = entry.expires_at;
                    of_task.configs.insert(name.1, kept.config);
                }
                Err(error) => {
                    tracing::error!(event = "restore.task.corrupt", run.id = name.0, err = %agentd_base::json::why(&error));
                }
            }
        }
        *push.book.write().await = book;
        for (name, entry) in push.stored(EntryKind::Outbox).await? {
            push.clone().begin(name, None, entry.updated_at);
        }
        Ok(push)
    }

    async fn stored(&self, kind: EntryKind) -> Result<Vec<(Name, Entry)>, StoreError> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let query = EntryQuery {
                kind,
                scope: SCOPE.to_owned(),
                prefix: String::new(),
                after: after.take(),
                limit: PAGE,
            };
            let page = self.store.entries(query, self.clock.now()).await?;
            after = page.entries.last().map(|entry| entry.key.clone());
            let named = page.entries.into_iter().filter_map(|entry| {
                let (task_id, id) = entry.key.split_once('/')?;
                Some(((task_id.to_owned(), id.to_owned()), entry))
            });
            all.extend(named);
            if !page.more || after.is_none() {
                return Ok(all);
            }
        }
    }

    /// Judges a URL that a caller gives.
    pub(super) async fn vet(&self, url: &str, field: &'static str) -> Result<(), ServiceError> {
        self.sender.vet(url, field).await
    }

    /// Takes a configuration for a task that there is.
    pub(super) async fn add(&self, task_id: &str, config: PushConfig) -> Result<(), ServiceError> {
        let mut book = self.book.write().await;
        let task = self
            .store
            .task(task_id)
            .await
            .map_err(|error| unavailable(&error))?;
        let task = task.ok_or_else(|| ServiceError::TaskNotFound(task_id.to_owned()))?;
        let config = config.of(task_id);
        let of_task = book.get(task_id);
        let is_new = of_task.is_none_or(|of_task| !of_task.configs.contains_key(&config.id));
        if is_new && of_task.is_some_and(|of_task| of_task.configs.len() >= CONFIGS_OF_TASK) {
            return Err(ServiceError::Invalid {
                field: "taskId",
                problem: format!("has {CONFIGS_OF_TASK} push notification configs, and no more; delete one"),
            });
        }
        if is_new && !self.has_room(&mut book, &task.owner) {
            return Err(away(Away::Full, "too many push notification configs"));
        }
        let expires_at = task.state.is_terminal().then(|| later(self.clock.now()));
        let write = self.entry(&task.id, &task.owner, &config, expires_at);
        self.store
            .put(vec![write])
            .await
            .map_err(|error| unavailable(&error))?;
        remember(&mut book, &task, config, expires_at);
        Ok(())
    }

    /// Stores a new task and its note with a configuration.
    pub(super) async fn add_with(
        &self,
        task: Task,
        config: PushConfig,
        note: Write,
    ) -> Result<(), StoreError> {
        let mut book = self.book.write().await;
        if !self.has_room(&mut book, &task.owner) {
            return Err(StoreError::Full("too many push notification configs".to_owned()));
        }
        let config = config.of(&task.id);
        let write = self.entry(&task.id, &task.owner, &config, None);
        self.store
            .put(vec![Write::Task(task.clone()), note, write])
            .await?;
        remember(&mut book, &task, config, None);
        Ok(())
    }

    fn has_room(&self, book: &mut Book, owner: &str) -> bool {
        let now = self.clock.now();
        book.retain(|_, of_task| of_task.standing().expires_at.is_none_or(|at| at > now));
        let count = |of: Option<&str>| {
            let counted = book
                .values()
                .filter(|of_task| of.is_none_or(|owner| of_task.owner == owner));
            counted.map(|of_task| of_task.configs.len()).sum::<usize>()
        };
        count(None) < CONFIGS && count(Some(owner)) < CONFIGS_OF_ONE
    }

    /// One of a task.
    pub(super) async fn get(&self, task_id: &str, id: &str) -> Result<PushConfig, ServiceError> {
        let book = self.book.read().await;
        let found = book.get(task_id).and_then(|of_task| of_task.configs.get(id));
        found
            .cloned()
            .ok_or_else(|| ServiceError::NoPushConfig(id.to_owned()))
    }

    /// All of a task.
    pub(super) async fn list(&self, task_id: &str) -> Vec<PushConfig> {
        let book = self.book.read().await;
        let of_task = book.get(task_id);
        of_task
            .map(|of_task| of_task.configs.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Takes one off, and what it is owed.
    pub(super) async fn delete(&self, task_id: &str, id: &str) -> Result<(), ServiceError> {
        let mut book = self.book.write().await;
        let Some(of_task) = book.get_mut(task_id) else {
            return Ok(());
        };
        if !of_task.configs.contains_key(id) {
            return Ok(());
        }
        let name = (task_id.to_owned(), id.to_owned());
        let gone = [EntryKind::Push, EntryKind::Outbox].map(|kind| dropped(kind, &name));
        let written = self.store.put(gone.to_vec()).await;
        written.map_err(|error| unavailable(&error))?;
        of_task.configs.remove(id);
        if of_task.configs.is_empty() {
            book.remove(task_id);
        }
        lock(&self.owed).remove(&name);
        Ok(())
    }

    /// Adds to a batch what the changes in it owe.
    pub(super) async fn owing(&self, batch: &mut Vec<Write>) -> Owing<'_> {
        if !batch.iter().any(|write| matches!(write, Write::Task(_))) {
            return Owing {
                book: None,
                tasks: Vec::new(),
            };
        }
        let book = self.book.read().await;
        let now = self.clock.now();
        let (mut more, mut tasks) = (Vec::new(), Vec::new());
        for write in &*batch {
            let Write::Task(task) = write else { continue };
            let Some(of_task) = book.get(&task.id) else {
                continue;
            };
            let mark = mark(task);
            if of_task.standing().told == Some(mark) {
                continue;
            }
            for (id, config) in &of_task.configs {
                let name = (task.id.clone(), id.clone());
                let since = lock(&self.owed).get(&name).map_or(now, |debt| debt.since);
                more.push(owed(&name, task.state, since, now));
                if task.state.is_terminal() {
                    more.push(self.entry(&task.id, &task.owner, config, Some(later(now))));
                }
            }
            tasks.push((task.id.clone(), mark, now));
        }
        batch.append(&mut more);
        Owing {
            book: Some(book),
            tasks,
        }
    }

    /// The batch is written: what it owes is delivered.
    pub(super) fn owe(self: &Arc<Self>, owing: Owing<'_>) {
        let Some(book) = &owing.book else { return };
        for (task_id, mark, now) in owing.tasks {
            let Some(of_task) = book.get(&task_id) else {
                continue;
            };
            {
                let mut standing = of_task.standing();
                standing.told = Some(mark);
                if mark.0.is_terminal() {
                    standing.expires_at = Some(later(now));
                }
            }
            for id in of_task.configs.keys() {
                self.clone().begin((task_id.clone(), id.clone()), Some(mark), now);
            }
        }
    }

    fn entry(&self, task_id: &str, owner: &str, config: &PushConfig, expires_at: Option<Timestamp>) -> Write {
        Write::Entry(Entry {
            kind: EntryKind::Push,
            scope: SCOPE.to_owned(),
            key: format!("{task_id}/{}", config.id),
            value: json!(Kept {
                owner: owner.to_owned(),
                config: config.clone(),
            }),
            expires_at,
            updated_at: self.clock.now(),
        })
    }
}

impl OfTask {
    fn new(owner: String) -> Self {
        Self {
            owner,
            configs: BTreeMap::new(),
            standing: Mutex::default(),
        }
    }

    fn standing(&self) -> std::sync::MutexGuard<'_, Standing> {
        lock(&self.standing)
    }
}

fn remember(book: &mut Book, task: &Task, config: PushConfig, expires_at: Option<Timestamp>) {
    tracing::info!(
        event = "a2a.push.registered",
        run.id = task.id,
        principal = task.owner
    );
    let of_task = book
        .entry(task.id.clone())
        .or_insert_with(|| OfTask::new(task.owner.clone()));
    {
        let mut standing = of_task.standing();
        standing.expires_at = standing.expires_at.max(expires_at);
        // Whoever asks knows how the task stands.
        standing.told.get_or_insert(mark(task));
    }
    of_task.configs.insert(config.id.clone(), config);
}

fn mark(task: &Task) -> Mark {
    (task.state, task.updated_at.as_microsecond())
}

/// When what is kept after this moment goes; the end of time is no fault.
fn later(now: Timestamp) -> Timestamp {
    now.checked_add(AGE).unwrap_or(Timestamp::MAX)
}

/// That a configuration is to hear of a change, since it heard of none.
fn owed(name: &Name, state: TaskState, since: Timestamp, now: Timestamp) -> Write {
    Write::Entry(Entry {
        kind: EntryKind::Outbox,
        scope: SCOPE.to_owned(),
        key: format!("{}/{}", name.0, name.1),
        value: json!({ "state": state }),
        expires_at: Some(later(since)),
        updated_at: now,
    })
}

fn dropped(kind: EntryKind, name: &Name) -> Write {
    Write::DropEntry {
        kind,
        scope: SCOPE.to_owned(),
        key: format!("{}/{}", name.0, name.1),
    }
}
