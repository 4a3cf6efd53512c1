//! The document of a bridge, and its halves. Pure.

use agentd_base::duration::Duration;
use agentd_config::BridgeDocument;
use agentd_config::document::{Identity, Report};
use serde_json::{Map, Value};

use crate::controllers::pair::Halves;
use crate::controllers::platform;
use crate::controllers::workload::SERVE_PORT;

/// The key that a running bridge takes up.
const ALLOWED: &str = "allowed";

/// What the document is made of.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The McpServer's name.
    pub name: String,
    /// The server's port.
    pub port: u16,
    /// Its path.
    pub path: String,
    /// Of the proving exchange.
    pub timeout: Duration,
    /// Who may call.
    pub allowed: Vec<String>,
    /// The pod's identity.
    pub identity: Identity,
    /// Where it reports.
    pub report: Report,
}

/// The document.
pub fn document(parts: Parts) -> BridgeDocument {
    let Parts {
        name,
        port,
        path,
        timeout,
        allowed,
        identity,
        report,
    } = parts;
    BridgeDocument {
        name,
        listen: platform::any(SERVE_PORT),
        upstream_port: port,
        upstream_path: path,
        timeout: Some(timeout),
        allowed,
        identity,
        report,
        lifecycle: platform::lifecycle(),
        observability: platform::observability(),
    }
}

/// Its halves: the list of callers is live.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn halves(document: &BridgeDocument, bundle_pem: &str) -> Result<Halves, serde_json::Error> {
    let mut restart_only = serde_json::to_value(document)?;
    let allowed = restart_only
        .as_object_mut()
        .and_then(|fields| fields.shift_remove(ALLOWED));
    let live = Map::from_iter([(
        ALLOWED.to_owned(),
        allowed.unwrap_or_else(|| Value::Array(Vec::new())),
    )]);
    Ok(Halves {
        file: "bridge.json",
        restart_only: serde_json::to_string(&restart_only)?,
        reloadable: serde_json::to_string(&live)?,
        bundle_pem: bundle_pem.to_owned(),
    })
}
