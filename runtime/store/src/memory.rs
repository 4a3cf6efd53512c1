//! State that is gone with the process: for one-shot runs and where a person chose it. Records are kept as the JSON that
//! a disk would get, so that what they are counted as is what they take: it is the process's own memory that callers
//! fill.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use agentd_state::store::size_of_json;
use agentd_state::{
    Conversation, Noted, OpenTask, Retention, Store, StoreError, Task, TaskState, Write, conversation_key,
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::sqlite::{taken, unreadable};

/// The store. A batch is applied under one lock, so it is seen whole or not at all.
#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
    retention: Retention,
}

#[derive(Debug, Default)]
struct State {
    conversations: HashMap<String, Record>,
    tasks: HashMap<String, Row>,
    /// Ended tasks, the longest ended first.
    ended: BTreeSet<(Timestamp, String)>,
    /// Tasks of a conversation.
    members: HashMap<String, usize>,
    message_ids: HashMap<(String, String), Noted>,
    /// The message ids of a task, which go with it.
    messages_of: HashMap<String, Vec<(String, String)>>,
    /// Ended tasks and all conversations.
    kept: u64,
}

/// What is stored of a record.
#[derive(Debug)]
struct Record(Box<str>);

#[derive(Debug)]
struct Row {
    record: Record,
    owner: String,
    context_id: String,
    state: TaskState,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// A write whose record is written out.
enum Change {
    Conversation(String, Record),
    Task(String, Row),
    MessageId((String, String), Noted),
}

impl Record {
    fn of(record: &impl Serialize, id: &str) -> Result<Self, StoreError> {
        let json = serde_json::to_string(record).map_err(|error| unreadable("record", id, &error))?;
        Ok(Self(json.into()))
    }

    fn read<T: DeserializeOwned>(&self, kind: &str, id: &str) -> Result<T, StoreError> {
        serde_json::from_str(&self.0).map_err(|error| unreadable(kind, id, &error))
    }

    fn bytes(&self) -> u64 {
        size_of_json(self.0.len() as u64)
    }
}

impl Row {
    fn key(&self) -> String {
        conversation_key(&self.owner, &self.context_id)
    }

