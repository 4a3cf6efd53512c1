//! The worker's MCP connections and the catalogue over them. Connections stay open between turns; before a turn what
//! the supervisor can reach is dialled, what changed is dialled anew, what is gone is closed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_agent::ServerNote;
use agentd_config::Document;
use agentd_config::document::McpServer;
use agentd_mcp::{Catalogue, Connection, Kind, Outbound, Tool};
use futures::FutureExt as _;
use futures::future::join_all;

use super::frame::Reachable;

/// What a turn may use.
#[derive(Default)]
pub struct Toolbox {
    held: BTreeMap<String, Held>,
    catalogue: Arc<Catalogue>,
}

/// A server that is connected.
struct Held {
    server: McpServer,
    connection: Connection,
    tools: Vec<Tool>,
}

impl Toolbox {
    /// Connects what is reachable and builds the catalogue. A server that fails is left out of this turn, and named.
    pub async fn prepare(
        &mut self,
        document: &Document,
        reachable: &[Reachable],
        outbound: &Outbound,
    ) -> Vec<String> {
        let wanted: BTreeMap<&str, (&McpServer, &Reachable)> = document
            .mcp
            .servers
            .iter()
            .filter_map(|server| {
                let reachable = reachable.iter().find(|reachable| reachable.name == server.name)?;
                Some((server.name.as_str(), (server, reachable)))
            })
            .collect();
        let before = std::mem::take(&mut self.held);
        let mut closing = Vec::new();
        for (name, held) in before {
            let same = wanted
                .get(name.as_str())
                .is_some_and(|(server, _)| **server == held.server);
            let lost = held.connection.lost().now_or_never().is_some();
            if same && !lost {
                self.held.insert(name, held);
            } else {
                closing.push(held.connection);
            }
        }
        let timeout = document.mcp.default_timeout.map(|timeout| timeout.0);
        let missing = wanted
            .values()
            .filter(|(server, _)| !self.held.contains_key(&server.name));
        let opening = missing.map(|(server, reachable)| open(server, timeout, reachable, outbound));
        let (opened, ()) = tokio::join!(join_all(opening), close(closing));
        let mut failed = Vec::new();
        for one in opened {
            match one {
                Ok(held) => drop(self.held.insert(held.server.name.clone(), held)),
                Err(name) => failed.push(name),
            }
        }
        let tools = self
            .held
            .values()
            .map(|held| (&held.server, held.tools.as_slice()));
        self.catalogue = Arc::new(Catalogue::build(tools));
        failed
    }

    /// What a turn may call.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue.clone()
    }

    /// The connections behind the catalogue, by server.
    pub fn connections(&self) -> BTreeMap<String, Connection> {
        self.held
            .iter()
            .map(|(name, held)| (name.clone(), held.connection.clone()))
            .collect()
    }

    /// What the servers say about themselves. Untrusted text.
    pub fn notes(&self) -> Vec<ServerNote> {
        let notes = self.held.values().filter_map(|held| {
            let text = held.connection.instructions()?;
            Some(ServerNote {
                server: held.server.name.clone(),
                text: text.to_owned(),
            })
        });
        notes.collect()
    }

    /// Ends every session, best effort.
    pub async fn close(self) {
        close(self.held.into_values().map(|held| held.connection)).await;
    }
}

async fn open(
    server: &McpServer,
    timeout: Option<Duration>,
    reachable: &Reachable,
    outbound: &Outbound,
) -> Result<Held, String> {
    let kind = Kind::Worker { era: reachable.era };
    let opened = async {
        let connection = Connection::open(server, timeout, kind, outbound).await?;
        let tools = connection.tools().await?;
        Ok::<_, agentd_mcp::ConnectError>(Held {
            server: server.clone(),
            connection,
            tools,
        })
    };
    opened.await.map_err(|error| {
        tracing::warn!(event = "mcp.connect.fail", mcp.server = server.name, err = %error);
        server.name.clone()
    })
}

async fn close(connections: impl IntoIterator<Item = Connection>) {
    join_all(
        connections
            .into_iter()
            .map(|connection| async move { connection.close().await }),
    )
    .await;
}
