//! The storage trait that every engine implements.

use agentd_base::class::{Class, Classified};
use async_trait::async_trait;

use crate::record::{Conversation, Task};

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
    },
}

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A key that must be new is there already.
    #[error("already stored: {0}")]
    Conflict(String),
    /// Disk full, locked by another process, unreadable.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// What is stored cannot be read by this version.
    #[error("the store holds a record that this version cannot read: {0}")]
    Corrupt(String),
}

impl Classified for StoreError {
    fn class(&self) -> Class {
        match self {
            Self::Conflict(_) => Class::Conflict,
            Self::Unavailable(_) => Class::Unavailable,
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
    /// The task that a principal's message id led to.
    async fn task_of_message(&self, owner: &str, message_id: &str) -> Result<Option<String>, StoreError>;
    /// Ids of tasks that are not terminal, oldest first: what a restart has to take up.
    async fn open_tasks(&self) -> Result<Vec<String>, StoreError>;
}
