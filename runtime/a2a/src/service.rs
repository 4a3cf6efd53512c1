//! What stands behind the listener: the agent. It gets requests that are parsed, bounded and from an authorised
//! caller, and answers with wire types.

use agentd_base::class::{Class, Classified};
use async_trait::async_trait;

use crate::caller::Caller;
use crate::wire::{Part, Task};

/// A message of a caller, checked at the edge: ids are bounded and not empty, there is at least one part, every part
/// is text or data.
#[derive(Debug, Clone, PartialEq)]
pub struct SendMessage {
    /// The caller's id of the message: a retry has the same.
    pub message_id: String,
    /// The conversation it belongs to; absent: a new one, or that of the task.
    pub context_id: Option<String>,
    /// The task it belongs to; absent: a new one.
    pub task_id: Option<String>,
    /// Text and data, in order.
    pub parts: Vec<Part>,
    /// True: answer as soon as the task is stored. False: answer when it has ended.
    pub return_immediately: bool,
}

impl SendMessage {
    /// The parts as one text for the model: texts as they are, data as JSON, one blank line between parts.
    pub fn text(&self) -> String {
        crate::message::text_of(&self.parts)
    }
}

/// Asks for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetTask {
    /// Its id.
    pub id: String,
}

/// The agent, as the listener sees it.
#[async_trait]
pub trait Service: Send + Sync {
    /// Takes a message. When this returns, the task is durable. The listener runs it to its end even if the caller
    /// has gone. The history of the task is returned whole: the listener cuts it to what was asked for.
    async fn send_message(&self, caller: Caller, request: SendMessage) -> Result<Task, ServiceError>;

    /// A task that the caller may see ([`Caller::may_see`]); [`ServiceError::TaskNotFound`] for one that it may not.
    async fn get_task(&self, caller: Caller, request: GetTask) -> Result<Task, ServiceError>;
}

/// Why the agent did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// There is no such task for this caller: unknown and not theirs are the same.
    #[error("there is no task {0}")]
    TaskNotFound(String),
    /// The message names a task that has ended.
    #[error("the task {0} has ended; send the message without a task id to go on in its context")]
    TaskEnded(String),
    /// A field of the request does not fit what is stored.
    #[error("{field}: {problem}")]
    Invalid {
        /// Its path, such as `message.contextId`.
        field: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The agent takes nothing now (it drains, or its store is away). The text is for the log only.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// A bug of ours. The text is for the log only.
    #[error("internal: {0}")]
    Internal(String),
}

impl Classified for ServiceError {
    fn class(&self) -> Class {
        match self {
            Self::TaskNotFound(_) | Self::TaskEnded(_) | Self::Invalid { .. } => Class::Invalid,
            Self::Unavailable(_) => Class::Unavailable,
            Self::Internal(_) => Class::Internal,
        }
    }
}
