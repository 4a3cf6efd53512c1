//! Facts that a pod reported. Owned by the field manager of reports alone.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a pod reported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reported {
    /// The pod that reported.
    #[serde(rename = "podUID", skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// The MCP servers as the pod sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub servers: Vec<ReportedServer>,
    /// Secret keys that the pod needs and that are not there, as secret/key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub missing_secrets: Vec<String>,
    /// The digest of the live configuration that a bridge runs. An Agent has it beside this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_digest: Option<String>,
    /// A live configuration that the pod refused; it keeps the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Rejected>,
    /// The server's container also answers on the pod's own address (bridges).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listens_on_all_addresses: Option<bool>,
}

/// A live configuration that a pod refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rejected {
    /// Its digest.
    pub digest: String,
    /// Names the key and the remedy.
    pub message: String,
}

/// One MCP server as a pod sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportedServer {
    /// Its name in the agent's catalogue; the McpServer's own name for a bridge.
    pub name: String,
    /// Connecting, Connected, Unauthorized, Failed.
    pub state: ReportedState,
    /// One line for people, when it is not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What the last exchange showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum ReportedState {
    Connecting,
    Connected,
    Unauthorized,
    Failed,
}
