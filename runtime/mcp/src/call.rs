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
    /// Which call of its run it is; for us, never sent.
    pub ordinal: u32,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutcome {
    /// The content as text for the model: text as it is, other kinds named. Bounded.
    pub text: String,
    /// The tool ran and reported a failure.
    pub is_error: bool,
    /// `structuredContent`, from revision 2025-06-18 on, where the tool declared an `outputSchema` that it fits.
    pub structured: Option<Value>,
    /// Resources that the content points to: URIs of this server, listed or not.
    pub links: Vec<String>,
}

/// What a tool answered, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeOutcome {
    /// The answer.
    pub value: Value,
    /// The tool ran and reported a failure.
    pub is_error: bool,
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
    #[error("the server asks for input from a person, and nobody can be asked")]
    InputRequired,
    /// The handshake did not offer it, so it was not asked for.
    #[error("the server offers no {0}")]
    NotOffered(&'static str),
}

/// What the caller of a call that failed does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// It may pass: again after a while, if the call is one that may be carried out twice; else as [`Policy::Abort`].
    Retry,
    /// The model can mend it (another name, other arguments): it gets the server's words.
    Tell,
    /// The model cannot mend it: the call is given up, and the model is told that it failed, by us.
    Abort,
}

/// JSON-RPC: what was asked for is not there, or not in this way.
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const INTERNAL: i32 = -32603;
/// MCP up to 2025-11-25. The stateless revision says [`INVALID_PARAMS`].
const RESOURCE_NOT_FOUND: i32 = -32002;
/// MCP: the headers do not fit the body (2026-07-28).
pub(crate) const HEADER_MISMATCH: i32 = -32020;
/// MCP: a capability that was not declared is needed, a revision that is not spoken was used (2026-07-28), a person must
/// visit a URL first (2025-11-25). The same call gets the same answer.
const NEEDS_SOMETHING_ELSE: [i32; 3] = [-32021, -32022, -32042];
/// JSON-RPC: kept for servers.
const SERVER: std::ops::RangeInclusive<i32> = -32099..=-32000;

impl CallError {
    /// See [`Policy`].
    pub fn policy(&self) -> Policy {
        match self {
            Self::Protocol { code, .. } => match *code {
                METHOD_NOT_FOUND | INVALID_PARAMS | RESOURCE_NOT_FOUND => Policy::Tell,
                HEADER_MISMATCH => Policy::Abort,
                code if NEEDS_SOMETHING_ELSE.contains(&code) => Policy::Abort,
                INTERNAL => Policy::Retry,
                code if SERVER.contains(&code) => Policy::Retry,
                // -32700 and -32600 are faults of ours; the rest are a server's own, which it describes for people.
                -32768..=-32000 => Policy::Abort,
                _ => Policy::Tell,
            },
            // It may still be carried out, and it was slow: not again by itself.
            Self::Timeout(_) | Self::Denied(_) | Self::InputRequired | Self::NotOffered(_) => Policy::Abort,
            Self::Unavailable(_) => Policy::Retry,
        }
    }

    /// How servers say that there is no such resource.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(
            self,
            Self::Protocol {
                code: RESOURCE_NOT_FOUND | INVALID_PARAMS,
                ..
            }
        )
    }
}

impl Classified for CallError {
    fn class(&self) -> Class {
        match self {
            Self::Timeout(_) | Self::Unavailable(_) => Class::Unavailable,
            Self::Protocol { .. } | Self::InputRequired | Self::NotOffered(_) => Class::Invalid,
            Self::Denied(_) => Class::Denied,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M21: every code, and everything that is no code.
    #[test]
    fn m21_an_error_is_retried_told_or_given_up_by_its_code() {
        let of = |code| CallError::Protocol {
            code,
            message: String::new(),
        };
        for (codes, expected) in [
            (
                &[-32601, -32602, -32002, 1, -1, 404, i32::MAX, i32::MIN][..],
                Policy::Tell,
            ),
            (&[-32603, -32000, -32001, -32099, -32050], Policy::Retry),
            (
                &[-32700, -32600, -32020, -32021, -32022, -32042, -32768, -32100],
                Policy::Abort,
            ),
        ] {
            for code in codes {
                assert_eq!(of(*code).policy(), expected, "{code}");
            }
        }
        for (error, expected) in [
            (CallError::Timeout(Duration::ZERO), Policy::Abort),
            (CallError::Denied(String::new()), Policy::Abort),
            (CallError::InputRequired, Policy::Abort),
            (CallError::NotOffered("tools"), Policy::Abort),
            (CallError::Unavailable(String::new()), Policy::Retry),
        ] {
            assert_eq!(error.policy(), expected, "{error}");
        }
        assert!(of(-32002).is_not_found() && of(-32602).is_not_found() && !of(-32601).is_not_found());
    }
}
