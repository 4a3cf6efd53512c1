//! The records: conversations, their transcripts, and A2A tasks. Bodies that belong to another crate (a transcript's
//! blocks, an A2A message) are kept as JSON documents and typed where they are used.

use agentd_base::trace::TraceContext;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The key of a conversation: a context id belongs to its principal, so that two principals who choose the same one
/// neither meet nor learn of each other. A SPIFFE ID has no space.
pub fn conversation_key(owner: &str, context_id: &str) -> String {
    format!("{owner} {context_id}")
}

/// A durable conversation: the A2A `contextId` of one principal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// [`conversation_key`] of its tasks.
    pub id: String,
    /// The SPIFFE ID (or other principal key) that began it: nobody else may see it.
    pub owner: String,
    /// When it began.
    pub created_at: Timestamp,
    /// The transcript as the agent crate serialises it; `Null` before the first turn.
    pub transcript: Value,
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The caller.
    User,
    /// This agent.
    Agent,
}

/// A message of a task's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The message id.
    pub id: String,
    /// Who wrote it.
    pub role: Role,
    /// The parts, in the wire form of A2A 1.0.
    pub parts: Value,
}

/// The state of a task (A2A 1.0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Accepted and stored, not yet begun.
    Submitted,
    /// A turn runs.
    Working,
    /// A turn waits for what a person is to say: [`Task::asked`].
    InputRequired,
    /// A turn waits for a person to visit a page and to prove who they are: [`Task::asked`].
    AuthRequired,
    /// Done.
    Completed,
    /// Ended by a fault; the status message says which.
    Failed,
    /// Ended by a caller or an operator.
    Canceled,
    /// Refused by the agent.
    Rejected,
}

impl TaskState {
    /// Its name in columns.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::AuthRequired => "auth_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Rejected => "rejected",
        }
    }

    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Submitted,
        Self::Working,
        Self::InputRequired,
        Self::AuthRequired,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
        Self::Rejected,
    ];

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether it goes on when somebody answers.
    pub const fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }

    /// Whether it will never change again.
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected
        )
    }
}

/// An A2A task: one turn of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Ours, unique.
    pub id: String,
    /// The context: with the owner it names the conversation ([`conversation_key`]).
    pub context_id: String,
    /// The principal that sent it.
    pub owner: String,
    /// Where it stands.
    pub state: TaskState,
    /// When the state was entered.
    pub updated_at: Timestamp,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// What the agent says of the state.
    pub status_message: Option<String>,
    /// What somebody is asked, while it waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Message>,
    /// The messages.
    pub history: Vec<Message>,
    /// Artifacts in the wire form of A2A 1.0.
    pub artifacts: Vec<Value>,
    /// How many messages of turns of this agent led to one another before this one; of a caller's message none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub hops: u32,
    /// What it is part of: a call of another agent, or a turn of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
}

fn is_none(hops: &u32) -> bool {
    *hops == 0
}

/// A task that has not ended, without what was said in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTask {
    /// Its id.
    pub id: String,
    /// The principal that sent it.
    pub owner: String,
    /// The context.
    pub context_id: String,
    /// Where it stands.
    pub state: TaskState,
    /// What it takes in the store ([`crate::store::size`]).
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_who_choose_the_same_context_do_not_meet() {
        assert_ne!(
            conversation_key("spiffe://td/a", "c"),
            conversation_key("spiffe://td/b", "c")
        );
    }
}
