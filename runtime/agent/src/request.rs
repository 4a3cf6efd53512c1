//! What a turn asks of the supervisor: whatever outlives the turn, belongs to others as well, or costs what a limit
//! bounds. A worker decides none of it. Requests are named and shaped like the tools of contract/runtime.md section 5,
//! and read strictly: a field that is not known is refused.

mod asking;
mod keeping;
mod size;
mod subagents;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::asking::{AskHuman, Await, Mapped, MessageSend, Observe, Observed, SaidPart, Subscribe, Uri};
pub use self::keeping::{
    ArtifactCreate, Bind, Id, ItemStatus, Key, Listed, MemoryPush, MemorySet, PlanCreate, PlanItem,
    PlanUpdate,
};
pub(crate) use self::size::PATTERN as SIZE;
pub use self::size::Size;
pub use self::subagents::{
    Handle, Mode, Priority, Said, SubagentAwait, SubagentKill, SubagentLimits, SubagentRun, SubagentSend,
};

/// Requests of one turn that may be open at the same time: the calls of a round and the model's own.
pub const OPEN_REQUESTS: usize = 16;

/// Carries requests out. Dropping a future withdraws its request.
#[async_trait]
pub trait Supervisor: Send + Sync {
    /// One request; there is always a reply.
    async fn request(&self, request: Request) -> Reply;
}

/// A supervisor that is not there: every request is refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

#[async_trait]
impl Supervisor for Nobody {
    async fn request(&self, _: Request) -> Reply {
        Reply::Refused("there is no supervisor to ask".to_owned())
    }
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The result, in the form of the tool's result.
    Done(Value),
    /// It was not done; why, for the model.
    Refused(String),
    /// To [`Request::AskHuman`]: the turn ends, and goes on when there is an answer.
    Later,
    /// To [`Request::Reserve`].
    Reserved(Reservation),
}

/// What the budget says of a model call that is about to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reservation {
    /// It may be made. Settled with [`Request::Settle`] once its usage is known.
    Granted {
        /// Names the reservation.
        id: u64,
        /// The model to take in the place of the configured one.
        model: Option<String>,
    },
    /// There is nothing left.
    Exhausted {
        /// For people.
        reason: String,
        /// The turn is refused, and has not failed.
        refuse: bool,
    },
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "tool", content = "arguments")]
pub enum Request {
    /// A value of the memory.
    #[serde(rename = "memory.get")]
    MemoryGet(Key),
    /// Keeps a value.
    #[serde(rename = "memory.set")]
    MemorySet(MemorySet),
    /// The keys of the memory.
    #[serde(rename = "memory.list")]
    MemoryList(Listed),
    /// Forgets a value.
    #[serde(rename = "memory.delete")]
    MemoryDelete(Key),
    /// Adds a value to the end of a list.
    #[serde(rename = "memory.push")]
    MemoryPush(MemoryPush),
    /// Takes the last value of a list.
    #[serde(rename = "memory.pop")]
    MemoryPop(Key),
    /// Takes the first value of a list.
    #[serde(rename = "memory.shift")]
    MemoryShift(Key),
    /// Keeps a document.
    #[serde(rename = "artifact.create")]
    ArtifactCreate(ArtifactCreate),
    /// Reads a document.
    #[serde(rename = "artifact.get")]
    ArtifactGet(Id),
    /// The documents that are kept.
    #[serde(rename = "artifact.list")]
    ArtifactList(Listed),
    /// Drops a document.
    #[serde(rename = "artifact.delete")]
    ArtifactDelete(Id),
    /// Writes the conversation's plan.
    #[serde(rename = "plan.create")]
    PlanCreate(PlanCreate),
    /// Reads it.
    #[serde(rename = "plan.get")]
    PlanGet(Nothing),
    /// Changes it.
    #[serde(rename = "plan.update")]
    PlanUpdate(PlanUpdate),
    /// Drops it.
    #[serde(rename = "plan.clear")]
    PlanClear(Nothing),
    /// A message into a conversation of this instance.
    #[serde(rename = "message.send")]
    MessageSend(MessageSend),
    /// A question to a person.
    #[serde(rename = "ask_human")]
    AskHuman(AskHuman),
    /// How the instance is.
    #[serde(rename = "status")]
    Status(Nothing),
    /// Waits for subagents.
    #[serde(rename = "await")]
    Await(Await),
    /// What a condition needs to know.
    #[serde(rename = "state.observe")]
    Observe(Box<Observe>),
    /// Follows the instruction, or another one.
    #[serde(rename = "instruction.subscribe")]
    InstructionSubscribe(Subscribe),
    /// Begins a subagent.
    #[serde(rename = "subagent.run")]
    SubagentRun(Box<SubagentRun>),
    /// Speaks to a warm one.
    #[serde(rename = "subagent.send")]
    SubagentSend(SubagentSend),
    /// Ends one.
    #[serde(rename = "subagent.kill")]
    SubagentKill(SubagentKill),
    /// Lets a warm one end.
    #[serde(rename = "subagent.retire")]
    SubagentRetire(Handle),
    /// How one is.
    #[serde(rename = "subagent.status")]
    SubagentStatus(Handle),
    /// Waits for one.
    #[serde(rename = "subagent.await")]
    SubagentAwait(SubagentAwait),
    /// All of this conversation.
    #[serde(rename = "subagent.list")]
    SubagentList(Nothing),
    /// A resource of the instance itself.
    #[serde(rename = "resource.read")]
    ResourceRead(Uri),
    /// A tool that the operator mapped onto a server.
    #[serde(rename = "mapped")]
    Mapped(Mapped),
    /// A model call is about to be made.
    #[serde(rename = "budget.reserve")]
    Reserve {
        /// What it will take at most, as estimated.
        tokens: u64,
    },
    /// A model call has ended.
    #[serde(rename = "budget.settle")]
    Settle {
        /// The reservation.
        id: u64,
        /// What it took.
        tokens: u64,
    },
}

