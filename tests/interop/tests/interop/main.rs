//! Our MCP client against servers that we did not write: the TypeScript reference server, fastmcp on the current Python
//! SDK, releases of that SDK from the time of each older revision, and the TypeScript SDK of the stateless revision.

mod calls;
mod eras;
mod oauth;
mod people;
mod resources;
mod sessions;

use std::sync::OnceLock;

use agentd_config::document::McpServer;
use agentd_interop::peers::Peer;
use agentd_interop::{arguments, meta, server};
use agentd_mcp::{Connection, Hooks, Kind, Outbound, ToolOutcome};
use serde_json::Value;

/// Servers that no test changes are started once; they end with this process.
fn everything() -> u16 {
    static PEER: OnceLock<Peer> = OnceLock::new();
    PEER.get_or_init(Peer::everything).port
}

fn both_eras() -> u16 {
    static PEER: OnceLock<Peer> = OnceLock::new();
    PEER.get_or_init(|| Peer::both_eras(&[])).port
}

fn stateless() -> u16 {
    static PEER: OnceLock<Peer> = OnceLock::new();
    PEER.get_or_init(|| Peer::stateless(&[])).port
}

async fn open(port: u16, kind: Kind) -> Connection {
    open_with(port, kind, Hooks::default()).await
}

async fn open_with(port: u16, kind: Kind, hooks: Hooks) -> Connection {
    open_server(&server(port), kind, hooks).await
}

async fn open_server(server: &McpServer, kind: Kind, hooks: Hooks) -> Connection {
    let opened = Connection::open(server, None, kind, &Outbound::default(), hooks).await;
    opened.unwrap_or_else(|error| panic!("{}: {error}", server.endpoint))
}

async fn call(connection: &Connection, tool: &str, given: Value) -> ToolOutcome {
    connection
        .call(tool, arguments(&given), &meta(tool))
        .await
        .unwrap_or_else(|error| panic!("{tool}: {error}"))
}
