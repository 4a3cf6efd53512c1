//! Proves the MCP server behind the bridge by a real exchange over loopback: handshake, tools, resources. A server that
//! fails is tried again with growing waits; one that was proven is proven again when its session ends or the proxy sees
//! it go or come back. It also looks whether the server can be reached past the bridge.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use agentd_base::report::ServerState;
use agentd_config::document::McpServer;
use agentd_mcp::{ConnectError, Connection, Kind, Outbound, ServerView};
use agentd_net::{Backoff, Pace};
use tokio::sync::{Notify, watch};

/// A server that starts takes seconds; one that is broken stays so until somebody acts.
const PACE: Pace = Pace {
    first: Duration::from_millis(500),
    max: Duration::from_secs(30),
};
/// The pod's own address answers at once or not at all.
const PROBE: Duration = Duration::from_secs(2);

/// What is known of the server.
#[derive(Debug, Clone)]
pub struct Proof {
    /// As its client sees it.
    pub server: ServerView,
    /// It answers on the pod's own address too.
    pub listens_on_all_addresses: bool,
}

/// What to prove.
pub struct Prover {
    /// The server on loopback.
    pub server: McpServer,
    /// The title of our handshake.
    pub instance: String,
    /// The pod's own address and the server's port.
    pub outside: Option<SocketAddr>,
    /// Someone saw the server go or come back.
    pub again: Arc<Notify>,
}

impl Prover {
    /// Nothing is known yet.
    pub fn unproven(&self) -> Proof {
        Proof {
            server: self.empty(ServerState::Connecting, None),
            listens_on_all_addresses: false,
        }
    }

    /// Proves for as long as the process lives.
    pub async fn run(self, proof: watch::Sender<Proof>) {
        let mut backoff = Backoff::new(PACE);
        loop {
            match self.prove().await {
                Ok((connection, server)) => {
                    let open = self.listens_outside().await;
                    proof.send_replace(Proof {
                        server,
                        listens_on_all_addresses: open,
                    });
                    tokio::select! {
                        () = connection.lost() => tracing::info!(event = "mcp.disconnect", mcp.server = self.server.name),
                        () = self.again.notified() => {}
                    }
                    connection.close().await;
                    // Not in a hurry even if it flaps.
                    tokio::time::sleep(backoff.wait()).await;
                }
                Err(error) => {
                    let wait = backoff.wait();
                    tracing::warn!(event = "mcp.connect.fail", mcp.server = self.server.name, err = %error, next_s = wait.as_secs());
                    let server = self.empty(error.state, Some(error.message));
                    proof.send_modify(|proof| proof.server = server);
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = self.again.notified() => {}
                    }
                    continue;
                }
            }
            backoff.reset();
        }
    }

    async fn prove(&self) -> Result<(Connection, ServerView), ConnectError> {
        let kind = Kind::Boot {
            instance: self.instance.clone(),
        };
        let connection = Connection::open(&self.server, None, kind, &Outbound::default()).await?;
        let tools = connection.tools().await?;
        let resources = connection.resource_count().await?;
        tracing::info!(
            event = "mcp.connect",
            mcp.server = self.server.name,
            tools = tools.len()
        );
        let server = ServerView {
            state: ServerState::Connected,
            info: Some(connection.info().clone()),
            era: Some(connection.era()),
            tools,
            resource_count: resources,
            ..self.empty(ServerState::Connected, None)
        };
        Ok((connection, server))
    }

    async fn listens_outside(&self) -> bool {
        match self.outside {
            Some(address) => agentd_net::session::listens(address, PROBE).await,
            None => false,
        }
    }

    fn empty(&self, state: ServerState, message: Option<String>) -> ServerView {
        ServerView {
            server: self.server.clone(),
            state,
            message,
            info: None,
            era: None,
            instructions: None,
            tools: Vec::new(),
            resource_count: 0,
        }
    }
}

/// The address to look at: outside a pod there is none.
pub fn outside(ip: Option<IpAddr>, port: u16) -> Option<SocketAddr> {
    ip.map(|ip| SocketAddr::new(ip, port))
}
