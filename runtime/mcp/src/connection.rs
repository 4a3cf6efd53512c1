//! One connection to one MCP server: handshake and close. What the server offered in the handshake decides what it is
//! asked later: lists are in `lists`, calls and reads in `requests`, subscriptions in `updates`.

mod lists;
mod outputs;
mod prompts;
mod requests;
pub(crate) mod updates;

use std::sync::Arc;
use std::time::Duration;

use agentd_base::class::{Class, Classified};
use agentd_base::report::{ServerInfo, ServerState};
use agentd_config::defaults::TIMEOUT;
use agentd_config::document::McpServer;
use agentd_net::HttpClient;
use rmcp::model::{ProtocolVersion, ServerPeerInfo};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientCacheConfig, ClientServiceExt as _, Peer, RoleClient};
use tokio::sync::{Mutex, OnceCell, watch};
use tokio::time::Instant;

use self::outputs::Outputs;
use self::updates::Subscribed;

use crate::catalogue::Tool;
use crate::elicit::Hooks;
use crate::fault::{Fault, of_handshake};
use crate::gate::Gate;
use crate::handler::Handler;
use crate::health::Health;
pub use crate::lifecycle::{Era, Kind};
use crate::lifecycle::{declares_urls, lifecycle, settings};
use crate::notices::Notices;
use crate::outbound::Outbound;
use crate::reading;
use crate::resource::Resource;
use crate::transport::Transport;

/// `server/discover` may take this long, or half the server's timeout where that is less.
const PROBE: Duration = Duration::from_secs(10);
/// Ending a session; a server that does not answer is left alone.
const CLOSE: Duration = Duration::from_secs(1);

/// Why a server is not connected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConnectError {
    /// [`ServerState::Unauthorized`] or [`ServerState::Failed`].
    pub state: ServerState,
    /// Who must act.
    pub class: Class,
    /// One line for people.
    pub message: String,
}

impl Classified for ConnectError {
    fn class(&self) -> Class {
        self.class
    }
}

impl From<Fault> for ConnectError {
    fn from(
        Fault {
            state,
            class,
            message,
        }: Fault,
    ) -> Self {
        Self {
            state,
            class,
            message,
        }
    }
}

/// An open connection. Cheap to clone; calls run at the same time. The last clone closes it without waiting.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    server: String,
    /// Knows our secrets.
    own: HttpClient,
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Handler>>>,
    health: Arc<Health>,
    notices: Arc<Notices>,
    gate: Arc<Gate>,
    subscribed: Subscribed,
    outputs: Outputs,
    /// Elicitation was declared.
    elicits: bool,
    /// The stream that questions come on was waited for.
    hears: OnceCell<()>,
    facts: Facts,
    timeout: Duration,
    call_timeout: Duration,
}

/// What the handshake said: frozen, it gates every later request.
struct Facts {
    info: ServerInfo,
    era: Era,
    instructions: Option<String>,
    offers_tools: bool,
    tools_change: bool,
    offers_resources: bool,
    offers_subscribe: bool,
    resources_change: bool,
    offers_prompts: bool,
    prompts_change: bool,
    structured: bool,
}

impl Facts {
    fn of(peer: Option<&ServerPeerInfo>) -> Result<Self, Fault> {
        let silent = || Fault::failed(Class::Unavailable, "the server said nothing of itself");
        let peer = peer.ok_or_else(silent)?;
        let version = &peer.protocol_version;
        if !ProtocolVersion::KNOWN_VERSIONS.contains(version) {
            let version = agentd_base::text::clip(version.as_str(), 32);
            let message = format!("the server speaks MCP revision {version}, which is not spoken here");
            return Err(Fault::failed(Class::Invalid, message));
        }
        let tools = peer.capabilities.tools.as_ref();
        let resources = peer.capabilities.resources.as_ref();
        let prompts = peer.capabilities.prompts.as_ref();
        Ok(Self {
            info: reading::server_info(peer),
            era: if version.has_initialize() {
                Era::Legacy
            } else {
                Era::Stateless
            },
            instructions: peer.instructions.as_deref().and_then(reading::instructions),
            offers_tools: tools.is_some(),
            tools_change: tools.is_some_and(|tools| tools.list_changed == Some(true)),
            offers_resources: resources.is_some(),
            offers_subscribe: resources.is_some_and(|resources| resources.subscribe == Some(true)),
            resources_change: resources.is_some_and(|resources| resources.list_changed == Some(true)),
            offers_prompts: prompts.is_some(),
            prompts_change: prompts.is_some_and(|prompts| prompts.list_changed == Some(true)),
            structured: *version >= ProtocolVersion::V_2025_06_18,
        })
    }
}

