//! The API types of `agentd.io`: `Agent` and `McpServer`, and the CRDs made of them. Types only: no client, no policy.
//!
//! Guarantees: what is optional is `Option` or an empty list and is not serialised when absent, so a server-side apply
//! of a part of a status owns that part alone; every bound and every rule is in the schema of the type it is about.

#![allow(
    unreachable_pub,
    reason = "KubeSchema copies each struct into a function, with its visibility"
)]

pub mod agent;
pub mod mcp_server;
pub mod schema;
pub mod shared;

pub use agent::{Agent, AgentSpec, AgentStatus};
pub use mcp_server::{McpServer, McpServerSpec, McpServerStatus};

/// The API group.
pub const GROUP: &str = "agentd.io";
/// The one version served.
pub const VERSION: &str = "v1alpha1";
