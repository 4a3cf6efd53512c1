//! Keeps every declared server connected: one task each, growing back-off with jitter, and one view of them all. A
//! server that is away at the start, or goes away later, comes back by itself; what it says of its lists is taken up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentd_config::document::{Mcp, McpServer, ToolsRefresh};
use agentd_net::{Backoff, Pace};
use futures::future::join_all;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::audit::Audit;
use crate::connection::{ConnectError, Connection, Kind, Proof};
use crate::elicit::Hooks;
use crate::outbound::Outbound;
use crate::resource::Digest;
pub use crate::view::{ServerView, ServersView};
use crate::watching::{self, ResourceConsumer, Watch, Watching};

/// Between tries of a server that failed: it is back within half a minute of its return.
pub const PACE: Pace = Pace {
    first: Duration::from_secs(1),
    max: Duration::from_secs(30),
};
/// A server that changes its tools all the time is listed this often.
const TOOLS_EVERY: Duration = Duration::from_secs(1);
/// Resources are a catalogue for prompts: they may be a little behind, though not longer than a server that came back.
const RESOURCES_EVERY: Duration = Duration::from_secs(10);

/// The supervision of all servers. Dropping it ends the tasks and closes the connections without waiting.
pub struct Supervised {
    shared: Arc<Shared>,
    keepers: Mutex<Vec<Keeper>>,
}

struct Shared {
    view: watch::Sender<Arc<ServersView>>,
    links: watch::Sender<Links>,
    refresh: watch::Sender<ToolsRefresh>,
    instance: String,
    outbound: Outbound,
    pace: Pace,
}

/// The open connections, by server.
pub(crate) type Links = BTreeMap<String, Link>;

/// An open connection and its keeper.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) connection: Connection,
    slot: Arc<Slot>,
}

impl Link {
    /// Asks the keeper to look at the server.
    pub(crate) fn check(&self) {
        self.slot.again.notify_one();
    }
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

/// The open connections of [`Supervised`]. Keeps none of them open.
#[derive(Clone)]
pub struct Lines {
    links: watch::Receiver<Links>,
    instance: String,
    pace: Pace,
}

impl Default for Lines {
    /// Of nobody.
    fn default() -> Self {
        Self {
            links: watch::Sender::<Links>::default().subscribe(),
            instance: String::new(),
            pace: PACE,
        }
    }
}

impl Lines {
    /// The open connection to a server.
    pub fn connection(&self, server: &str) -> Option<Connection> {
        Some(self.links.borrow().get(server)?.connection.clone())
    }

