//! Keeps every declared server connected: one task each, growing back-off with jitter, and one view of them all.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::report::{self, ServerInfo, ServerState};
use agentd_config::document::{Mcp, McpServer};
use tokio::sync::watch;

use crate::catalogue::{Catalogue, Tool};
use crate::connection::{Connection, Era};
use crate::outbound::Outbound;

/// One server as it is now.
#[derive(Debug, Clone)]
pub struct ServerView {
    /// Its entry in the document.
    pub server: McpServer,
    /// What the last exchange showed.
    pub state: ServerState,
    /// Why it is not connected.
    pub message: Option<String>,
    /// From the last handshake.
    pub info: Option<ServerInfo>,
    /// Negotiated; for the spawn payload.
    pub era: Option<Era>,
    /// Untrusted, cut.
    pub instructions: Option<String>,
    /// All tools of the server, before allow and exclude.
    pub tools: Vec<Tool>,
    /// All resources of the server.
    pub resource_count: u32,
}

/// All servers as they are now.
#[derive(Debug, Clone, Default)]
pub struct ServersView {
    /// In the order of the document.
    pub servers: Vec<ServerView>,
    /// Of the connected servers.
    pub catalogue: Arc<Catalogue>,
}

impl ServersView {
    /// For the report, sorted by name, cut to its bounds.
    pub fn report(&self) -> Vec<report::Server> {
        todo!()
    }

    /// True once every server has been tried.
    pub fn settled(&self) -> bool {
        self.servers.iter().all(|server| server.state != ServerState::Connecting)
    }
}

/// Waits between tries of a server that failed.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// After the first failure; doubles.
    pub first: Duration,
    /// The longest.
    pub max: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), max: Duration::from_secs(30) }
    }
}

/// The supervision of all servers. Dropping it ends the tasks.
pub struct Supervised {
    _private: (),
}

impl Supervised {
    /// Starts one task a server. `instance` is the title of boot connections.
    pub fn start(mcp: &Mcp, instance: String, outbound: Outbound, pace: Pace) -> Self {
        let _ = (mcp, instance, outbound, pace);
        todo!()
    }

    /// The view, and its changes.
    pub fn view(&self) -> watch::Receiver<Arc<ServersView>> {
        todo!()
    }

    /// Takes up another `mcp` block: what did not change stays connected, the rest is dialled anew.
    pub fn reload(&self, mcp: &Mcp) {
        let _ = mcp;
        todo!()
    }

    /// The open connection to a server.
    pub fn connection(&self, server: &str) -> Option<Connection> {
        let _ = server;
        todo!()
    }

    /// Closes every session, best effort within 1 s.
    pub async fn close(self) {
        todo!()
    }
}