impl Connection {
    /// Dials and shakes hands within the server's clock. `default_timeout` is `mcp.default_timeout`; `hooks` is what its
    /// holder does for the server.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn open(
        server: &McpServer,
        default_timeout: Option<Duration>,
        kind: Kind,
        outbound: &Outbound,
        hooks: Hooks,
    ) -> Result<Self, ConnectError> {
        let timeout = server
            .connection
            .timeout
            .map(|given| given.0)
            .or(default_timeout)
            .unwrap_or(TIMEOUT);
        let (http, oauth) = outbound
            .mcp_client(server, matches!(kind, Kind::Store { .. }))
            .map_err(|error| Fault::failed(error.class(), error.to_string()))?;
        let own = http.clone();
        let health = Arc::new(Health::new(&server.name));
        let notices = Arc::new(Notices::new(&server.name));
        let elicits = matches!(kind, Kind::Worker { .. });
        let urls = declares_urls(&kind, &hooks);
        let gate = Arc::new(Gate::new(&server.name, hooks, urls));
        let transport = Transport::new(
            &server.name,
            http,
            PROBE.min(timeout / 2),
            oauth.map_or_else(|| watch::Sender::default().subscribe(), |oauth| oauth.waiting()),
            elicits,
            health.clone(),
            notices.clone(),
        );
        let transport = StreamableHttpClientTransport::with_client(transport, settings(&server.endpoint));
        let handler = Handler::new(&kind, urls, notices.clone(), gate.clone());
        let handshake = handler.serve_with_lifecycle(transport, lifecycle(&kind));
        let service = match tokio::time::timeout(timeout, handshake).await {
            Err(_) => return Err(late("the handshake", timeout, &health).into()),
            Ok(Err(error)) => return Err(refused(&error, &health).into()),
            Ok(Ok(service)) => service,
        };
        // Lists are asked for because they may have changed: an answer from memory would hide that.
        service
            .peer()
            .set_response_cache_config(ClientCacheConfig::disabled())
            .await;
        match Facts::of(service.peer().peer_info().as_deref()) {
            Err(fault) => {
                let mut service = service;
                let _ = service.close_with_timeout(CLOSE).await;
                Err(fault.into())
            }
            Ok(facts) => Ok(Self(Arc::new(Inner {
                server: server.name.clone(),
                own,
                peer: service.peer().clone(),
                service: Mutex::new(Some(service)),
                health,
                notices,
                gate,
                subscribed: Subscribed::default(),
                outputs: Outputs::default(),
                elicits,
                hears: OnceCell::new(),
                facts,
                timeout,
                call_timeout: server.call_timeout(),
            }))),
        }
    }

    /// What the server said of itself, cut and cleaned.
    pub fn info(&self) -> &ServerInfo {
        &self.0.facts.info
    }

    /// Words of the server without what it was sent in confidence; of a [`Kind::Store`] they come with it.
    pub fn cleaned(&self, words: &str) -> String {
        let clean = self.0.own.redactor().text(words);
        clean.unwrap_or_else(|| words.to_owned())
    }

    /// The negotiated era.
    pub fn era(&self) -> Era {
        self.0.facts.era
    }

    /// The server's `instructions`, cut.
    pub fn instructions(&self) -> Option<&str> {
        self.0.facts.instructions.as_deref()
    }

    /// Counts `notifications/tools/list_changed`, and the times when one may have been missed.
    pub fn tools_changed(&self) -> watch::Receiver<u64> {
        self.listen_for_lists();
        self.0.notices.of_tools()
    }

    /// Counts `notifications/resources/list_changed` and `notifications/prompts/list_changed`, likewise: whoever reads the
    /// one list reads the other too.
    pub fn resources_changed(&self) -> watch::Receiver<u64> {
        self.listen_for_lists();
        self.0.notices.of_resources()
    }

    /// Whether there are resources to list and read.
    pub fn offers_resources(&self) -> bool {
        self.0.facts.offers_resources
    }

    /// Whether changes of a resource can be subscribed to.
    pub fn offers_subscribe(&self) -> bool {
        self.0.facts.offers_subscribe
    }

    /// Resolves when the connection is lost. A server without a notification stream is noticed at the next request.
    pub async fn lost(&self) {
        self.0.health.lost().await;
    }

    /// Why it was lost, as far as that was seen.
    pub(crate) fn fault(&self) -> ConnectError {
        let fault = self.0.health.fault();
        let gone = || Fault::failed(Class::Unavailable, "the connection was lost");
        fault.unwrap_or_else(gone).into()
    }

    /// Whether the server was given up because it does not stop talking.
    pub(crate) fn is_flooded(&self) -> bool {
        self.0.health.is_lost_to_floods()
    }

    /// Unsubscribes and ends the session, best effort within 1 s, then the connection.
    pub async fn close(&self) {
        let Some(mut service) = self.0.service.lock().await.take() else {
            return;
        };
        let at = Instant::now() + CLOSE;
        let _ = tokio::time::timeout_at(at, self.unsubscribe_all()).await;
        let left = at.saturating_duration_since(Instant::now());
        let _ = service.close_with_timeout(left).await;
    }

    /// Whether both are the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

fn late(what: &str, limit: Duration, health: &Health) -> Fault {
    let seen = health
        .fault()
        .map(|fault| format!("; seen last: {}", fault.message))
        .unwrap_or_default();
    Fault::failed(
        Class::Unavailable,
        format!("{what} took longer than {limit:?}{seen}"),
    )
}

fn refused(error: &ClientInitializeError, health: &Health) -> Fault {
    of_handshake(error, health.fault())
}

/// What an exchange that proves a server showed: that it answers a list, not just a handshake.
#[derive(Debug, Clone, PartialEq)]
pub struct Proof {
    /// From the handshake.
    pub info: ServerInfo,
    /// All tools.
    pub tools: Vec<Tool>,
    /// The first of its resources.
    pub resources: Vec<Resource>,
    /// All resources.
    pub resource_count: u32,
}

impl Proof {
    /// Asks for the lists.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn of(connection: &Connection) -> Result<Self, ConnectError> {
        let tools = connection.tools().await?;
        let (resources, resource_count) = connection.resource_list().await?;
        Ok(Self {
            info: connection.info().clone(),
            tools,
            resources,
            resource_count,
        })
    }
}
