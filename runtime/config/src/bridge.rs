//! The document of `agentd bridge`: the sidecar of an operator-run MCP server. As with the agent's, a restart-only
//! file and a live folder make one.

use agentd_base::duration::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{Identity, Lifecycle, Observability, Report};

/// The whole document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BridgeDocument {
    /// The name in reports: the McpServer's.
    pub name: String,
    /// `ADDRESS:PORT` of the mTLS listener.
    pub listen: std::net::SocketAddr,
    /// The server's loopback port.
    pub upstream_port: u16,
    /// The server's MCP path, such as `/mcp`. Callers use the same path.
    pub upstream_path: String,
    /// Handshake and each list page of the proving exchange. Absent: 60 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Exact SPIFFE IDs that may call: checked on each request. Reloadable.
    #[serde(default)]
    pub allowed: Vec<String>,
    /// The pod's identity.
    pub identity: Identity,
    /// Where it reports.
    pub report: Report,
    /// Drain and live folder.
    #[serde(default)]
    pub lifecycle: Lifecycle,
    /// Probes and metrics.
    #[serde(default)]
    pub observability: Observability,
}