    /// What it counts among that which is kept.
    fn kept(&self) -> u64 {
        if self.state.is_terminal() {
            self.record.bytes()
        } else {
            0
        }
    }
}

impl Change {
    fn of(write: Write) -> Result<Self, StoreError> {
        Ok(match write {
            Write::Conversation(conversation) => {
                let record = Record::of(&conversation, &conversation.id)?;
                Self::Conversation(conversation.id, record)
            }
            Write::Task(task) => {
                let row = Row {
                    record: Record::of(&task, &task.id)?,
                    owner: task.owner,
                    context_id: task.context_id,
                    state: task.state,
                    created_at: task.created_at,
                    updated_at: task.updated_at,
                };
                Self::Task(task.id, row)
            }
            Write::MessageId {
                owner,
                message_id,
                task_id,
                digest,
            } => Self::MessageId((owner, message_id), Noted { task_id, digest }),
        })
    }
}

impl MemoryStore {
    /// An empty store that keeps what has ended as `retention` says.
    pub fn new(retention: Retention) -> Self {
        Self {
            state: Mutex::default(),
            retention,
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn check(&self, batch: &[Change]) -> Result<(), StoreError> {
        let mut new = HashSet::new();
        for change in batch {
            if let Change::MessageId(key, _) = change
                && (self.message_ids.contains_key(key) || !new.insert(key))
            {
                return Err(taken(&key.0, &key.1));
            }
        }
        Ok(())
    }

    /// Applies the batch; when a task of it has ended.
    fn apply(&mut self, batch: Vec<Change>) -> Option<Timestamp> {
        let mut last_end = None;
        for change in batch {
            match change {
                Change::Conversation(id, record) => {
                    self.kept += record.bytes();
                    if let Some(before) = self.conversations.insert(id, record) {
                        self.kept -= before.bytes();
                    }
                }
                Change::Task(id, row) => {
                    if row.state.is_terminal() {
                        last_end = last_end.max(Some(row.updated_at));
                    }
                    self.put(id, row);
                }
                Change::MessageId(key, noted) => {
                    let task_id = noted.task_id.clone();
                    self.messages_of.entry(task_id).or_default().push(key.clone());
                    self.message_ids.insert(key, noted);
                }
            }
        }
        last_end
    }

    fn put(&mut self, id: String, row: Row) {
        self.take(&id);
        self.kept += row.kept();
        *self.members.entry(row.key()).or_default() += 1;
        if row.state.is_terminal() {
            self.ended.insert((row.updated_at, id.clone()));
        }
        self.tasks.insert(id, row);
    }

    /// Takes a task out; whether it was the last of its conversation, whose key it is.
    fn take(&mut self, id: &str) -> Option<String> {
        let row = self.tasks.remove(id)?;
        self.kept -= row.kept();
        self.ended.remove(&(row.updated_at, id.to_owned()));
        let Entry::Occupied(mut members) = self.members.entry(row.key()) else {
            return None;
        };
        if *members.get() > 1 {
            *members.get_mut() -= 1;
            return None;
        }
        Some(members.remove_entry().0)
    }

    /// Lets go of what ended before `now` less the age, and of what is too much, the longest ended first.
    fn retain(&mut self, retention: Retention, now: Timestamp) {
        let expired = now.checked_sub(retention.age).unwrap_or(Timestamp::MIN);
        while let Some((ended_at, _)) = self.ended.first() {
            if self.kept <= retention.bytes && *ended_at >= expired {
                return;
            }
            let Some((_, id)) = self.ended.pop_first() else {
                return;
            };
            for key in self.messages_of.remove(&id).unwrap_or_default() {
                self.message_ids.remove(&key);
            }
            if let Some(conversation) = self.take(&id)
                && let Some(record) = self.conversations.remove(&conversation)
            {
                self.kept -= record.bytes();
            }
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn write(&self, batch: Vec<Write>) -> Result<(), StoreError> {
        let batch: Vec<Change> = batch.into_iter().map(Change::of).collect::<Result<_, _>>()?;
        self.with(|state| {
            state.check(&batch)?;
            if let Some(now) = state.apply(batch) {
                state.retain(self.retention, now);
            }
            Ok(())
        })
    }

    async fn conversation(&self, id: &str) -> Result<Option<Conversation>, StoreError> {
        self.with(|state| {
            let record = state.conversations.get(id);
            record.map(|record| record.read("conversation", id)).transpose()
        })
    }

    async fn task(&self, id: &str) -> Result<Option<Task>, StoreError> {
        self.with(|state| {
            let row = state.tasks.get(id);
            row.map(|row| row.record.read("task", id)).transpose()
        })
    }

    async fn message(&self, owner: &str, message_id: &str) -> Result<Option<Noted>, StoreError> {
        let key = (owner.to_owned(), message_id.to_owned());
        Ok(self.with(|state| state.message_ids.get(&key).cloned()))
    }

    async fn open_tasks(&self) -> Result<Vec<OpenTask>, StoreError> {
        let mut open: Vec<(Timestamp, OpenTask)> = self.with(|state| {
            let open = state.tasks.iter().filter(|(_, row)| !row.state.is_terminal());
            open.map(|(id, row)| {
                let task = OpenTask {
                    id: id.clone(),
                    owner: row.owner.clone(),
                    context_id: row.context_id.clone(),
                    state: row.state,
                    bytes: row.record.bytes(),
                };
                (row.created_at, task)
            })
            .collect()
        });
        open.sort_by(|(a, one), (b, other)| (a, &one.id).cmp(&(b, &other.id)));
        Ok(open.into_iter().map(|(_, task)| task).collect())
    }

    async fn probe(&self, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
}
