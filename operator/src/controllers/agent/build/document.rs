//! The runtime document of an Agent. Pure: from parts that are already decided.

use agentd_base::duration::Duration;
use agentd_config::document::{
    A2a, Agent, Document, External, Identity, Intelligence, Limits, Mcp, McpServer, Principal, Report,
    RunLimits, Security, Skill, Store, SubagentLimits, ToolsRefresh,
};

use crate::controllers::platform;
use crate::controllers::workload::SERVE_PORT;

/// Where the store's volume is mounted.
pub const STATE_FOLDER: &str = "/var/lib/agentd";

/// What the document is made of.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The durable name of the instance.
    pub name: String,
    /// The text, or the reference of the file that holds it.
    pub instruction: Option<String>,
    /// The language model.
    pub intelligence: Intelligence,
    /// The servers.
    pub servers: Vec<McpServer>,
    /// The URL of the card.
    pub url: String,
    /// That for callers outside the cluster.
    pub external: Option<External>,
    /// What the card says that it can do.
    pub skills: Vec<Skill>,
    /// Who may call.
    pub principals: Vec<Principal>,
    /// Where state lives.
    pub store: Store,
    /// Model and tool calls of a turn.
    pub steps: u32,
    /// Its tokens.
    pub tokens: u64,
    /// Its time.
    pub deadline: Option<Duration>,
    /// Of the subagents that turns start.
    pub subagents: SubagentLimits,
    /// What is otherwise refused.
    pub security: Security,
    /// The pod's identity.
    pub identity: Identity,
    /// Where it reports.
    pub report: Report,
}

/// The document.
pub fn document(parts: Parts) -> Document {
    let Parts {
        name,
        instruction,
        intelligence,
        servers,
        url,
        external,
        skills,
        principals,
        store,
        steps,
        tokens,
        deadline,
        subagents,
        security,
        identity,
        report,
    } = parts;
    Document {
        agent: Agent {
            name: Some(name),
            instruction,
            ..Agent::default()
        },
        intelligence,
        mcp: Mcp {
            default_timeout: None,
            // Reports and status follow what the servers offer; a person need not reload anything.
            tools_refresh: ToolsRefresh::Live,
            servers,
        },
        a2a: A2a {
            listen: Some(format!("https://{}", platform::any(SERVE_PORT))),
            url: Some(url),
            external,
            skills,
            principals,
            ..A2a::default()
        },
        store,
        limits: Limits {
            run: RunLimits {
                steps: Some(steps),
                tokens: Some(tokens),
                deadline,
            },
            subagents,
        },
        lifecycle: platform::lifecycle(),
        identity: Some(identity),
        report: Some(report),
        security,
        observability: platform::observability(),
        ..Document::default()
    }
}
