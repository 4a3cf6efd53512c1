//! The worker's MCP connections. They stay open between turns; before a turn what the supervisor can reach is dialled,
//! what changed is dialled anew, what is gone is closed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_config::Document;
use agentd_config::document::{McpServer, ToolsRefresh};
use agentd_mcp::{Connection, Hooks, Outbound, Tool};
use futures::FutureExt as _;
use futures::future::join_all;

use super::asking::Asker;
use super::frame::Reachable;
use super::listing::{Held, Listing};

/// What a turn may use.
pub struct Toolbox {
    held: BTreeMap<String, Arc<Held>>,
    /// The configuration that tools were listed for.
    generation: Option<u64>,
    /// The tools of the agent's catalogue, by server, where they were given.
    given: BTreeMap<String, Arc<Vec<Tool>>>,
    asker: Arc<Asker>,
}

impl Toolbox {
    /// Without a connection. Questions of servers go to `asker`.
    pub fn new(asker: Arc<Asker>) -> Self {
        Self {
            held: BTreeMap::new(),
            generation: None,
            given: BTreeMap::new(),
            asker,
        }
    }

    /// The tools of a server as the agent's catalogue has them.
    pub fn give(&mut self, server: String, tools: Vec<Tool>) {
        self.given.insert(server, Arc::new(tools));
    }

    /// Another configuration: what was given before it is listed anew.
    pub fn forget(&mut self) {
        self.given.clear();
    }

    /// Connects what is reachable. With another configuration every server is listed anew; so is one that lists other
    /// things to the supervisor, or did not tell us all of its lists. A server that fails is left out of this turn, and named.
    pub async fn prepare(
        &mut self,
        document: &Document,
        generation: u64,
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
                closing.push(held.connection.clone());
            }
        }
        let reloaded = self
            .generation
            .replace(generation)
            .is_some_and(|before| before != generation);
        let sources = &document.skills.sources;
        let is_source = |server: &str| sources.iter().any(|source| source.server == server);
        for (name, held) in &self.held {
            held.is_source(is_source(name));
        }
        let stale: Vec<Arc<Held>> = self
            .held
            .values()
            .filter(|held| {
                let reachable = wanted
                    .get(held.server.name.as_str())
                    .map(|(_, reachable)| reachable);
                reachable.is_some_and(|reachable| held.is_news(&reachable.digest))
                    || held.is_short()
                    || reloaded
            })
            .cloned()
            .collect();
        let refreshing = join_all(stale.iter().map(|held| held.refresh()));
        let timeout = document.mcp.default_timeout.map(|timeout| timeout.0);
        let missing = wanted
            .values()
            .filter(|(server, _)| !self.held.contains_key(&server.name));
        let opening = missing.map(|(server, reachable)| {
            self.open(server, timeout, reachable, is_source(&server.name), outbound)
        });
        let (opened, _, ()) = tokio::join!(join_all(opening), refreshing, close(closing));
        let mut failed = Vec::new();
        for one in opened {
            match one {
                Ok(held) => drop(self.held.insert(held.server.name.clone(), Arc::new(held))),
                Err(name) => failed.push(name),
            }
        }
        let live = document.mcp.tools_refresh == ToolsRefresh::Live;
        for (name, held) in &self.held {
            held.give(self.given.get(name).filter(|_| !live).cloned());
        }
        failed
    }

    async fn open(
        &self,
        server: &McpServer,
        timeout: Option<Duration>,
        reachable: &Reachable,
        is_source: bool,
        outbound: &Outbound,
    ) -> Result<Held, String> {
        let hooks = Hooks {
            elicitor: Some(self.asker.clone()),
        };
        let opened = Held::open(server, timeout, reachable, is_source, outbound, hooks).await;
        opened.map_err(|error| {
            tracing::warn!(event = "mcp.connect.fail", mcp.server = server.name, err = %error);
            server.name.clone()
        })
    }

    /// What a turn may use, while it runs.
    pub fn listing(&self, document: &Document) -> Listing {
        let servers = document.mcp.servers.iter();
        let held = servers.filter_map(|server| self.held.get(&server.name).cloned());
        Listing::new(held.collect(), document.mcp.tools_refresh == ToolsRefresh::Live)
    }

    /// Ends every session, best effort.
    pub async fn close(self) {
        close(self.held.values().map(|held| held.connection.clone())).await;
    }
}

async fn close(connections: impl IntoIterator<Item = Connection>) {
    join_all(
        connections
            .into_iter()
            .map(|connection| async move { connection.close().await }),
    )
    .await;
}
