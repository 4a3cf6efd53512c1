//! `spec.store`: where state lives.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::{Destination, Quantity};

/// The size of a claim when the spec names none.
pub const DEFAULT_STORE_SIZE: &str = "1Gi";

/// Where state lives. Exactly one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.file), has(self.memory), has(self.mcp), has(self.http)].exists_one(x, x)")
    .message("exactly one of file, memory, mcp, http"))]
pub struct Store {
    /// A database file on a volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileStore>,
    /// Gone with the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStore>,
    /// An MCP server keeps it, under keys that begin with agentd.NAMESPACE/NAME/.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpStore>,
    /// An HTTP service keeps it, under keys that begin with agentd.NAMESPACE/NAME/.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpStore>,
}

/// A store in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryStore {}

/// A store in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(has(self.ephemeral) && self.ephemeral) || !(has(self.size) || has(self.storageClassName) || has(self.retain) || has(self.claimName))")
        .message("ephemeral needs no size, storageClassName, retain or claimName"),
    validation = Rule::new("!has(self.claimName) || !(has(self.size) || has(self.storageClassName) || has(self.retain))")
        .message("a claim of yours has its own size and class, and is kept: no size, storageClassName or retain beside claimName"),
)]
pub struct FileStore {
    /// The size of the claim. It only grows. Absent: 1Gi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    /// The class of the claim. Absent: the cluster's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
    /// What happens to the claim when the Agent goes. Absent: Delete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retain: Option<Retain>,
    /// A claim that is there already, such as one that another Agent left behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub claim_name: Option<String>,
    /// The state goes with the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<bool>,
}

impl FileStore {
    /// Whether the state goes with the pod.
    pub fn is_ephemeral(&self) -> bool {
        self.ephemeral == Some(true)
    }
}

/// What happens to a claim when its Agent goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum Retain {
    Delete,
    Retain,
}

/// A store behind an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpStore {
    /// A name in mcpServers.
    #[schemars(length(min = 1, max = 63))]
    pub server: String,
}

/// A store behind HTTP.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpStore {
    /// The base over https.
    #[schemars(length(max = 2048))]
    pub url: String,
    /// Headers, credentials, TLS, clocks.
    #[serde(flatten)]
    pub destination: Destination,
}
