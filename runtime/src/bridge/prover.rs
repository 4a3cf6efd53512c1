//! Proves the MCP server behind the bridge by a real exchange over loopback: handshake, tools, resources. A server that
//! fails is tried again with growing waits; one that was proven is proven again when its session ends or the proxy sees
//! it go or come back. Whether the server can be reached past the bridge is looked at each time, proven or not.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use agentd_config::document::McpServer;
use agentd_mcp::{ConnectError, Connection, Hooks, Kind, Outbound, Proof, ServerView};
use agentd_net::session::listens;
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
pub struct Found {
    /// As its client sees it.
    pub server: ServerView,
    /// Whether it answers on the pod's own address too; absent until somebody could look.
    pub listens_on_all_addresses: Option<bool>,
}

/// What to prove.
pub struct Prover {
    /// The server on loopback.
    pub server: McpServer,
    /// The title of our handshake.
    pub instance: String,
    /// Where its port may be open.
    pub ports: Ports,
    /// Someone saw the server go or come back.
    pub again: Arc<Notify>,
}

/// The server's port, as seen from both sides of the pod.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    /// Where the bridge forwards to.
    pub inside: SocketAddr,
    /// On the pod's own address, which is not known outside a pod.
    pub outside: Option<SocketAddr>,
}

impl Ports {
    /// Of a server on this port in the pod with this address.
    pub fn new(pod: Option<IpAddr>, port: u16) -> Self {
        Self {
            inside: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
            outside: pod.map(|ip| SocketAddr::new(ip, port)),
        }
    }

    /// Looks whether the port is open to others, whatever it speaks. `None` when that cannot be known now.
    async fn are_open_to_all(self) -> Option<bool> {
        let outside = self.outside?;
        // In this order: a server that comes up in between must not pass for one that hides.
        let inside = listens(self.inside, PROBE).await;
        judge(inside, listens(outside, PROBE).await)
    }
}

/// A port that is closed on both sides says nothing about the server that will open it.
fn judge(inside: bool, outside: bool) -> Option<bool> {
    (inside || outside).then_some(outside)
}

impl Prover {
    /// Nothing is known yet.
    pub fn unproven(&self) -> Found {
        Found {
            server: ServerView::new(self.server.clone()),
            listens_on_all_addresses: None,
        }
    }

    /// Proves for as long as the process lives.
    pub async fn run(self, found: watch::Sender<Found>) {
        let mut backoff = Backoff::new(PACE);
        loop {
            let proven = self.prove().await;
            let open = self.ports.are_open_to_all().await;
            found.send_modify(|found| {
                match &proven {
                    Ok((connection, proof)) => found.server.connected(connection, proof.clone()),
                    Err(error) => found.server.failed(error),
                }
                // What was seen stands until the port can be looked at again.
                found.listens_on_all_addresses = open.or(found.listens_on_all_addresses);
            });
            match proven {
                Ok((connection, proof)) => {
                    backoff.reset();
                    tracing::info!(
                        event = "mcp.connect",
                        mcp.server = self.server.name,
                        tools = proof.tools.len()
                    );
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
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = self.again.notified() => {}
                    }
                }
            }
        }
    }

    async fn prove(&self) -> Result<(Connection, Proof), ConnectError> {
        let kind = Kind::Boot {
            instance: self.instance.clone(),
        };
        let connection =
            Connection::open(&self.server, None, kind, &Outbound::default(), Hooks::default()).await?;
        match Proof::of(&connection).await {
            Ok(proof) => Ok((connection, proof)),
            Err(error) => {
                connection.close().await;
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_open_port_says_where_its_server_listens() {
        assert_eq!(judge(true, false), Some(false));
        assert_eq!(judge(true, true), Some(true));
        assert_eq!(
            judge(false, true),
            Some(true),
            "past the bridge alone is past the bridge"
        );
        assert_eq!(judge(false, false), None);
    }
}
