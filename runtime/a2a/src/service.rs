//! What stands behind the listener: the agent. It gets requests that are parsed, bounded and from an authorised
//! caller, and answers with wire types.

use std::sync::Arc;

use agentd_base::class::{Class, Classified};
use agentd_base::trace::TraceContext;
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::caller::Caller;
use crate::command::Command;
use crate::push::{PushConfig, PushConfigs};
use crate::wire::{Message, Part, StreamResponse, Task, TaskState};

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
    /// True: answer as soon as the task is stored. False: answer when it has ended, or waits for somebody.
    pub return_immediately: bool,
    /// Where the caller wants to be told of its task; with an empty id it has that of the task.
    pub push: Option<PushConfig>,
    /// What it is part of, by its caller's `traceparent`.
    pub trace: Option<TraceContext>,
}

impl SendMessage {
    /// The parts as one text for the model: texts as they are, data as JSON, one blank line between parts.
    pub fn text(&self) -> String {
        crate::message::text_of(&self.parts)
    }

    /// The same for a message that is sent again as it was: what it says and where it was said, whatever the order of
    /// the members of its data.
    pub fn digest(&self) -> String {
        let mut content = json!({ "contextId": self.context_id, "parts": self.parts });
        if let (Some(task_id), Some(content)) = (&self.task_id, content.as_object_mut()) {
            content.insert("taskId".to_owned(), task_id.clone().into());
        }
        content.sort_all_objects();
        agentd_base::digest::of(content.to_string().as_bytes())
    }
}

/// What came of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Sent {
    /// The id of its task.
    Task(String),
    /// It is answered, and nothing is kept of it.
    Message(Box<Message>),
}

/// Asks for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetTask {
    /// Its id.
    pub id: String,
}

/// Asks for a page of the tasks that the caller may see, the one that changed last first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTasks {
    /// Of this context.
    pub context_id: Option<String>,
    /// In this state.
    pub state: Option<TaskState>,
    /// Whose state is of this time or later.
    pub since: Option<jiff::Timestamp>,
    /// At most so many.
    pub page_size: usize,
    /// Those after the task that has this token; ours or not is the agent's to say.
    pub page_token: Option<String>,
}

/// Such a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Whole tasks, each with the token for what comes after it.
    pub tasks: Vec<(Task, String)>,
    /// Whether there are more after the last one.
    pub more: bool,
    /// How many there are on all pages.
    pub total: u64,
}

/// A task as it is, and what happens to it from then on, in the same order for everybody who follows it.
#[derive(Debug)]
pub struct Subscription {
    /// Its state.
    pub task: Task,
    /// What happens; none when this process has done with it. It ends when this process has done with the task.
    pub events: Option<broadcast::Receiver<Arc<StreamResponse>>>,
}

/// The agent, as the listener sees it.
#[async_trait]
pub trait Service: Send + Sync {
    /// Takes a message. When this returns, its task is durable and goes on by itself. A message with a task id is the
    /// answer to what that task asks. The listener runs this to its end even if the caller has gone.
    async fn send_message(&self, caller: &Caller, request: SendMessage) -> Result<Sent, ServiceError>;

    /// Carries a command out that is there for the caller; its result. Nothing is kept of one that only reads.
    async fn command(&self, caller: &Caller, command: Command) -> Result<Value, ServiceError>;

    /// Returns when this task has ended or waits for somebody, or when this process has done with it, or does not know
    /// it. Dropped when the
    /// caller has gone.
    async fn ended(&self, task_id: &str);

    /// A task that exists for the caller ([`Caller::theirs`]).
    /// The history is returned whole: the listener cuts it to what was asked for.
    async fn get_task(&self, caller: &Caller, request: GetTask) -> Result<Task, ServiceError>;

    /// A page of the tasks that the caller may see.
    async fn list_tasks(&self, caller: &Caller, request: ListTasks) -> Result<Listed, ServiceError>;

    /// Cancels a task; when this returns it is. One that was is not cancelled again. The listener runs this to its end
    /// even if the caller has gone.
    async fn cancel_task(&self, caller: &Caller, id: &str) -> Result<(), ServiceError>;

    /// Follows a task.
    async fn subscribe(&self, caller: &Caller, id: &str) -> Result<Subscription, ServiceError>;

    /// Who keeps configurations of push notifications; none where the agent sends none, as its card says.
    fn push(&self) -> Option<&dyn PushConfigs> {
        None
    }
}

/// Why the agent takes nothing now. It may later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Away {
    /// So much waits already.
    Full,
    /// It is about to stop.
    Stopping,
    /// Its store cannot be read or written.
    Store,
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
    /// The task to cancel has ended otherwise.
    #[error("the task {0} has ended and can no longer be cancelled")]
    NotCancelable(String),
    /// The task has no configuration of push notifications with this id.
    #[error("the task has no push notification config {0}")]
    NoPushConfig(String),
    /// A field of the request does not fit what is stored.
    #[error("{field}: {problem}")]
    Invalid {
        /// Its path, such as `message.contextId`.
        field: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The agent takes nothing now.
    #[error("unavailable: {detail}")]
    Unavailable {
        /// What the caller is told.
        away: Away,
        /// For the log only.
        detail: String,
    },
    /// A bug of ours. The text is for the log only.
    #[error("internal: {0}")]
    Internal(String),
}

impl Classified for ServiceError {
    fn class(&self) -> Class {
        match self {
            Self::TaskNotFound(_)
            | Self::TaskEnded(_)
            | Self::NotCancelable(_)
            | Self::NoPushConfig(_)
            | Self::Invalid { .. } => Class::Invalid,
            Self::Unavailable { .. } => Class::Unavailable,
            Self::Internal(_) => Class::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_same_by_what_it_says_and_where() {
        let message = |id: &str, context: Option<&str>, part: Part| SendMessage {
            message_id: id.into(),
            context_id: context.map(str::to_owned),
            task_id: None,
            parts: vec![part],
            return_immediately: id == "b",
            push: None,
            trace: None,
        };
        let data = |text: &str| Part::data(serde_json::from_str(text).unwrap());
        let digest = message("a", Some("c"), data(r#"{"x":1,"y":{"a":1,"b":2}}"#)).digest();
        let again = message("b", Some("c"), data(r#"{"y":{"b":2,"a":1},"x":1}"#)).digest();
        assert_eq!(digest, again);
        for other in [
            message("a", None, data(r#"{"x":1,"y":{"a":1,"b":2}}"#)),
            message("a", Some("d"), data(r#"{"x":1,"y":{"a":1,"b":2}}"#)),
            message("a", Some("c"), data(r#"{"x":1,"y":{"a":1,"b":3}}"#)),
            message("a", Some("c"), Part::text(r#"{"x":1,"y":{"a":1,"b":2}}"#)),
        ] {
            assert_ne!(other.digest(), digest, "{other:?}");
        }
    }
}
