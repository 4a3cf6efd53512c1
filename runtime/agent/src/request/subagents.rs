//! What a turn asks about subagents: to begin one, and of those that it has.

use agentd_base::duration::Duration;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::size::Size;
use crate::turn::TurnLimits;

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

/// How the process of a subagent is scheduled beside those of others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// After all others.
    Low,
    /// After the turns of conversations.
    #[default]
    Normal,
    /// As they are.
    High,
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
    /// How its process is scheduled.
    #[serde(default)]
    pub priority: Priority,
    /// What was said before, for it to know.
    #[serde(default)]
    pub context: Vec<Said>,
    /// Skills that are loaded when it begins, by name.
    #[serde(default)]
    pub skills: Vec<String>,
    /// The servers that have them, as the caller sees it: no argument of the tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skill_servers: Vec<String>,
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
    /// Address space of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Time of a processor, of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Duration>,
}

impl From<TurnLimits> for SubagentLimits {
    fn from(limits: TurnLimits) -> Self {
        Self {
            steps: Some(limits.steps),
            tokens: Some(limits.tokens),
            deadline: Some(Duration(limits.deadline)),
            memory: None,
            cpu: None,
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
