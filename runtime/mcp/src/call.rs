//! A tool call as its caller sees it: what goes with it, what comes back, why nothing came back.

use std::time::Duration;

use agentd_base::class::{Class, Classified};
use serde_json::Value;

/// `params._meta` of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallMeta {
    /// `agent/run_id`.
    pub run_id: String,
    /// `agent/instance`.
    pub instance: String,
    /// `traceparent`, W3C.
    pub traceparent: Option<String>,
    /// `agent/idempotency_key`: the same for every attempt of one call, another for every other call.
    pub idempotency_key: String,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutcome {
    /// The content as text for the model: text as it is, other kinds named. Bounded.
    pub text: String,
    /// The tool ran and reported a failure.
    pub is_error: bool,
    /// `structuredContent`, from revision 2025-06-18 on.
    pub structured: Option<Value>,
}

/// Why a call has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    #[error("{0}")]
    Denied(String),
    /// The server cannot be reached or the connection broke; the call may have been carried out.
    #[error("{0}")]
    Unavailable(String),
    /// The server asks for input that nobody here can give.
    #[error("the tool asks for input from a person, and nobody can be asked")]
    InputRequired,
}

impl Classified for CallError {
    fn class(&self) -> Class {
        match self {
            Self::Timeout(_) | Self::Unavailable(_) => Class::Unavailable,
            Self::Protocol { .. } | Self::InputRequired => Class::Invalid,
            Self::Denied(_) => Class::Denied,
        }
    }
}
