//! What a turn asks of others: a person, another conversation, a server, what it waits for.

use std::collections::BTreeSet;

use agentd_base::duration::Duration;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::resumed::SoFar;

/// A message to send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageSend {
    /// A context, `root` or `new`.
    pub to: String,
    /// What it says, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What it says, in parts; in the place of `text`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<SaidPart>,
    /// For the answer.
    #[serde(default)]
    pub wait: bool,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaidPart {
    /// Words.
    Text(String),
    /// JSON.
    Data(Value),
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
    /// What the agent would answer itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommend: Option<String>,
    /// Who is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The turn that asks, where it may be given up and gone on with later. No argument of the tool's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub so_far: Option<Box<SoFar>>,
}

/// What to wait for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Await {
    /// Subagents: until one of them has ended.
    #[serde(default)]
    pub on: Vec<String>,
    /// How long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// What a condition needs to know, once it is another than it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observe {
    /// The plan of the conversation.
    pub plan: bool,
    /// All of the memory.
    pub memory: bool,
    /// These keys of the memory.
    pub keys: BTreeSet<String>,
    /// The subagents.
    pub subagents: bool,
    /// The MCP servers.
    pub servers: bool,
    /// What is known already; none for whatever there is now.
    pub since: Option<String>,
}

/// What is observed: the reply to [`Observe`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// Names this state.
    pub digest: String,
    /// By the names that conditions use.
    pub state: Value,
}

/// A resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uri {
    /// Of our own scheme.
    pub uri: String,
}

/// A resource to follow as the instruction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscribe {
    /// Another one than it is; none for the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
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
    /// W3C trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Which call of its run it is.
    pub ordinal: u32,
}
