//! One connection to one MCP server: handshake, lists, calls, close. Every operation has a clock, and what the server
//! offered in the handshake decides what it is asked later.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::class::{Class, Classified};
use agentd_base::report::{ServerInfo, ServerState};
use agentd_config::defaults::TIMEOUT;
use agentd_config::document::McpServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, PaginatedRequestParams, ProtocolVersion, ServerPeerInfo,
};
use rmcp::service::{ClientInitializeError, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientCacheConfig, ClientServiceExt as _, Peer, RoleClient};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::call::{CallError, CallMeta, ToolOutcome};
use crate::catalogue::Tool;
use crate::fault::{Fault, of_handshake, of_request};
use crate::handler::Handler;
use crate::health::Health;
pub use crate::lifecycle::{Era, Kind};
use crate::lifecycle::{lifecycle, settings};
use crate::outbound::Outbound;
use crate::reading::{self, Pages};
use crate::transport::Transport;

/// `server/discover` may take this long, or half the server's timeout where that is less.
const PROBE: Duration = Duration::from_secs(10);
/// Ending a session; a server that does not answer is left alone.
const CLOSE: Duration = Duration::from_secs(1);
/// A whole list may take as long as this many pages that come at the last moment: a server that sends one after the
/// other for ever must not hold up a start or a turn.
const SLOW_PAGES: u32 = 4;
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
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Handler>>>,
    health: Arc<Health>,
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
    offers_resources: bool,
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
        Ok(Self {
            info: reading::server_info(peer),
            era: if version.has_initialize() {
                Era::Legacy
            } else {
                Era::Stateless
            },
            instructions: peer.instructions.as_deref().and_then(reading::instructions),
            offers_tools: peer.capabilities.tools.is_some(),
            offers_resources: peer.capabilities.resources.is_some(),
            structured: *version >= ProtocolVersion::V_2025_06_18,
        })
    }
}

