//! What a turn asks of the supervisor: whatever outlives the turn, belongs to others as well, or costs what a limit
//! bounds. A worker decides none of it. Requests are named and shaped like the tools of contract/runtime.md section 5,
//! and read strictly: a field that is not known is refused.

use agentd_base::duration::Duration;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::turn::TurnLimits;

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
    /// Begins a subagent.
    #[serde(rename = "subagent.run")]
    SubagentRun(Box<SubagentRun>),
    /// Speaks to a warm one.
    #[serde(rename = "subagent.send")]
    SubagentSend(SubagentSend),
    /// Ends one.
    #[serde(rename = "subagent.kill")]
    SubagentKill(SubagentKill),
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
        serde_json::from_value(Value::Object(request)).map_err(|error| error.to_string())
    }

    /// The tool whose grant it needs; none for what the turn loop itself asks.
    pub fn tool(&self) -> Option<&str> {
        Some(match self {
            Self::MemoryGet(_) => "memory.get",
            Self::MemorySet(_) => "memory.set",
            Self::MemoryList(_) => "memory.list",
            Self::MemoryDelete(_) => "memory.delete",
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
            Self::Await(_) => "await",
            Self::SubagentRun(_) => "subagent.run",
            Self::SubagentSend(_) => "subagent.send",
            Self::SubagentKill(_) => "subagent.kill",
            Self::SubagentStatus(_) => "subagent.status",
            Self::SubagentAwait(_) => "subagent.await",
            Self::SubagentList(_) => "subagent.list",
            Self::ResourceRead(_) => "resource.read",
            Self::Mapped(mapped) => &mapped.tool,
            Self::Reserve { .. } | Self::Settle { .. } => return None,
        })
    }
}

/// No arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// One key of the memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The key.
    pub key: String,
}

/// A value to keep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemorySet {
    /// The key.
    pub key: String,
    /// Any JSON.
    pub value: Value,
    /// How long; none for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
}

/// A page of names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// What they begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// How many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// One artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Id {
    /// Its id.
    pub id: String,
}

/// A document to keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactCreate {
    /// What it is called.
    pub name: String,
    /// Its media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// Its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The step of a workflow whose output it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<String>,
    /// Its name stands in no log and no list.
    #[serde(default)]
    pub sensitive: bool,
}

/// A plan to write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanCreate {
    /// What it is for.
    pub goal: String,
    /// Titles, or items.
    pub items: Vec<PlanItem>,
}

/// An item of a new plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PlanItem {
    /// Its title.
    Title(String),
    /// All of it.
    Item {
        /// Its title.
        title: String,
        /// More of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
}

/// Where an item of a plan stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Done.
    Done,
    /// Waits for something.
    Blocked,
    /// Given up.
    Cancelled,
}

/// A change of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanUpdate {
    /// The item's number, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// Where it stands now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ItemStatus>,
    /// What there is to say of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Another title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// More of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The work that moves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind: Option<Bind>,
    /// New items, after `item`, or at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insert: Option<Vec<PlanItem>>,
    /// All numbers in their new order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Vec<u32>>,
}

/// Work that an item of a plan follows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    /// A run of a workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// A subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    /// A task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

/// A message to send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageSend {
    /// A context, `root` or `new`.
    pub to: String,
    /// What it says.
    pub text: String,
    /// For the answer.
    #[serde(default)]
    pub wait: bool,
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskHuman {
    /// In words.
    pub question: String,
    /// Of the answer; a flat object. Without one it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Who is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// What to wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Await {
    /// An expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Subagents: until one of them has ended.
    #[serde(default)]
    pub on: Vec<String>,
    /// How long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// How a caller and its subagent go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The caller waits for the result.
    #[default]
    Sync,
    /// Side by side; it ends with its caller's turn being cancelled.
    Async,
    /// Side by side, whatever becomes of its caller.
    Detached,
    /// It waits for more messages.
    Warm,
}

/// A subagent to begin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentRun {
    /// What it is to do.
    pub instruction: String,
    /// How it and its caller go on.
    #[serde(default)]
    pub mode: Mode,
    /// The tools that it gets; absent for all of its servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The servers that it gets; absent for all of its caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
    /// What it may use up; what its caller has left in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<SubagentLimits>,
    /// What was said before, for it to know.
    #[serde(default)]
    pub context: Vec<Said>,
    /// The form of its answer, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_contract: Option<String>,
    /// The form of its answer as JSON Schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// What a subagent may use up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentLimits {
    /// Model calls and tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Tokens both ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Wall clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
}

impl From<TurnLimits> for SubagentLimits {
    fn from(limits: TurnLimits) -> Self {
        Self {
            steps: Some(limits.steps),
            tokens: Some(limits.tokens),
            deadline: Some(Duration(limits.deadline)),
        }
    }
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    /// By whom: `user` or `assistant`.
    pub role: String,
    /// The words.
    pub content: String,
}

/// One subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handle {
    /// Its handle.
    pub handle: String,
}

/// A message to a warm subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentSend {
    /// Its handle.
    pub handle: String,
    /// What is said to it.
    pub message: String,
}

/// A subagent to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentKill {
    /// Its handle.
    pub handle: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A subagent to wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentAwait {
    /// Its handle.
    pub handle: String,
    /// How long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// A resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uri {
    /// Of our own scheme.
    pub uri: String,
}

/// A call of a tool that an operator mapped onto a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapped {
    /// The tool, as the contract names it.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Names the call for servers that deduplicate.
    pub idempotency_key: String,
}

#[cfg(test)]
mod tests {
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
