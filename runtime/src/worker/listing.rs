//! One server that a worker is connected to, with what it listed. Lists are asked for again when the server says that
//! they have changed, at most once for however many times it says so.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentd_agent::{Offer, ServerOffer};
use agentd_config::document::McpServer;
use agentd_mcp::{
    Catalogue, ConnectError, Connection, Hooks, Kind, Outbound, Prompt, Resource, ResourceTemplate, Tool,
};
use futures::future::join_all;

use super::frame::Reachable;

/// A server that is connected.
pub struct Held {
    /// Its entry in the document.
    pub server: McpServer,
    /// The connection.
    pub connection: Connection,
    lists: Mutex<Lists>,
}

/// What the server listed last, and how often it had said by then that it would list something else.
#[derive(Default)]
struct Lists {
    tools: Vec<Tool>,
    /// In the place of them: those of the agent's catalogue.
    given: Option<Arc<Vec<Tool>>>,
    resources: Vec<Resource>,
    templates: Vec<ResourceTemplate>,
    prompts: Vec<Prompt>,
    /// Its prompts are skills, so that they are listed.
    is_source: bool,
    tools_said: u64,
    resources_said: u64,
    /// Resources or prompts were asked for and not told.
    is_short: bool,
    /// What the supervisor had seen by then.
    digest: String,
}

impl Held {
    /// Dials, shakes hands and asks for the lists.
    pub async fn open(
        server: &McpServer,
        timeout: Option<Duration>,
        reachable: &Reachable,
        is_source: bool,
        outbound: &Outbound,
        hooks: Hooks,
    ) -> Result<Self, ConnectError> {
        let kind = Kind::Worker { era: reachable.era };
        let connection = Connection::open(server, timeout, kind, outbound, hooks).await?;
        let held = Self {
            server: server.clone(),
            connection,
            lists: Mutex::default(),
        };
        held.is_news(&reachable.digest);
        held.is_source(is_source);
        let (tools, ()) = tokio::join!(held.list_tools(), held.list_resources());
        tools.map(|_| held)
    }

    /// The tools that count in the place of those that were listed.
    pub fn give(&self, tools: Option<Arc<Vec<Tool>>>) {
        self.lists().given = tools;
    }

    /// Whether its prompts are skills; listed from the next time on.
    pub fn is_source(&self, is_source: bool) {
        self.lists().is_source = is_source;
    }

    /// Whether the supervisor has seen other lists than the last time it was asked about.
    pub fn is_news(&self, digest: &str) -> bool {
        let mut lists = self.lists();
        let news = lists.digest != digest;
        digest.clone_into(&mut lists.digest);
        news
    }

    /// Whether it owes a list: what failed once is not what the server has.
    pub fn is_short(&self) -> bool {
        self.lists().is_short
    }

    /// Asks for everything again.
    pub async fn refresh(&self) {
        tokio::join!(self.refresh_tools(), self.list_resources());
    }

    /// Asks for the tools again; what it listed before stands where that fails. True when they are others now.
    async fn refresh_tools(&self) -> bool {
        match self.list_tools().await {
            Ok(changed) => {
                if changed {
                    let tools = self.lists().tools.len();
                    tracing::info!(
                        event = "mcp.tools_refreshed",
                        mcp.server = self.server.name,
                        tools
                    );
                }
                changed
            }
            Err(error) => {
                tracing::warn!(event = "mcp.tools_refresh_failed", mcp.server = self.server.name, err = %error);
                false
            }
        }
    }

    async fn list_tools(&self) -> Result<bool, ConnectError> {
        // Read before the list is asked for: what changes meanwhile is asked for next time.
        self.lists().tools_said = *self.connection.tools_changed().borrow();
        let tools = self.connection.tools().await?;
        let mut lists = self.lists();
        let changed = lists.tools != tools;
        lists.tools = tools;
        Ok(changed)
    }

