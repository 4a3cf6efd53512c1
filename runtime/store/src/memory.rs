//! State that is gone with the process: for one-shot runs and where a person chose it.

use std::sync::{Mutex, PoisonError};

use agentd_state::{
    Conversation, Entry, EntryKind, EntryPage, EntryQuery, Noted, OpenTask, Retention, Store, StoreError,
    Task, TaskPage, TaskQuery, Write,
};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::working::{Change, Working, end_of, time_of};

/// The store. A batch is applied under one lock, so it is seen whole or not at all.
#[derive(Debug)]
pub struct MemoryStore {
    working: Mutex<Working>,
    retention: Retention,
}

impl MemoryStore {
    /// An empty store that keeps what has ended as `retention` says.
    pub fn new(retention: Retention) -> Self {
        Self {
            working: Mutex::default(),
            retention,
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Working) -> T) -> T {
        act(&mut self.working.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn write(&self, batch: Vec<Write>) -> Result<(), StoreError> {
        let batch: Vec<Change> = batch.into_iter().map(Change::of).collect::<Result<_, _>>()?;
        self.with(|working| {
            if let Some(now) = time_of(&batch) {
                working.expire(now);
            }
            working.check(&batch, self.retention)?;
            let end = end_of(&batch);
            for change in batch {
                working.apply(change);
            }
            if let Some(now) = end {
                working.retain(self.retention, now);
            }
            Ok(())
        })
    }

    async fn conversation(&self, id: &str) -> Result<Option<Conversation>, StoreError> {
        self.with(|working| working.conversation(id))
    }

    async fn task(&self, id: &str) -> Result<Option<Task>, StoreError> {
        self.with(|working| working.task(id))
    }

    async fn message(&self, owner: &str, message_id: &str) -> Result<Option<Noted>, StoreError> {
        Ok(self.with(|working| working.message(owner, message_id)))
    }

    async fn open_tasks(&self) -> Result<Vec<OpenTask>, StoreError> {
        Ok(self.with(|working| working.open_tasks()))
    }

    async fn tasks(&self, query: TaskQuery) -> Result<TaskPage, StoreError> {
        self.with(|working| Ok(working.list(&query)))
    }

    async fn entry(
        &self,
        kind: EntryKind,
        scope: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Entry>, StoreError> {
        let name = (kind, scope.to_owned(), key.to_owned());
        self.with(|working| working.entry(&name, now))
    }

    async fn entries(&self, query: EntryQuery, now: Timestamp) -> Result<EntryPage, StoreError> {
        Ok(self.with(|working| working.entries(&query, now)))
    }

    async fn probe(&self, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
}
