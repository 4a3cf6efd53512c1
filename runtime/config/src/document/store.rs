//! What a document says about where state lives. Types only.

use std::collections::BTreeMap;
use std::path::PathBuf;

use agentd_base::duration::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `store`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// Absent: `file` with a listener, else `memory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<StoreKind>,
    /// The folder of the `file` store. Absent: `$AGENTD_STATE_DIR`, else `$XDG_STATE_HOME/agentd`, else
    /// `~/.local/state/agentd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The first segment of every key, of the kinds `mcp` and `http`. Absent: `agentd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// One call, of the kinds `mcp` and `http`. Absent: 10 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The server of the kind `mcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpStore>,
    /// The server of the kind `http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpStore>,
    /// How long what has ended is kept.
    #[serde(skip_serializing_if = "super::is_default")]
    pub retention: Retention,
}

/// `store.kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// SQLite in a folder.
    File,
    /// Gone with the process.
    Memory,
    /// Tools of an MCP server.
    Mcp,
    /// A REST server.
    Http,
}

/// `store.mcp`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpStore {
    /// A name of `mcp.servers`.
    pub server: String,
    /// Absent: `state.put {key, seq, value}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put: Option<McpOp>,
    /// Absent: `state.get {key}`, which answers `{value}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub get: Option<McpOp>,
    /// Absent: `state.list {prefix, after}`, which answers `{keys, next}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<McpOp>,
    /// Absent: `state.delete {key, seq}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<McpOp>,
}

impl McpStore {
    /// The tool of `put` where none is named.
    pub const PUT: &str = "state.put";
    /// The tool of `get` where none is named.
    pub const GET: &str = "state.get";
    /// The tool of `list` where none is named.
    pub const LIST: &str = "state.list";
    /// The tool of `delete` where none is named.
    pub const DELETE: &str = "state.delete";

    /// The tools by which state is read and written.
    pub fn tools(&self) -> [&str; 4] {
        [
            (&self.put, Self::PUT),
            (&self.get, Self::GET),
            (&self.list, Self::LIST),
            (&self.delete, Self::DELETE),
        ]
        .map(|(op, absent)| op.as_ref().map_or(absent, |op| op.tool.as_str()))
    }
}

/// One operation of `store.mcp`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-written-whole" = true))]
pub struct McpOp {
    /// The tool's name at the server.
    pub tool: String,
    /// What it is given: JSON with the placeholders `{{key}}`, `{{seq}}`, `{{previous}}`, `{{value}}`, `{{prefix}}`,
    /// `{{after}}`; a string that is one placeholder becomes its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// Where the stored value is in the result: a JSON pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where the keys are in the result: a JSON pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<String>,
    /// Where the next page's beginning is in the result: a JSON pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The words by which an error says that somebody else wrote the key. Absent: `conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
}

/// `store.http`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpStore {
    /// https, or loopback http.
    pub base_url: String,
    /// May hold `{{secret:NAME}}` and `{{secret-file:PATH}}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How requests are authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<super::Auth>,
    /// Roots, client certificate, expected SPIFFE ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<super::ClientTls>,
    /// Absent: `PUT {base_url}/{key}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put: Option<HttpOp>,
    /// Absent: `GET {base_url}/{key}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub get: Option<HttpOp>,
    /// Absent: `GET {base_url}/?prefix={prefix}&after={after}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<HttpOp>,
    /// Absent: `DELETE {base_url}/{key}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<HttpOp>,
}

/// One operation of `store.http`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("x-written-whole" = true))]
pub struct HttpOp {
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path and query below `base_url`, with the placeholders of [`McpOp::args`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The body, with the same placeholders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Where the stored value is in the answer: a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where the keys are in the answer: a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<String>,
    /// Where the next page's beginning is in the answer: a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The statuses that say that somebody else wrote the key. Absent: 409 and 412.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict_status: Option<Vec<u16>>,
}

/// `store.retention`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// Of tasks that have ended, and of conversations with their last task.
    #[serde(skip_serializing_if = "super::is_default")]
    pub tasks: TaskRetention,
}

/// `store.retention.tasks`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TaskRetention {
    /// After the end of a task. Absent: 30 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
    /// Bytes of all of them together. Absent: 256 MiB on a disk, 64 MiB elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1_048_576))]
    pub bytes: Option<u64>,
}
