//! State that is gone with the process: for one-shot runs and where a person chose it. What has ended is kept up to a
//! bound, the newest first, since it is the process's own memory that callers fill.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use agentd_state::{Conversation, Store, StoreError, Task, Write};
use async_trait::async_trait;

/// Conversations and tasks as JSON: more than any one-shot run needs, and a pod has room for it.
const KEPT_BYTES: usize = 64 * 1024 * 1024;

/// The store. A batch is applied under one lock, so it is seen whole or not at all.
#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
    bytes: usize,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            bytes: KEPT_BYTES,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    conversations: HashMap<String, Conversation>,
    tasks: HashMap<String, Task>,
    message_ids: HashMap<(String, String), String>,
    /// The message ids of a task, which go with it.
    messages_of: HashMap<String, Vec<(String, String)>>,
    kept: Kept,
}

/// A record that may be let go of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Record {
    Conversation(String),
    Task(String),
}

/// When each record was written last, and its size.
#[derive(Debug, Default)]
struct Kept {
    places: HashMap<Record, (u64, usize)>,
    ages: BTreeMap<u64, Record>,
    writes: u64,
    bytes: usize,
}

impl Kept {
    fn put(&mut self, record: Record, size: usize) {
        self.remove(&record);
        self.writes += 1;
        self.bytes = self.bytes.saturating_add(size);
        self.ages.insert(self.writes, record.clone());
        self.places.insert(record, (self.writes, size));
    }

    fn remove(&mut self, record: &Record) {
        if let Some((age, size)) = self.places.remove(record) {
            self.ages.remove(&age);
            self.bytes = self.bytes.saturating_sub(size);
        }
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn check(&self, batch: &[Write]) -> Result<(), StoreError> {
        let mut new = HashSet::new();
        for write in batch {
            if let Write::MessageId {
                owner, message_id, ..
            } = write
            {
                let key = (owner.clone(), message_id.clone());
                if self.message_ids.contains_key(&key) || !new.insert(key) {
                    return Err(crate::sqlite::taken(owner, message_id));
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, batch: Vec<Write>) {
        for write in batch {
            match write {
                Write::Conversation(conversation) => {
                    let id = conversation.id.clone();
                    self.kept
                        .put(Record::Conversation(id.clone()), size(&conversation));
                    self.conversations.insert(id, conversation);
                }
                Write::Task(task) => {
                    self.kept.put(Record::Task(task.id.clone()), size(&task));
                    self.tasks.insert(task.id.clone(), task);
                }
                Write::MessageId {
                    owner,
                    message_id,
                    task_id,
                } => {
                    let key = (owner, message_id);
                    self.messages_of
                        .entry(task_id.clone())
                        .or_default()
                        .push(key.clone());
                    self.message_ids.insert(key, task_id);
                }
            }
        }
    }

    /// Lets go of what was written longest ago, but of no task that has not ended, until the rest is within `bytes`.
    fn shrink(&mut self, bytes: usize) {
        while self.kept.bytes > bytes {
            let is_over = |record: &&Record| match record {
                Record::Conversation(_) => true,
                Record::Task(id) => self.tasks.get(id).is_none_or(|task| task.state.is_terminal()),
            };
            let Some(oldest) = self.kept.ages.values().find(is_over).cloned() else {
                return;
            };
            self.kept.remove(&oldest);
            match oldest {
                Record::Conversation(id) => drop(self.conversations.remove(&id)),
                Record::Task(id) => {
                    self.tasks.remove(&id);
                    for key in self.messages_of.remove(&id).unwrap_or_default() {
                        self.message_ids.remove(&key);
                    }
                }
            }
        }
    }
}

/// About what a record takes.
fn size(record: &impl serde::Serialize) -> usize {
    serde_json::to_vec(record).map_or(0, |json| json.len())
}

#[async_trait]
impl Store for MemoryStore {
    async fn write(&self, batch: Vec<Write>) -> Result<(), StoreError> {
        self.with(|state| {
            state.check(&batch)?;
            state.apply(batch);
            state.shrink(self.bytes);
            Ok(())
        })
    }

    async fn conversation(&self, id: &str) -> Result<Option<Conversation>, StoreError> {
        Ok(self.with(|state| state.conversations.get(id).cloned()))
    }

    async fn task(&self, id: &str) -> Result<Option<Task>, StoreError> {
        Ok(self.with(|state| state.tasks.get(id).cloned()))
    }

    async fn task_of_message(&self, owner: &str, message_id: &str) -> Result<Option<String>, StoreError> {
        let key = (owner.to_owned(), message_id.to_owned());
        Ok(self.with(|state| state.message_ids.get(&key).cloned()))
    }

    async fn open_tasks(&self) -> Result<Vec<String>, StoreError> {
        let mut open: Vec<_> = self.with(|state| {
            let open = state.tasks.values().filter(|task| !task.state.is_terminal());
            open.map(|task| (task.created_at, task.id.clone())).collect()
        });
        open.sort();
        Ok(open.into_iter().map(|(_, id)| id).collect())
    }
}

#[cfg(test)]
mod tests {
    use agentd_state::TaskState;

    use super::*;

    fn writes(id: &str, state: TaskState) -> Vec<Write> {
        let now = "2026-12-01T10:00:00Z".parse().unwrap();
        let task = Task {
            id: id.into(),
            context_id: "c".into(),
            owner: "o".into(),
            state,
            updated_at: now,
            created_at: now,
            status_message: None,
            history: Vec::new(),
            artifacts: vec!["x".repeat(1000).into()],
        };
        let message = Write::MessageId {
            owner: "o".into(),
            message_id: format!("m-{id}"),
            task_id: id.into(),
        };
        vec![Write::Task(task), message]
    }

    #[test]
    fn what_ended_long_ago_goes_first_and_what_is_open_stays() {
        let mut state = State::default();
        state.apply(writes("open", TaskState::Working));
        for id in ["a", "b", "c"] {
            state.apply(writes(id, TaskState::Completed));
        }
        state.shrink(usize::MAX);
        assert_eq!(state.tasks.len(), 4);
        state.shrink(3000);
        let mut left: Vec<&str> = state.tasks.keys().map(String::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["c", "open"]);
        assert_eq!((state.message_ids.len(), state.messages_of.len()), (2, 2));
        // An open task is never let go of, whatever the bound.
        state.shrink(0);
        assert_eq!(state.tasks.keys().collect::<Vec<_>>(), ["open"]);
        // Once it has ended, it may go; nothing is left behind.
        state.apply(writes("open", TaskState::Failed).into_iter().take(1).collect());
        state.shrink(0);
        assert!(state.tasks.is_empty() && state.message_ids.is_empty() && state.messages_of.is_empty());
        assert!(state.kept.ages.is_empty() && state.kept.places.is_empty());
        assert_eq!(state.kept.bytes, 0);
    }

    #[tokio::test]
    async fn a_caller_cannot_fill_the_memory() {
        let store = MemoryStore {
            bytes: 10_000,
            ..MemoryStore::default()
        };
        for number in 0..80 {
            let conversation = Conversation {
                id: format!("c{number}"),
                owner: "o".into(),
                created_at: "2026-12-01T10:00:00Z".parse().unwrap(),
                transcript: "x".repeat(1000).into(),
            };
            store
                .write(vec![Write::Conversation(conversation)])
                .await
                .unwrap();
        }
        assert_eq!(store.conversation("c0").await.unwrap(), None);
        assert!(store.conversation("c79").await.unwrap().is_some());
        assert!(store.with(|state| state.kept.bytes) <= 10_000);
    }
}
