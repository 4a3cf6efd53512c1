//! What a document says about our own tools. Types only.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `agent.tools`: what a conversation's model sees of what there is. It chooses; it grants nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentTools {
    /// Of our own tools: `all`, `none`, or names and globs such as `memory.*`. Absent: `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal: Option<Vec<String>>,
    /// Of the servers' tools, by the names of the catalogue: `all`, `none`, or names and globs. Absent: `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Vec<String>>,
}

/// `tools`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tools {
    /// Tools that no turn gets, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<String>,
    /// The tool of a server that stands behind a contract without an implementation of ours, such as `search.query`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, Override>,
}

/// One entry of `tools.overrides`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// A name of `mcp.servers`.
    pub server: String,
    /// The tool's name at the server.
    pub tool: String,
    /// What the tool is given: JSON in which a string `{{name}}` is the contract's argument of this name. Absent: the
    /// contract's arguments as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// Where in the tool's result the contract's result is, as a JSON pointer. Absent: the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// `knowledge` and `search`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mapped {
    /// A name of `mcp.servers`; it has tools with the names of the contract.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// `memory`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Memory {
    /// Of one value, as JSON. Absent: 65 536.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub max_value_bytes: Option<u32>,
    /// Entries of one `memory.list` that names no limit. Absent: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub list_default_limit: Option<u32>,
}

/// `skills`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Skills {
    /// Where they are found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SkillsSource>,
    /// Loaded at a time in one conversation. Absent: 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub max_loaded: Option<u32>,
    /// What refers to a skill in a message or an instruction, which loads it: the prefix and the skill's name. Absent:
    /// `@skill:`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub reference_prefix: Option<String>,
    /// Of one skill. Absent: 32 768.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 262_144))]
    pub max_bytes: Option<u32>,
}

/// One entry of `skills.sources`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillsSource {
    /// A name of `mcp.servers`.
    pub server: String,
    /// What of the server is a skill. Absent: `auto`.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub discover: Discover,
    /// A glob of the names that are taken. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

/// `skills.sources[].discover`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Discover {
    /// Prompts where the server has some, else resources.
    #[default]
    Auto,
    /// Its prompts.
    Prompts,
    /// Its resources.
    Resources,
}
