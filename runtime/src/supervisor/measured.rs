//! The store with each read and write counted, however it is asked.

use std::sync::Arc;

use agentd_base::class::Classified as _;
use agentd_state::{
    Conversation, Entry, EntryKind, EntryPage, EntryQuery, Noted, OpenTask, Store, StoreError, Task,
    TaskPage, TaskQuery, Write,
};
use async_trait::async_trait;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::metrics::Metrics;

/// See the module.
pub(super) struct Measured {
    store: Arc<dyn Store>,
    metrics: Metrics,
}

impl Measured {
    pub(super) fn new(store: Arc<dyn Store>, metrics: Metrics) -> Self {
        Self { store, metrics }
    }

    async fn counted<T>(
        &self,
        done: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let done = done.await;
        let result = match &done {
            Ok(_) => "ok",
            Err(error) => error.class().label(),
        };
        self.metrics.store(result, began.elapsed());
        done
    }
}

#[async_trait]
impl Store for Measured {
    async fn write(&self, batch: Vec<Write>) -> Result<(), StoreError> {
        self.counted(self.store.write(batch)).await
    }

    async fn conversation(&self, id: &str) -> Result<Option<Conversation>, StoreError> {
        self.counted(self.store.conversation(id)).await
    }

    async fn task(&self, id: &str) -> Result<Option<Task>, StoreError> {
        self.counted(self.store.task(id)).await
    }

    async fn message(&self, owner: &str, message_id: &str) -> Result<Option<Noted>, StoreError> {
        self.counted(self.store.message(owner, message_id)).await
    }

    async fn open_tasks(&self) -> Result<Vec<OpenTask>, StoreError> {
        self.counted(self.store.open_tasks()).await
    }

    async fn tasks(&self, query: TaskQuery) -> Result<TaskPage, StoreError> {
        self.counted(self.store.tasks(query)).await
    }

    async fn entry(
        &self,
        kind: EntryKind,
        scope: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Entry>, StoreError> {
        self.counted(self.store.entry(kind, scope, key, now)).await
    }

    async fn entries(&self, query: EntryQuery, now: Timestamp) -> Result<EntryPage, StoreError> {
        self.counted(self.store.entries(query, now)).await
    }

    async fn probe(&self, bytes: u64) -> Result<(), StoreError> {
        self.counted(self.store.probe(bytes)).await
    }

    async fn lost(&self) -> StoreError {
        self.store.lost().await
    }
}
