//! State in a remote store that offers single keys with compare-and-set ([`Kv`]): an MCP server or an HTTP service.
//!
//! Guarantees: as SQLite's, as far as the server keeps what it acknowledged. A batch is whole or not at all, also after
//! a crash between two requests; concurrent batches share one commit; reads come from memory, where all that is kept
//! stands within [`Retention`]'s bounds. This process is the only writer: one that finds out that it is not writes
//! nothing more and says so ([`Store::lost`]).

mod claim;
mod contract;
mod envelope;
#[cfg(test)]
mod fuzz;
mod inspect;
mod load;
mod log;
mod place;
mod writer;

use std::sync::{Arc, Mutex};

use agentd_base::clock::SharedClock;
use agentd_state::store::size;
use agentd_state::{
    Conversation, Entry, EntryKind, EntryPage, EntryQuery, Noted, OpenTask, Retention, Store, StoreError,
    Task, TaskPage, TaskQuery, Write,
};
use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

pub use self::contract::{KeyPage, Kv, KvError};
use self::envelope::Names;
pub use self::inspect::inspect;
use self::writer::{Job, Writer, lock};
use crate::working::Working;

/// Batches that wait. A caller beyond it waits for a place.
const QUEUE: usize = 256;
/// A message id takes this, roughly.
const MESSAGE_ID: u64 = 512;

/// Which part of a remote store is this agent's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// `store.prefix`.
    pub prefix: String,
    /// The agent's name.
    pub instance: String,
}

/// The store. Dropping it ends its writer; what was committed and is not in its place is finished by whoever opens it
/// next.
pub struct KvStore {
    working: Arc<Mutex<Working>>,
    jobs: mpsc::Sender<Job>,
    lost: watch::Receiver<Option<String>>,
    writer: JoinHandle<()>,
}

impl Drop for KvStore {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

impl KvStore {
    /// Takes the store over from whoever had it, and reads what is there.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the server does not answer or does not keep to the contract; it names the
    /// server.
    pub async fn open<K: Kv>(
        kv: K,
        owner: &Owner,
        retention: Retention,
        clock: SharedClock,
    ) -> Result<Self, StoreError> {
        let names = Names::new(&owner.prefix, &owner.instance);
        let loaded = load::load(&kv, &names, retention, clock.now()).await?;
        let (lose, lost) = watch::channel(None);
        let (jobs, queue) = mpsc::channel(QUEUE);
        let writer = Writer::new(Arc::new(kv), names, clock, retention, loaded, lose);
        Ok(Self {
            working: writer.working.clone(),
            jobs,
            lost,
            writer: tokio::spawn(writer.run(queue)),
        })
    }

    async fn send(&self, batch: Vec<Write>) -> Result<(), StoreError> {
        let ended = || StoreError::Unavailable("the writer has ended".to_owned());
        let (done, outcome) = oneshot::channel();
        self.jobs.send(Job { batch, done }).await.map_err(|_| ended())?;
        outcome.await.map_err(|_| ended())?
    }
}

/// What a write takes.
fn size_of_write(write: &Write) -> u64 {
    match write {
        Write::Conversation(record) => size(record),
        Write::Task(record) => size(record),
        Write::Entry(record) => size(record),
        Write::MessageId { .. } | Write::DropEntry { .. } => MESSAGE_ID,
    }
}

#[async_trait]
impl Store for KvStore {
    async fn write(&self, batch: Vec<Write>) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.send(batch).await
    }

    async fn conversation(&self, id: &str) -> Result<Option<Conversation>, StoreError> {
        lock(&self.working).conversation(id)
    }

    async fn task(&self, id: &str) -> Result<Option<Task>, StoreError> {
        lock(&self.working).task(id)
    }

    async fn message(&self, owner: &str, message_id: &str) -> Result<Option<Noted>, StoreError> {
        Ok(lock(&self.working).message(owner, message_id))
    }

    async fn open_tasks(&self) -> Result<Vec<OpenTask>, StoreError> {
        Ok(lock(&self.working).open_tasks())
    }

    async fn tasks(&self, query: TaskQuery) -> Result<TaskPage, StoreError> {
        Ok(lock(&self.working).list(&query))
    }

    async fn entry(
        &self,
        kind: EntryKind,
        scope: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Entry>, StoreError> {
        let name = (kind, scope.to_owned(), key.to_owned());
        lock(&self.working).entry(&name, now)
    }

    async fn entries(&self, query: EntryQuery, now: Timestamp) -> Result<EntryPage, StoreError> {
        Ok(lock(&self.working).entries(&query, now))
    }

    async fn probe(&self, _: u64) -> Result<(), StoreError> {
        self.send(Vec::new()).await
    }

    async fn lost(&self) -> StoreError {
        let mut lost = self.lost.clone();
        let why = lost.wait_for(Option::is_some).await;
        match why.map(|why| why.clone()) {
            Ok(Some(why)) => StoreError::Lost(why),
            _ => std::future::pending().await,
        }
    }
}
