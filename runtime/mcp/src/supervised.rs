//! Keeps every declared server connected: one task each, growing back-off with jitter, and one view of them all. A
//! server that is away at the start, or goes away later, comes back by itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentd_base::limit::{MESSAGE_CHARS, REPORTED_TOOLS};
use agentd_base::report::{self, ServerInfo, ServerState};
use agentd_base::text::clip;
use agentd_config::document::{Mcp, McpServer};
use agentd_net::{Backoff, Pace};
use futures::future::join_all;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::catalogue::{Catalogue, Tool};
use crate::connection::{ConnectError, Connection, Era, Kind, Proof};
use crate::elicit::Hooks;
use crate::outbound::Outbound;
use crate::resource::Resource;

/// Between tries of a server that failed: it is back within half a minute of its return.
pub const PACE: Pace = Pace {
    first: Duration::from_secs(1),
    max: Duration::from_secs(30),
};

/// One server as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerView {
    /// Its entry in the document.
    pub server: McpServer,
    /// What the last exchange showed.
    pub state: ServerState,
    /// Why it is not connected.
    pub message: Option<String>,
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
    fn of(servers: Vec<ServerView>) -> Self {
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

/// The supervision of all servers. Dropping it ends the tasks and closes the connections without waiting.
pub struct Supervised {
    shared: Arc<Shared>,
    keepers: Mutex<Vec<Keeper>>,
}

struct Shared {
    view: watch::Sender<Arc<ServersView>>,
    instance: String,
    outbound: Outbound,
    pace: Pace,
}

/// The task that keeps one server.
struct Keeper {
    server: McpServer,
    default_timeout: Option<Duration>,
    slot: Arc<Slot>,
    task: JoinHandle<()>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a keeper and its users share.
#[derive(Default)]
struct Slot {
    connection: Mutex<Option<Connection>>,
    again: Notify,
}

impl Slot {
    fn connection(&self) -> Option<Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn put(&self, connection: Option<Connection>) -> Option<Connection> {
        std::mem::replace(
            &mut *self.connection.lock().unwrap_or_else(PoisonError::into_inner),
            connection,
        )
    }
}

impl Supervised {
    /// Starts one task a server. `instance` is the title of boot connections.
    pub fn start(mcp: &Mcp, instance: String, outbound: Outbound, pace: Pace) -> Self {
        let view = watch::Sender::new(Arc::default());
        let shared = Arc::new(Shared {
            view,
            instance,
            outbound,
            pace,
        });
        let supervised = Self {
            shared,
            keepers: Mutex::default(),
        };
        supervised.reload(mcp);
        supervised
    }

    /// The view, and its changes.
    pub fn view(&self) -> watch::Receiver<Arc<ServersView>> {
        self.shared.view.subscribe()
    }

    /// Takes up another `mcp` block: a server whose entry did not change stays connected and is listed anew, the rest
    /// is dialled.
    pub fn reload(&self, mcp: &Mcp) {
        let default_timeout = mcp.default_timeout.map(|given| given.0);
        let mut keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *keepers);
        let old = self.shared.view.borrow().clone();
        let mut views = Vec::new();
        let mut starting = Vec::new();
        for server in &mcp.servers {
            let same =
                |keeper: &Keeper| keeper.server == *server && keeper.default_timeout == default_timeout;
            let known = old.servers.iter().find(|view| view.server == *server);
            match (before.iter().position(same), known) {
                (Some(index), Some(view)) => {
                    let keeper = before.swap_remove(index);
                    keeper.slot.again.notify_one();
                    keepers.push(keeper);
                    views.push(view.clone());
                }
                _ => {
                    views.push(ServerView::new(server.clone()));
                    starting.push(server.clone());
                }
            }
        }
        // Gone before the view changes, so that none of them writes into the new one.
        drop(before);
        self.shared.view.send_replace(Arc::new(ServersView::of(views)));
        for server in starting {
            let slot = Arc::<Slot>::default();
            let keeping = keep(self.shared.clone(), server.clone(), default_timeout, slot.clone());
            keepers.push(Keeper {
                server,
                default_timeout,
                slot,
                task: tokio::spawn(keeping),
            });
        }
    }

    /// Asks a server again at once: for callers who saw one fail that has no stream by which it would be noticed.
    pub fn check(&self, server: &str) {
        if let Some(slot) = self.slot(server) {
            slot.again.notify_one();
        }
    }

    /// The open connection to a server.
    pub fn connection(&self, server: &str) -> Option<Connection> {
        self.slot(server)?.connection()
    }

    /// Closes every session, best effort within 1 s.
    pub async fn close(self) {
        let keepers = std::mem::take(&mut *self.keepers.lock().unwrap_or_else(PoisonError::into_inner));
        let open: Vec<Connection> = keepers
            .iter()
            .filter_map(|keeper| keeper.slot.put(None))
            .collect();
        drop(keepers);
        join_all(open.iter().map(Connection::close)).await;
    }

    fn slot(&self, server: &str) -> Option<Arc<Slot>> {
        let keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        keepers
            .iter()
            .find(|keeper| keeper.server.name == server)
            .map(|keeper| keeper.slot.clone())
    }
}

/// Keeps one server connected until it is dropped.
async fn keep(shared: Arc<Shared>, server: McpServer, default_timeout: Option<Duration>, slot: Arc<Slot>) {
    let mut backoff = Backoff::new(shared.pace);
    loop {
        match connect(&shared, &server, default_timeout).await {
            Ok((connection, proof)) => {
                tracing::info!(event = "mcp.connect", mcp.server = %server.name, revision = %proof.info.protocol_version, tools = proof.tools.len());
                let since = Instant::now();
                slot.put(Some(connection.clone()));
                shared.update(&server.name, |view| view.connected(&connection, proof));
                hold(&shared, &server, &slot, &connection).await;
                slot.put(None);
                connection.close().await;
                tracing::warn!(event = "mcp.disconnect", mcp.server = %server.name);
                // A server that connects and breaks at once is one that fails.
                if since.elapsed() < shared.pace.max {
                    pause(&slot, backoff.wait()).await;
                } else {
                    backoff.reset();
                }
            }
            Err(error) => {
                let wait = backoff.wait();
                tracing::warn!(event = "mcp.connect.fail", mcp.server = %server.name, err = %error, error.class = error.class.label(), next_s = wait.as_secs());
                shared.update(&server.name, |view| view.failed(&error));
                pause(&slot, wait).await;
            }
        }
    }
}

async fn connect(
    shared: &Shared,
    server: &McpServer,
    default_timeout: Option<Duration>,
) -> Result<(Connection, Proof), ConnectError> {
    let kind = Kind::Boot {
        instance: shared.instance.clone(),
    };
    let connection =
        Connection::open(server, default_timeout, kind, &shared.outbound, Hooks::default()).await?;
    match Proof::of(&connection).await {
        Ok(proof) => Ok((connection, proof)),
        Err(error) => {
            connection.close().await;
            Err(error)
        }
    }
}

/// Until the connection is lost. Whenever somebody asks, the lists are read again, which also shows a loss.
async fn hold(shared: &Shared, server: &McpServer, slot: &Slot, connection: &Connection) {
    loop {
        tokio::select! {
            () = connection.lost() => return,
            () = slot.again.notified() => match Proof::of(connection).await {
                Ok(proof) => shared.update(&server.name, |view| view.connected(connection, proof)),
                Err(error) => {
                    tracing::warn!(event = "mcp.tools_refresh_failed", mcp.server = %server.name, err = %error);
                    return;
                }
            },
        }
    }
}

/// Waits, or less when somebody asks for the server.
async fn pause(slot: &Slot, wait: Duration) {
    let _ = tokio::time::timeout(wait, slot.again.notified()).await;
}

impl Shared {
    /// Changes one server's view. Nobody is woken when it is the same as before.
    fn update(&self, server: &str, change: impl FnOnce(&mut ServerView)) {
        self.view.send_if_modified(|current| {
            let mut servers = current.servers.clone();
            let Some(view) = servers.iter_mut().find(|view| view.server.name == server) else {
                return false;
            };
            change(view);
            if servers == current.servers {
                return false;
            }
            *current = Arc::new(ServersView::of(servers));
            true
        });
    }
}
