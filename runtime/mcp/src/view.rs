//! The servers as they are now: what the supervisor shows, reports and builds its catalogue from. Pure.

use std::sync::Arc;

use agentd_base::limit::{MESSAGE_CHARS, REPORTED_TOOLS};
use agentd_base::report::{self, ServerInfo, ServerState};
use agentd_base::text::clip;
use agentd_config::document::McpServer;

use crate::catalogue::{Catalogue, Tool};
use crate::connection::{ConnectError, Connection, Era, Proof};
use crate::resource::Resource;

/// One server as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerView {
    /// Its entry in the document.
    pub server: McpServer,
    /// What the last exchange showed.
    pub state: ServerState,
    /// Why it is not connected.
    pub message: Option<String>,
    /// How often it could not be connected, or broke off at once.
    pub failures: u64,
    /// From the last handshake that succeeded; without it nothing is known of the server itself.
    pub info: Option<ServerInfo>,
    /// Negotiated; for the spawn payload.
    pub era: Option<Era>,
    /// Untrusted, cut.
    pub instructions: Option<String>,
    /// All tools of the server, before allow and exclude, as the last exchange that succeeded showed them. Only those of
    /// a connected server stand in the catalogue.
    pub tools: Vec<Tool>,
    /// The first of the server's resources, likewise.
    pub resources: Vec<Resource>,
    /// How many resources there are in all.
    pub resource_count: u32,
}

impl ServerView {
    /// A server that was not asked yet.
    pub fn new(server: McpServer) -> Self {
        Self {
            server,
            state: ServerState::Connecting,
            message: None,
            failures: 0,
            info: None,
            era: None,
            instructions: None,
            tools: Vec::new(),
            resources: Vec::new(),
            resource_count: 0,
        }
    }

    /// An exchange succeeded.
    pub fn connected(&mut self, connection: &Connection, proof: Proof) {
        self.state = ServerState::Connected;
        self.message = None;
        self.info = Some(proof.info);
        self.era = Some(connection.era());
        self.instructions = connection.instructions().map(str::to_owned);
        self.tools = proof.tools;
        self.resources = proof.resources;
        self.resource_count = proof.resource_count;
    }

    /// An exchange failed. What is known of the server stays known: it is away, not another one.
    pub fn failed(&mut self, error: &ConnectError) {
        self.state = error.state;
        self.message = Some(error.message.clone());
        self.failures = self.failures.saturating_add(1);
    }

    fn report(&self) -> report::Server {
        let mut tools: Vec<report::Tool> = self
            .tools
            .iter()
            .map(|tool| report::Tool {
                name: tool.name.clone(),
                digest: tool.digest.clone(),
            })
            .collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools.truncate(REPORTED_TOOLS);
        for tool in &mut tools {
            tool.name = clip(&tool.name, agentd_base::limit::FOREIGN_CHARS);
        }
        report::Server {
            name: self.server.name.clone(),
            state: self.state,
            message: self
                .message
                .as_deref()
                .map(|message| clip(message, MESSAGE_CHARS)),
            info: self.info.clone(),
            tools,
            tool_count: u32::try_from(self.tools.len()).unwrap_or(u32::MAX),
            resource_count: self.resource_count,
        }
    }
}

/// All servers as they are now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServersView {
    /// In the order of the document.
    pub servers: Vec<ServerView>,
    /// Of the connected servers.
    pub catalogue: Arc<Catalogue>,
}

impl ServersView {
    pub(crate) fn of(servers: Vec<ServerView>) -> Self {
        let connected = servers.iter().filter(|view| view.state == ServerState::Connected);
        let tools = connected.map(|view| (&view.server, view.tools.as_slice()));
        let catalogue = Arc::new(Catalogue::build(tools));
        Self { servers, catalogue }
    }

    /// For the report, sorted by name, cut to its bounds.
    pub fn report(&self) -> Vec<report::Server> {
        let mut servers: Vec<_> = self.servers.iter().map(ServerView::report).collect();
        servers.sort_by(|one, other| one.name.cmp(&other.name));
        servers
    }

    /// True once every server has been tried.
    pub fn settled(&self) -> bool {
        self.servers
            .iter()
            .all(|view| view.state != ServerState::Connecting)
    }
}