    /// Watches a resource for as long as the result is kept, whatever becomes of the server meanwhile. `known` is what
    /// the consumer saw last: where the content is another one now, that is a change.
    pub fn watch(
        &self,
        server: &str,
        uri: &str,
        consumer: Arc<dyn ResourceConsumer>,
        known: Option<Digest>,
    ) -> Watch {
        let watching = Watching {
            server: server.to_owned(),
            uri: uri.to_owned(),
            instance: self.instance.clone(),
            pace: self.pace,
            consumer,
        };
        watching::start(watching, known, self.links.clone())
    }
}

/// What a keeper and its users share.
#[derive(Default)]
struct Slot {
    again: Notify,
    /// Set under the lock of the links: a keeper that is ended while it connects puts nothing into them.
    ended: AtomicBool,
}

impl Supervised {
    /// Starts one task a server. `instance` is the title of boot connections.
    pub fn start(mcp: &Mcp, instance: String, outbound: Outbound, pace: Pace) -> Self {
        let shared = Arc::new(Shared {
            view: watch::Sender::new(Arc::default()),
            links: watch::Sender::default(),
            refresh: watch::Sender::new(mcp.tools_refresh),
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
        self.shared.refresh.send_replace(mcp.tools_refresh);
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
        for connection in self.shared.end(before) {
            tokio::spawn(async move { connection.close().await });
        }
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
        let keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keeper) = keepers.iter().find(|keeper| keeper.server.name == server) {
            keeper.slot.again.notify_one();
        }
    }

    /// The open connection to a server.
    pub fn connection(&self, server: &str) -> Option<Connection> {
        self.lines().connection(server)
    }

    /// The open connections, for those who do not keep them.
    pub fn lines(&self) -> Lines {
        Lines {
            links: self.shared.links.subscribe(),
            instance: self.shared.instance.clone(),
            pace: self.shared.pace,
        }
    }

    /// As [`Lines::watch`].
    pub fn watch(
        &self,
        server: &str,
        uri: &str,
        consumer: Arc<dyn ResourceConsumer>,
        known: Option<Digest>,
    ) -> Watch {
        self.lines().watch(server, uri, consumer, known)
    }

    /// Closes every session, best effort within 1 s.
    pub async fn close(self) {
        let keepers = std::mem::take(&mut *self.keepers.lock().unwrap_or_else(PoisonError::into_inner));
        let open = self.shared.end(keepers);
        join_all(open.iter().map(Connection::close)).await;
    }
}

/// Keeps one server connected until it is dropped.
async fn keep(shared: Arc<Shared>, server: McpServer, default_timeout: Option<Duration>, slot: Arc<Slot>) {
    let mut backoff = Backoff::new(shared.pace);
    let mut audit = Audit::default();
    loop {
        match connect(&shared, &server, default_timeout).await {
            Ok((connection, proof)) => {
                tracing::info!(event = "mcp.connect", mcp.server = %server.name, revision = %proof.info.protocol_version, tools = proof.tools.len());
                let since = Instant::now();
                if !shared.link(&server.name, &connection, &slot) {
                    connection.close().await;
                    return;
                }
                audit.write(&server.name, &proof.tools);
                shared.update(&server, |view| view.connected(&connection, proof));
                hold(&shared, &server, &slot, &connection, &mut audit).await;
                shared.unlink(&server.name, &slot);
                connection.close().await;
                tracing::warn!(event = "mcp.disconnect", mcp.server = %server.name);
                // A server that connects and breaks at once is one that fails; so is one that does not stop talking.
                if since.elapsed() < shared.pace.max || connection.is_flooded() {
                    let error = connection.fault();
                    shared.update(&server, |view| view.failed(&error));
                    pause(&slot, backoff.wait()).await;
                } else {
                    backoff.reset();
                }
            }
            Err(error) => {
                let wait = backoff.wait();
                tracing::warn!(event = "mcp.connect.fail", mcp.server = %server.name, err = %error, error.class = error.class.label(), next_s = wait.as_secs());
                shared.update(&server, |view| view.failed(&error));
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

/// Until the connection is lost. Whenever somebody asks, the lists are read again, which also shows a loss; when the
/// server says that they changed, too: its tools at once where that is wanted, its resources soon.
async fn hold(shared: &Shared, server: &McpServer, slot: &Slot, connection: &Connection, audit: &mut Audit) {
    let mut tools = connection.tools_changed();
    let mut resources = connection.resources_changed();
    let mut refresh = shared.refresh.subscribe();
    let (mut tools_at, mut resources_at) = (Instant::now(), Instant::now());
    loop {
        let live = *refresh.borrow_and_update() == ToolsRefresh::Live;
        let listed = tokio::select! {
            () = connection.lost() => return,
            // The changes that a reload takes up are those before it.
            () = slot.again.notified() => {
                tools.mark_unchanged();
                resources.mark_unchanged();
                Proof::of(connection).await.map(|proof| {
                    audit.write(&server.name, &proof.tools);
                    shared.update(server, |view| view.connected(connection, proof));
                })
            }
            // Marked as seen before the list is read: what changes meanwhile is read once more.
            () = due(&mut tools, tools_at), if live => {
                tools_at = Instant::now() + TOOLS_EVERY;
                connection.tools().await.map(|tools| {
                    audit.write(&server.name, &tools);
                    tracing::info!(event = "mcp.tools_refreshed", mcp.server = %server.name, tools = tools.len());
                    shared.update(server, |view| view.tools = tools);
                })
            }
            () = due(&mut resources, resources_at) => {
                resources_at = Instant::now() + RESOURCES_EVERY.min(shared.pace.max);
                connection.resource_list().await.map(|(resources, count)| shared.update(server, |view| {
                    view.resources = resources;
                    view.resource_count = count;
                }))
            }
            _ = refresh.changed() => Ok(()),
        };
        if let Err(error) = listed {
            tracing::warn!(event = "mcp.tools_refresh_failed", mcp.server = %server.name, err = %error);
            return;
        }
    }
}

/// Resolves when there was a change and it is time.
async fn due(changes: &mut watch::Receiver<u64>, at: Instant) {
    // Not marked before it is time, so that a caller who gives up has lost nothing.
    let _ = changes.clone().changed().await;
    tokio::time::sleep_until(at).await;
    changes.mark_unchanged();
}

/// Waits, or less when somebody asks for the server.
async fn pause(slot: &Slot, wait: Duration) {
    let _ = tokio::time::timeout(wait, slot.again.notified()).await;
}

impl Shared {
    /// Changes one server's view. Nobody is woken when it is the same as before.
    fn update(&self, server: &McpServer, change: impl FnOnce(&mut ServerView)) {
        self.view.send_if_modified(|current| {
            let mut servers = current.servers.clone();
            let Some(view) = servers.iter_mut().find(|view| view.server == *server) else {
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

    /// Shows a connection to all who use it; false when its keeper was ended meanwhile.
    fn link(&self, server: &str, connection: &Connection, slot: &Arc<Slot>) -> bool {
        self.links.send_if_modified(|links| {
            let current = !slot.ended.load(Ordering::SeqCst);
            if current {
                let link = Link {
                    connection: connection.clone(),
                    slot: slot.clone(),
                };
                links.insert(server.to_owned(), link);
            }
            current
        })
    }

    fn unlink(&self, server: &str, slot: &Arc<Slot>) {
        self.links.send_if_modified(|links| {
            let own = links
                .get(server)
                .is_some_and(|link| Arc::ptr_eq(&link.slot, slot));
            own && links.remove(server).is_some()
        });
    }

    /// Ends keepers and gives the connections they leave behind.
    fn end(&self, keepers: Vec<Keeper>) -> Vec<Connection> {
        let mut left = Vec::new();
        self.links.send_if_modified(|links| {
            for keeper in &keepers {
                keeper.slot.ended.store(true, Ordering::SeqCst);
                let own = |link: &Link| Arc::ptr_eq(&link.slot, &keeper.slot);
                if links.get(&keeper.server.name).is_some_and(own) {
                    left.extend(links.remove(&keeper.server.name).map(|link| link.connection));
                }
            }
            !left.is_empty()
        });
        left
    }
}
