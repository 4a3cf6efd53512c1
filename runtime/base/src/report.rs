//! What a pod says about itself: `POST /v1/report` over mTLS to the operator's report port. Every report is full, so
//! the last one that arrived is the truth; a pod sends one when it connects and one whenever the content changes.
//! Strings that come from MCP servers are cut and cleaned by the sender and once more by the receiver.

use serde::{Deserialize, Serialize};

/// The path of the request.
pub const PATH: &str = "/v1/report";
/// The port of the report Service and of the operator's container.
pub const PORT: u16 = 8444;

/// The state of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The pod's own name.
    pub pod_name: String,
    /// The pod's own UID: only the pod of the current revision counts.
    pub pod_uid: String,
    /// Digest of the live folder that the pod runs with ([`crate::digest::of_files`]); absent before the first load.
    pub running_digest: Option<String>,
    /// A live folder that was refused, and why: the pod keeps the one before.
    pub rejected: Option<Rejected>,
    /// Secret files that the document refers to and that are not there, as `secret/key`, sorted.
    pub missing_secrets: Vec<String>,
    /// The MCP servers: an agent's catalogue, or the one server of a bridge; sorted by name.
    pub servers: Vec<Server>,
    /// A2A versions the listener speaks (agents only).
    pub a2a_versions: Vec<String>,
    /// Tools in the agent's catalogue, after allow and deny.
    pub tool_count: u32,
    /// Digest over that catalogue; absent when it is empty.
    pub tool_digest: Option<String>,
    /// A bridge whose server answers on the pod's own address too: it can be reached past the bridge.
    pub listens_on_all_addresses: bool,
}

/// A refused live folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Its digest.
    pub digest: String,
    /// Names the key and the remedy.
    pub message: String,
}

/// One MCP server as its client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The name in the document.
    pub name: String,
    /// What the last exchange showed.
    pub state: ServerState,
    /// One line for people when not connected.
    pub message: Option<String>,
    /// From the handshake.
    pub info: Option<ServerInfo>,
    /// At most [`crate::limit::REPORTED_TOOLS`], sorted by name.
    pub tools: Vec<Tool>,
    /// All tools of the server.
    pub tool_count: u32,
    /// All resources of the server.
    pub resource_count: u32,
}

/// What the last exchange with a server showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    /// No exchange has ended yet.
    Connecting,
    /// Handshake and `tools/list` succeeded.
    Connected,
    /// It answered 401 or 403: reachable, not verified.
    Unauthorized,
    /// It did not answer, or not with MCP.
    Failed,
}

/// What a server said of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// `serverInfo.name`.
    pub name: String,
    /// `serverInfo.version`.
    pub version: String,
    /// The negotiated revision.
    pub protocol_version: String,
    /// Names of the capabilities, such as `tools`, `resources.subscribe`; sorted.
    pub capabilities: Vec<String>,
}

/// A tool and the digest of its definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// The name at the server.
    pub name: String,
    /// `sha256:…` over the definition.
    pub digest: String,
}