impl Connection {
    /// Dials and shakes hands within the server's clock. `default_timeout` is `mcp.default_timeout`.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn open(
        server: &McpServer,
        default_timeout: Option<Duration>,
        kind: Kind,
        outbound: &Outbound,
    ) -> Result<Self, ConnectError> {
        let timeout = server
            .connection
            .timeout
            .map(|given| given.0)
            .or(default_timeout)
            .unwrap_or(TIMEOUT);
        let http = outbound
            .mcp_client(server)
            .map_err(|error| Fault::failed(error.class(), error.to_string()))?;
        let health = Arc::new(Health::default());
        let elicitation = matches!(kind, Kind::Worker { .. });
        let transport = Transport::new(http, PROBE.min(timeout / 2), elicitation, health.clone());
        let transport = StreamableHttpClientTransport::with_client(transport, settings(&server.endpoint));
        let handler = Handler::new(&server.name, &kind);
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
                peer: service.peer().clone(),
                service: Mutex::new(Some(service)),
                health,
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

    /// The negotiated era.
    pub fn era(&self) -> Era {
        self.0.facts.era
    }

    /// The server's `instructions`, cut.
    pub fn instructions(&self) -> Option<&str> {
        self.0.facts.instructions.as_deref()
    }

    /// `tools/list`, all pages, each within the server's clock; none where tools are not offered.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn tools(&self) -> Result<Vec<Tool>, ConnectError> {
        if !self.0.facts.offers_tools {
            return Ok(Vec::new());
        }
        let what = "tools/list";
        let drained = async {
            let mut pages = Pages::new(reading::TOOLS);
            while let Some(cursor) = pages.next_cursor() {
                let page = self
                    .listed(what, self.0.peer.list_tools(parameters(cursor)))
                    .await?;
                pages.take(page.tools.into_iter().map(reading::tool), page.next_cursor);
            }
            Ok(pages)
        };
        let pages = self.whole(what, drained).await?;
        if pages.cut {
            tracing::warn!(
                event = "mcp.spec.invalid",
                "tools/list is too long; {} tools taken",
                pages.items.len()
            );
        }
        Ok(pages.items)
    }

    /// How many resources `resources/list` has, all pages up to a bound; 0 where resources are not offered.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn resource_count(&self) -> Result<u32, ConnectError> {
        if !self.0.facts.offers_resources {
            return Ok(0);
        }
        let what = "resources/list";
        let drained = async {
            let mut pages = Pages::new(reading::RESOURCES);
            while let Some(cursor) = pages.next_cursor() {
                let page = self
                    .listed(what, self.0.peer.list_resources(parameters(cursor)))
                    .await?;
                pages.take(page.resources.iter().map(|_| ((), 0)), page.next_cursor);
            }
            Ok(pages)
        };
        let pages = self.whole(what, drained).await?;
        Ok(u32::try_from(pages.items.len()).unwrap_or(u32::MAX))
    }

    /// `tools/call` by the server's own name for the tool, within `call_timeout`. Never sent twice.
    ///
    /// # Errors
    /// See [`CallError`]. A tool that ran and failed is no error: [`ToolOutcome::is_error`].
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Result<ToolOutcome, CallError> {
        let mut parameters = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        parameters.meta = Some(reading::call_meta(meta));
        let limit = self.0.call_timeout;
        // Dropping the SDK's future tells the server that the call is cancelled.
        let answer = tokio::time::timeout(limit, self.0.peer.call_tool_once(parameters)).await;
        match answer {
            Err(_) => Err(CallError::Timeout(limit)),
            Ok(Ok(CallToolResponse::Complete(result))) => {
                Ok(reading::outcome(result, self.0.facts.structured))
            }
            Ok(Ok(CallToolResponse::InputRequired(_))) => Err(CallError::InputRequired),
            Ok(Ok(_)) => Err(CallError::Unavailable(
                "the server's answer is not a tool's result".into(),
            )),
            Ok(Err(error)) => Err(self.call_error(&error)),
        }
    }

    /// Resolves when the connection is lost. A server without a notification stream is noticed at the next request.
    pub async fn lost(&self) {
        self.0.health.lost().await;
    }

    /// Ends the session, best effort within 1 s, then the connection.
    pub async fn close(&self) {
        if let Some(mut service) = self.0.service.lock().await.take() {
            let _ = service.close_with_timeout(CLOSE).await;
        }
    }

    /// All pages of a list.
    async fn whole<T>(
        &self,
        what: &'static str,
        list: impl Future<Output = Result<T, ConnectError>>,
    ) -> Result<T, ConnectError> {
        let limit = self.0.timeout.saturating_mul(SLOW_PAGES);
        match tokio::time::timeout(limit, list).await {
            Ok(list) => list,
            Err(_) => Err(late(what, limit, &self.0.health).into()),
        }
    }

    /// One page of a list.
    async fn listed<T>(
        &self,
        what: &'static str,
        page: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, ConnectError> {
        match tokio::time::timeout(self.0.timeout, page).await {
            Err(_) => Err(late(what, self.0.timeout, &self.0.health).into()),
            Ok(Err(error)) => {
                let fault = of_request(&error, self.0.health.fault());
                Err(Fault {
                    message: format!("{what}: {}", fault.message),
                    ..fault
                }
                .into())
            }
            Ok(Ok(page)) => Ok(page),
        }
    }

    fn call_error(&self, error: &ServiceError) -> CallError {
        if let ServiceError::McpError(error) = error {
            let message = agentd_base::text::clip(&error.message, reading::ERROR_CHARS);
            return CallError::Protocol {
                code: error.code.0,
                message,
            };
        }
        let fault = of_request(error, self.0.health.fault());
        match fault.state {
            ServerState::Unauthorized => CallError::Denied(fault.message),
            ServerState::Connecting | ServerState::Connected | ServerState::Failed => {
                CallError::Unavailable(fault.message)
            }
        }
    }
}

fn parameters(cursor: Option<String>) -> Option<PaginatedRequestParams> {
    cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)))
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
        let resource_count = connection.resource_count().await?;
        Ok(Self {
            info: connection.info().clone(),
            tools,
            resource_count,
        })
    }
}