    /// A server whose resources cannot be listed still has its tools.
    async fn list_resources(&self) {
        let prompts = self.connection.offers_prompts() && self.lists().is_source;
        if !self.connection.offers_resources() && !prompts {
            self.lists().is_short = false;
            return;
        }
        self.lists().resources_said = *self.connection.resources_changed().borrow();
        let (resources, templates, prompts) = tokio::join!(
            self.connection.resources(),
            self.connection.resource_templates(),
            async {
                match prompts {
                    true => self.connection.prompts().await,
                    false => Ok(Vec::new()),
                }
            }
        );
        let failed = |error: &ConnectError| {
            tracing::warn!(event = "mcp.resources_refresh_failed", mcp.server = self.server.name, err = %error);
        };
        let resources = resources.inspect_err(failed);
        let templates = templates.inspect_err(failed);
        let prompts = prompts.inspect_err(failed);
        let mut lists = self.lists();
        // Templates apart: many servers with resources know no such list.
        lists.is_short = resources.is_err() || prompts.is_err();
        if let Ok(resources) = resources {
            lists.resources = resources;
        }
        if let Ok(templates) = templates {
            lists.templates = templates;
        }
        if let Ok(prompts) = prompts {
            lists.prompts = prompts;
        }
    }

    /// What the server says has changed since it was asked last: its tools, where they are followed (`live`), and its
    /// resources.
    fn said(&self, live: bool) -> (bool, bool) {
        let lists = self.lists();
        let tools = live && *self.connection.tools_changed().borrow() != lists.tools_said;
        let resources = *self.connection.resources_changed().borrow() != lists.resources_said;
        (tools, resources)
    }

    /// Asks again for what the server says has changed: whether there are other tools, and other resources perhaps.
    async fn follow(&self, live: bool) -> (bool, bool) {
        let (tools, resources) = self.said(live);
        let tools = async { tools && self.refresh_tools().await };
        let resources = async {
            if resources {
                self.list_resources().await;
            }
            resources
        };
        tokio::join!(tools, resources)
    }

    fn offer(&self) -> ServerOffer {
        let lists = self.lists();
        ServerOffer {
            server: self.server.name.clone(),
            note: self.connection.instructions().map(str::to_owned),
            resources: lists.resources.clone(),
            templates: lists.templates.clone(),
            prompts: lists.prompts.clone(),
        }
    }

    fn tools(&self) -> Vec<Tool> {
        let lists = self.lists();
        lists.given.as_deref().unwrap_or(&lists.tools).clone()
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The servers of a turn, and what they offer as one value.
pub struct Listing {
    held: Vec<Arc<Held>>,
    /// `mcp.tools_refresh: live`.
    live: bool,
    last: Mutex<Option<Arc<Offer>>>,
}

impl Listing {
    /// Of these servers, in the order of the document.
    pub fn new(held: Vec<Arc<Held>>, live: bool) -> Self {
        Self {
            held,
            live,
            last: Mutex::default(),
        }
    }

    /// The connection to a server.
    pub fn connection(&self, server: &str) -> Option<&Connection> {
        let held = self.held.iter().find(|held| held.server.name == server)?;
        Some(&held.connection)
    }

    /// What they offer now, the same `Arc` while nothing has changed; and the servers that have other tools since they
    /// were asked last.
    pub async fn offer(&self) -> (Arc<Offer>, Vec<String>) {
        // Nearly every round: nothing is made ready for questions that nobody has.
        let is_quiet = self
            .held
            .iter()
            .all(|held| held.said(self.live) == (false, false));
        if is_quiet && let Some(offer) = &*self.last() {
            return (offer.clone(), Vec::new());
        }
        let changes = join_all(self.held.iter().map(|held| held.follow(self.live))).await;
        let is_same = changes.iter().all(|(tools, resources)| !tools && !resources);
        let changed = self.held.iter().zip(changes).filter(|(_, (tools, _))| *tools);
        let changed = changed.map(|(held, _)| held.server.name.clone()).collect();
        let mut last = self.last();
        let offer = match &*last {
            Some(offer) if is_same => offer.clone(),
            _ => last.insert(Arc::new(self.collect())).clone(),
        };
        (offer, changed)
    }

    fn last(&self) -> MutexGuard<'_, Option<Arc<Offer>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn collect(&self) -> Offer {
        let tools: Vec<(&McpServer, Vec<Tool>)> = self
            .held
            .iter()
            .map(|held| (&held.server, held.tools()))
            .collect();
        let listed = tools.iter().map(|(server, tools)| (*server, tools.as_slice()));
        Offer {
            catalogue: Arc::new(Catalogue::build(listed)),
            servers: self.held.iter().map(|held| held.offer()).collect(),
        }
    }
}
