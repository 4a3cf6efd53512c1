//! The storage trait that every engine implements.

use std::time::Duration;

use agentd_base::class::{Class, Classified};
use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;

use crate::entry::{Entry, EntryKind, EntryPage, EntryQuery};
use crate::list::{TaskPage, TaskQuery};
use crate::record::{Conversation, OpenTask, Task};

/// What a record takes beside its JSON: keys, indexes, its message id.
const RECORD_BYTES: u64 = 512;

/// One change. A batch of them is applied in one transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Inserts or replaces a conversation.
    Conversation(Conversation),
    /// Inserts or replaces a task.
    Task(Task),
    /// Notes that the principal's message id led to this task, so that a retry of the caller finds it. The first
    /// note stands: a second one for the same key fails the batch with [`StoreError::Conflict`].
    MessageId {
        /// The principal.
        owner: String,
        /// The caller's message id.
        message_id: String,
        /// The task.
        task_id: String,
        /// Tells whether a message with this id is the same message.
        digest: String,
    },
    /// Inserts or replaces an entry.
    Entry(Entry),
    /// Drops an entry, if it is there.
    DropEntry {
        /// What it is.
        kind: EntryKind,
        /// Whose it is.
        scope: String,
        /// Its name.
        key: String,
    },
}

/// What is known of a message id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// The task that the message led to.
    pub task_id: String,
    /// The digest that was noted; empty for one that was noted before there were digests.
    pub digest: String,
}

/// How long what has ended is kept. Every write that ends a task drops the tasks that ended longest ago, with their
/// message ids, and a conversation with its last task; what is open is never dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// After its end a task is kept for this time (`store.retention.tasks.ttl`).
    pub age: Duration,
    /// Ended tasks and all conversations together, as [`size`] counts.
    pub bytes: u64,
    /// The entries whose number a model decides ([`EntryKind::is_bounded`]), together. What would be more is refused:
    /// they are dropped by whoever made them, or by their expiry.
    pub entries: u64,
}

impl Retention {
    /// On a disk: a quarter of the default claim of 1 GiB, so that indexes, free pages, the log and what is open have
    /// room beside it.
    pub const DISK: Self = Self {
        age: Self::AGE,
        bytes: 256 * 1024 * 1024,
        entries: 128 * 1024 * 1024,
    };
    /// In memory: more than a one-shot run needs, and a pod has room for it.
    pub const MEMORY: Self = Self {
        age: Self::AGE,
        bytes: 64 * 1024 * 1024,
        entries: 32 * 1024 * 1024,
    };
    const AGE: Duration = Duration::from_secs(30 * 86_400);

    /// What the entries of one scope may take of [`Self::entries`]: half, so that no principal takes it all.
    pub const fn entries_of_one(&self) -> u64 {
        self.entries / 2
    }
}

/// What a record takes in a store.
pub fn size(record: &impl Serialize) -> u64 {
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting does not fail, and the records are made of what JSON has.
    let _ = serde_json::to_writer(&mut count, record);
    size_of_json(count.0)
}

/// The same, of a record that is JSON of this length already.
pub const fn size_of_json(length: u64) -> u64 {
    length + RECORD_BYTES
}

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A key that must be new is there already.
    #[error("already stored: {0}")]
    Conflict(String),
    /// A bound of ours is reached, and the store is well: smaller, or after something was dropped, it would be taken.
    #[error("not stored: {0}")]
    Full(String),
    /// Whoever keeps it does not take this, and nothing of it is there. Other writes may be taken.
    #[error("the store does not take this: {0}")]
    Refused(String),
    /// Another process has written what is ours: two agents share one store. Nothing is written any more, and this
    /// process must end.
    #[error("the store is no longer ours: {0}")]
    Lost(String),
    /// Disk full, locked by another process, unreadable.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// What is stored cannot be read by this version.
    #[error("what is stored cannot be read: {0}")]
    Corrupt(String),
}

impl Classified for StoreError {
    fn class(&self) -> Class {
        match self {
            Self::Conflict(_) | Self::Lost(_) => Class::Conflict,
            Self::Full(_) => Class::Denied,
            Self::Refused(_) | Self::Unavailable(_) => Class::Unavailable,
            Self::Corrupt(_) => Class::Internal,
        }
    }
}

/// Durable state. Cheap to share behind an `Arc`.
#[async_trait]
pub trait Store: Send + Sync {
    /// Applies all or none; durable when it returns.
    async fn write(&self, batch: Vec<Write>) -> Result<(), StoreError>;
    /// A conversation by id.
    async fn conversation(&self, id: &str) -> Result<Option<Conversation>, StoreError>;
    /// A task by id.
    async fn task(&self, id: &str) -> Result<Option<Task>, StoreError>;
    /// What was noted of a principal's message id.
    async fn message(&self, owner: &str, message_id: &str) -> Result<Option<Noted>, StoreError>;
    /// The tasks that are not terminal, oldest first: what a restart has to take up.
    async fn open_tasks(&self) -> Result<Vec<OpenTask>, StoreError>;
    /// A page of the list of tasks.
    async fn tasks(&self, query: TaskQuery) -> Result<TaskPage, StoreError>;
    /// An entry by name, if it has not expired.
    async fn entry(
        &self,
        kind: EntryKind,
        scope: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Entry>, StoreError>;
    /// A page of entries, without those that have expired.
    async fn entries(&self, query: EntryQuery, now: Timestamp) -> Result<EntryPage, StoreError>;
    /// Whether a write of so many bytes would succeed now: it is made and taken back.
    async fn probe(&self, bytes: u64) -> Result<(), StoreError>;
    /// Returns when this process can use the store no more and must end: another one has it ([`StoreError::Lost`]), or
    /// it is damaged as a whole and a write would make that worse ([`StoreError::Corrupt`]). An engine to which
    /// neither can happen never does.
    async fn lost(&self) -> StoreError {
        std::future::pending().await
    }
}