impl Request {
    /// A request in the name of a tool, with its arguments.
    ///
    /// # Errors
    /// The fault, for the model, when the arguments are not those of the tool.
    pub fn of_tool(name: &str, arguments: Map<String, Value>) -> Result<Self, String> {
        let mut request = Map::new();
        request.insert("tool".to_owned(), name.into());
        request.insert("arguments".to_owned(), Value::Object(arguments));
        serde_json::from_value(Value::Object(request)).map_err(|error| agentd_base::json::why(&error))
    }

    /// The tool whose grant it needs; none for what the turn loop itself asks.
    pub fn tool(&self) -> Option<&str> {
        Some(match self {
            Self::MemoryGet(_) => "memory.get",
            Self::MemorySet(_) => "memory.set",
            Self::MemoryList(_) => "memory.list",
            Self::MemoryDelete(_) => "memory.delete",
            Self::MemoryPush(_) => "memory.push",
            Self::MemoryPop(_) => "memory.pop",
            Self::MemoryShift(_) => "memory.shift",
            Self::ArtifactCreate(_) => "artifact.create",
            Self::ArtifactGet(_) => "artifact.get",
            Self::ArtifactList(_) => "artifact.list",
            Self::ArtifactDelete(_) => "artifact.delete",
            Self::PlanCreate(_) => "plan.create",
            Self::PlanGet(_) => "plan.get",
            Self::PlanUpdate(_) => "plan.update",
            Self::PlanClear(_) => "plan.clear",
            Self::MessageSend(_) => "message.send",
            Self::AskHuman(_) => "ask_human",
            Self::Status(_) => "status",
            Self::Await(_) | Self::Observe(_) => "await",
            Self::InstructionSubscribe(_) => "instruction.subscribe",
            Self::SubagentRun(_) => "subagent.run",
            Self::SubagentSend(_) => "subagent.send",
            Self::SubagentKill(_) => "subagent.kill",
            Self::SubagentRetire(_) => "subagent.retire",
            Self::SubagentStatus(_) => "subagent.status",
            Self::SubagentAwait(_) => "subagent.await",
            Self::SubagentList(_) => "subagent.list",
            Self::ResourceRead(_) => "resource.read",
            Self::Mapped(mapped) => &mapped.tool,
            Self::Reserve { .. } | Self::Settle { .. } => return None,
        })
    }

    /// Whether it goes on with what was begun by one before, and is no step of its own.
    pub fn goes_on(&self) -> bool {
        matches!(self, Self::Observe(observe) if observe.since.is_some())
    }
}

/// No arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

#[cfg(test)]
mod tests {
    use agentd_base::duration::Duration;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tools_arguments_are_its_request_and_nothing_else_is() {
        let arguments = |value: Value| value.as_object().unwrap().clone();
        let set = Request::of_tool(
            "memory.set",
            arguments(json!({"key": "a", "value": null, "ttl": "5m"})),
        );
        let expected = Request::MemorySet(MemorySet {
            key: "a".into(),
            value: Value::Null,
            ttl: Some(Duration::secs(300)),
        });
        assert_eq!(set, Ok(expected.clone()));
        assert_eq!(expected.tool(), Some("memory.set"));
        let run = Request::of_tool("subagent.run", arguments(json!({"instruction": "x"}))).unwrap();
        let wire = serde_json::to_value(&run).unwrap();
        assert_eq!(serde_json::from_value::<Request>(wire).unwrap(), run);
        for (name, value) in [
            ("memory.get", json!({})),
            ("memory.get", json!({"key": "a", "more": 1})),
            ("plan.get", json!({"x": 1})),
            ("memory.take", json!({"key": "a"})),
            ("budget.reserve", json!({"tokens": -1})),
        ] {
            assert!(Request::of_tool(name, arguments(value)).is_err(), "{name}");
        }
        assert!(Request::of_tool("plan.get", Map::new()).is_ok());
    }
}
