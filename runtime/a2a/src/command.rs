//! Commands: what a caller may ask of the agent itself, and not of its model. They are an extension of the protocol: a
//! message of which the only part is `{"agentd": {"op": …}}`, in a call that names [`URI`]. Each is a row of one table
//! that says its least role. What is below a caller's role does not exist for it. A command is answered with a message
//! and makes no task.

mod parse;

use serde_json::{Value, json};

use crate::caller::{Caller, Role};
use crate::operation::{Rule, Touches};
use crate::wire::{Message, Part, Role as Speaker};

pub(crate) use self::parse::parse;

/// What a call names to have commands.
pub const URI: &str = "https://agentd.io/a2a/commands/v1";
/// What a card says of it.
pub(crate) const DESCRIPTION: &str = "Commands to the agent itself: a message with one part of data, {\"agentd\": {\"op\": …}}, is answered with \
     a message and reaches no model";
/// The member of a data part that makes it a command, and its answer's.
pub(crate) const MEMBER: &str = "agentd";

/// The path of a member of a command, as a fault names it.
macro_rules! at {
    ($name:literal) => {
        concat!("message.parts[0].data.agentd.", $name)
    };
}
pub(crate) use at;

/// The paths of members that may name what is not there.
pub mod member {
    /// A context.
    pub const CONTEXT: &str = at!("contextId");
    /// A subagent.
    pub const HANDLE: &str = at!("handle");
    /// A place in a list.
    pub const PAGE_TOKEN: &str = at!("pageToken");
}

/// The operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// How the agent is.
    Status,
    /// Its configuration; secrets are references.
    Config,
    /// A run.
    RunGet,
    /// The tasks of a conversation.
    ConversationGet,
    /// The plan of a conversation.
    PlanGet,
    /// A subagent.
    SubagentStatus,
    /// Begins a run of a workflow.
    WorkflowRun,
    /// Workflows and their runs.
    WorkflowStatus,
    /// Ends a run of a workflow.
    WorkflowCancel,
    /// Tells a workflow something.
    WorkflowSignal,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Status,
        Self::Config,
        Self::RunGet,
        Self::ConversationGet,
        Self::PlanGet,
        Self::SubagentStatus,
        Self::WorkflowRun,
        Self::WorkflowStatus,
        Self::WorkflowCancel,
        Self::WorkflowSignal,
    ];

    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Config => "config",
            Self::RunGet => "run.get",
            Self::ConversationGet => "conversation.get",
            Self::PlanGet => "plan.get",
            Self::SubagentStatus => "subagent.status",
            Self::WorkflowRun => "workflow.run",
            Self::WorkflowStatus => "workflow.status",
            Self::WorkflowCancel => "workflow.cancel",
            Self::WorkflowSignal => "workflow.signal",
        }
    }

    /// Who may (contract/runtime.md section 12, roles), and whose things it touches.
    pub const fn rule(self) -> Rule {
        match self {
            Self::Status => Rule::of(Role::Agent, Touches::Nothing),
            Self::Config => Rule::of(Role::Operator, Touches::Nothing),
            Self::RunGet | Self::PlanGet | Self::SubagentStatus => Rule::of(Role::User, Touches::Named),
            Self::ConversationGet => Rule::of(Role::User, Touches::Listed),
            Self::WorkflowRun => Rule::of(Role::Agent, Touches::Makes),
            Self::WorkflowStatus => Rule::of(Role::Agent, Touches::Named),
            Self::WorkflowCancel => Rule::of(Role::User, Touches::Named),
            Self::WorkflowSignal => Rule::of(Role::Operator, Touches::Named),
        }
    }

    /// Whether it is there for this caller.
    pub(crate) fn is_for(self, caller: &Caller) -> bool {
        caller.has_role(self.rule().least)
    }

    /// The names of those that are there for a caller.
    pub(crate) fn names_for(caller: &Caller) -> Vec<&'static str> {
        let own = Self::ALL.into_iter().filter(|op| op.is_for(caller));
        own.map(Self::name).collect()
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }
}

/// A conversation: its context, and whose it is where that is not the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The context id.
    pub id: String,
    /// The principal's key; absent: the caller's own.
    pub owner: Option<String>,
}

/// A command, checked at the edge: its members are all known, and ids are bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// [`Op::Status`].
    Status,
    /// [`Op::Config`].
    Config,
    /// [`Op::RunGet`].
    RunGet {
        /// The run's id, which is its task's.
        run: String,
    },
    /// [`Op::ConversationGet`].
    ConversationGet {
        /// Which one.
        context: Context,
        /// At most so many tasks.
        page_size: usize,
        /// Those after this place, as the page before said.
        page_token: Option<String>,
    },
    /// [`Op::PlanGet`].
    PlanGet {
        /// Whose plan.
        context: Context,
    },
    /// [`Op::SubagentStatus`].
    SubagentStatus {
        /// Its handle.
        handle: String,
        /// Where to look for one that has ended.
        context: Option<Context>,
    },
    /// [`Op::WorkflowStatus`] of all.
    Workflows,
    /// What is asked of one workflow or run of one: the operation, and the member that names it.
    Workflow {
        /// What is asked.
        op: Op,
        /// The path of the member.
        named: &'static str,
    },
}

impl Command {
    /// Its operation.
    pub const fn op(&self) -> Op {
        match self {
            Self::Status => Op::Status,
            Self::Config => Op::Config,
            Self::RunGet { .. } => Op::RunGet,
            Self::ConversationGet { .. } => Op::ConversationGet,
            Self::PlanGet { .. } => Op::PlanGet,
            Self::SubagentStatus { .. } => Op::SubagentStatus,
            Self::Workflows => Op::WorkflowStatus,
            Self::Workflow { op, .. } => *op,
        }
    }
}

/// The answer to a command.
pub(crate) fn answer(op: Op, context_id: Option<String>, result: Value) -> Message {
    Message {
        context_id,
        extensions: Some(vec![URI.to_owned()]),
        ..Message::new(
            Speaker::Agent,
            vec![Part::data(
                json!({ MEMBER: { "op": op.name(), "result": result } }),
            )],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_role_of_each_command_is_in_the_table() {
        for op in Op::ALL {
            let least = match op.name() {
                "status" | "workflow.run" | "workflow.status" => Role::Agent,
                "run.get" | "conversation.get" | "plan.get" | "subagent.status" | "workflow.cancel" => {
                    Role::User
                }
                "config" | "workflow.signal" => Role::Operator,
                other => panic!("{other} has no row in this test"),
            };
            assert_eq!(op.rule().least, least, "{op:?}");
            assert_eq!(Op::named(op.name()), Some(op));
        }
        assert_eq!(Op::named("Status"), None);
    }

    #[test]
    fn a_caller_is_told_of_what_is_there_for_it() {
        let names = |role| Op::names_for(&Caller::of("k", &[role]));
        assert_eq!(names(Role::Agent), ["status", "workflow.run", "workflow.status"]);
        assert!(names(Role::User).contains(&"plan.get") && !names(Role::User).contains(&"config"));
        assert_eq!(names(Role::Operator).len(), Op::ALL.len());
        assert!(Op::names_for(&Caller::of("k", &[])).is_empty());
    }
}
