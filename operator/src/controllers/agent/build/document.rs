//! The runtime document of an Agent. Pure: from parts that are already decided.

use std::path::PathBuf;

use agentd_base::duration::Duration;
use agentd_config::document::{
    A2a, Agent, Document, Identity, Intelligence, Limits, Mcp, McpServer, ModelEndpoint, Principal, Report,
    RunLimits, Security, Store, StoreKind, ToolsRefresh,
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
    /// Models, in order.
    pub endpoints: Vec<ModelEndpoint>,
    /// The model's name.
    pub model: Option<String>,
    /// The servers.
    pub servers: Vec<McpServer>,
    /// The URL of the card.
    pub url: String,
    /// Who may call.
    pub principals: Vec<Principal>,
    /// Whether the store is a file.
    pub file_store: bool,
    /// Model and tool calls of a turn.
    pub steps: u32,
    /// Its tokens.
    pub tokens: u64,
    /// Its time.
    pub deadline: Option<Duration>,
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
        endpoints,
        model,
        servers,
        url,
        principals,
        file_store,
        steps,
        tokens,
        deadline,
        identity,
        report,
    } = parts;
    Document {
        agent: Agent {
            name: Some(name),
            instruction,
            prompt: None,
        },
        intelligence: Intelligence { endpoints, model },
        mcp: Mcp {
            default_timeout: None,
            // Reports and status follow what the servers offer; a person need not reload anything.
            tools_refresh: ToolsRefresh::Live,
            servers,
        },
        a2a: A2a {
            listen: Some(format!("https://{}", platform::any(SERVE_PORT))),
            url: Some(url),
            tls: None,
            principals,
            dev: false,
        },
        store: Store {
            kind: Some(if file_store {
                StoreKind::File
            } else {
                StoreKind::Memory
            }),
            path: file_store.then(|| PathBuf::from(STATE_FOLDER)),
        },
        limits: Limits {
            run: RunLimits {
                steps: Some(steps),
                tokens: Some(tokens),
                deadline,
            },
        },
        lifecycle: platform::lifecycle(),
        identity: Some(identity),
        report: Some(report),
        security: Security::default(),
        observability: platform::observability(),
    }
}
