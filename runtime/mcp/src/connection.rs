//! One connection to one MCP server: handshake, lists, calls, close. Every operation has a clock.

use std::time::Duration;

use agentd_base::class::{Class, Classified};
use agentd_base::report::{ServerInfo, ServerState};
use agentd_config::document::McpServer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::catalogue::Tool;
use crate::outbound::Outbound;

/// Who holds the connection, which decides what it declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The supervisor: `capabilities: {}`, title = the instance.
    Boot {
        /// The instance's name.
        instance: String,
    },
    /// A worker: `capabilities: {"elicitation": {}}`, no title.
    Worker {
        /// What the supervisor negotiated, so that the worker does not probe again.
        era: Option<Era>,
    },
}

/// How a server was spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// `initialize`, sessions.
    Legacy,
    /// `server/discover`, stateless.
    Stateless,
}

/// Why a connection could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ConnectError {
    /// [`ServerState::Unauthorized`] or [`ServerState::Failed`].
    pub state: ServerState,
    /// One line for people.
    pub message: String,
}

/// `params._meta` of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallMeta {
    /// `agent/run_id`.
    pub run_id: String,
    /// `agent/instance`.
    pub instance: String,
    /// `traceparent`, W3C.
    pub traceparent: Option<String>,
    /// `agent/idempotency_key`.
    pub idempotency_key: String,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutcome {
    /// The content as text for the model: text blocks as they are, others named.
    pub text: String,
    /// The tool ran and reported a failure.
    pub is_error: bool,
    /// `structuredContent`, from revision 2025-06-18 on.
    pub structured: Option<Value>,
}

/// Why a call has no outcome.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No answer in time; the server was told with `notifications/cancelled`.
    #[error("the call took longer than {0:?} and was cancelled")]
    Timeout(Duration),
    /// A JSON-RPC error: unknown tool, bad parameters, a crash in the server.
    #[error("the server answered with error {code}: {message}")]
    Protocol {
        /// JSON-RPC code.
        code: i32,
        /// The server's words, cut.
        message: String,
    },
    /// 401 or 403.
    #[error("the server refused the credential: {0}")]
    Denied(String),
    /// The server cannot be reached or the connection broke; the call may have been carried out.
    #[error("{0}")]
    Unavailable(String),
    /// The server asks for input that nobody here can give.
    #[error("the tool needs input from a person, which is not supported here: {0}")]
    InputRequired(String),
}

impl Classified for CallError {
    fn class(&self) -> Class {
        match self {
            Self::Timeout(_) | Self::Unavailable(_) => Class::Unavailable,
            Self::Protocol { .. } | Self::InputRequired(_) => Class::Invalid,
            Self::Denied(_) => Class::Denied,
        }
    }
}

/// An open connection. Cheap to clone; calls run at the same time.
#[derive(Clone)]
pub struct Connection {
    _private: (),
}

impl Connection {
    /// Dials, shakes hands and lists, all within the server's clocks. `default_timeout` is `mcp.default_timeout`.
    pub async fn open(
        server: &McpServer,
        default_timeout: Option<Duration>,
        kind: Kind,
        outbound: &Outbound,
    ) -> Result<Self, ConnectError> {
        let _ = (server, default_timeout, kind, outbound);
        todo!()
    }

    /// What the server said of itself.
    pub fn info(&self) -> &ServerInfo {
        todo!()
    }

    /// The negotiated era.
    pub fn era(&self) -> Era {
        todo!()
    }

    /// The server's `instructions`, cut.
    pub fn instructions(&self) -> Option<&str> {
        todo!()
    }

    /// `tools/list`, all pages; fails as [`Connection::open`] does.
    pub async fn tools(&self) -> Result<Vec<Tool>, ConnectError> {
        todo!()
    }

    /// `resources/list`, counted up to a bound; 0 where resources are not offered.
    pub async fn resource_count(&self) -> Result<u32, ConnectError> {
        todo!()
    }

    /// `tools/call` of the server's own name for the tool, within `call_timeout`.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Result<ToolOutcome, CallError> {
        let _ = (tool, arguments, meta);
        todo!()
    }

    /// Resolves when the connection is lost.
    pub async fn lost(&self) {
        todo!()
    }

    /// Ends the session, best effort within 1 s.
    pub async fn close(&self) {
        todo!()
    }
}

/// Proves a server: handshake and `tools/list` on a connection that is closed again. The bridge uses it over loopback.
pub async fn prove(
    server: &McpServer,
    default_timeout: Option<Duration>,
    kind: Kind,
    outbound: &Outbound,
) -> Result<Proof, ConnectError> {
    let _ = (server, default_timeout, kind, outbound);
    todo!()
}

/// What a proving exchange showed.
#[derive(Debug, Clone)]
pub struct Proof {
    /// From the handshake.
    pub info: ServerInfo,
    /// All tools.
    pub tools: Vec<Tool>,
    /// All resources.
    pub resource_count: u32,
}
