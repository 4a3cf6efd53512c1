//! What a turn asks of others: a person, another conversation, a server, what it waits for.

use agentd_base::duration::Duration;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
    /// W3C trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Which call of its run it is.
    pub ordinal: u32,
}
