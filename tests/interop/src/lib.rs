//! What the suites of the MCP client share: servers that are not ours, a tap on the wire in front of them, and a scripted server that
//! behaves, from which a test takes one answer away.

pub mod peers;
mod relay;
pub mod sane;
pub mod tap;
pub mod watcher;

use std::time::Duration;

use agentd_config::document::McpServer;
use agentd_mcp::{CallMeta, Kind};
use serde_json::{Map, Value};

/// Longer than anything takes on a machine that is busy with other tests; for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server on loopback, by the path that all our peers have.
#[must_use]
pub fn server(port: u16) -> McpServer {
    McpServer {
        name: "peer".into(),
        endpoint: format!("http://127.0.0.1:{port}/mcp"),
        ..McpServer::default()
    }
}

/// The same with every clock set to `limit`.
#[must_use]
pub fn hasty(port: u16, limit: Duration) -> McpServer {
    let mut server = server(port);
    server.connection.timeout = Some(agentd_base::duration::Duration(limit));
    server.call_timeout = Some(agentd_base::duration::Duration(limit));
    server
}

/// What a supervisor opens.
#[must_use]
pub fn boot() -> Kind {
    Kind::Boot {
        instance: "agent-0".into(),
    }
}

/// What a turn's worker opens when it knows nothing of the server.
#[must_use]
pub const fn worker() -> Kind {
    Kind::Worker { era: None }
}

/// What goes with a call; `key` tells it from others.
#[must_use]
pub fn meta(key: &str) -> CallMeta {
    CallMeta {
        run_id: "run-1".into(),
        instance: "agent-0".into(),
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
        idempotency_key: key.into(),
        ordinal: 1,
    }
}

/// Arguments as they are sent.
///
/// # Panics
/// When it is no object.
#[must_use]
pub fn arguments(value: &Value) -> Map<String, Value> {
    value.as_object().expect("arguments are an object").clone()
}

/// Within [`PATIENCE`].
///
/// # Panics
/// When it takes longer.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("not in {PATIENCE:?}: {what}"),
    }
}
