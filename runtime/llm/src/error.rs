//! Why a model did not answer. Texts name the endpoint and the remedy, never a header or a credential.

use std::time::Duration;

use agentd_base::class::{Class, Classified};
use agentd_net::NetError;
use http::StatusCode;

/// Why a model did not answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ModelError {
    /// 401 or 403, or our credential cannot be read. Never tried again.
    #[error("model endpoint {endpoint} refused: {reason}; check its auth and headers")]
    Denied {
        /// Which.
        endpoint: String,
        /// Why. Not the server's words: some repeat the key.
        reason: String,
    },
    /// Any other 4xx: the request itself is refused. Never tried again.
    #[error("model endpoint {endpoint} answered {status}: {message}; check model name, URL and limits")]
    Rejected {
        /// Which.
        endpoint: String,
        /// 400 to 499.
        status: StatusCode,
        /// The server's words, cut.
        message: String,
    },
    /// The request is longer than the model can read. Never tried again; a shorter one may do.
    #[error("model endpoint {endpoint} cannot take a request of this length: {message}")]
    TooLong {
        /// Which.
        endpoint: String,
        /// The server's words, cut.
        message: String,
    },
    /// The budget does not allow the call. Never tried again.
    #[error("{reason}")]
    Budget {
        /// The task is to be refused, rather than counted as out of tokens.
        refused: bool,
        /// Why, for people.
        reason: String,
    },
    /// 408, 429, 5xx. Tried again.
    #[error("model endpoint {endpoint} answered {status}: {message}")]
    Busy {
        /// Which.
        endpoint: String,
        /// The status.
        status: StatusCode,
        /// `Retry-After`.
        retry_after: Option<Duration>,
        /// The server's words, cut.
        message: String,
    },
    /// A success that is no answer. Tried again: gateways do that when they are overloaded.
    #[error(
        "model endpoint {endpoint} sent no valid answer: {what}{}{words}",
        if .words.is_empty() { "" } else { ": " }
    )]
    Malformed {
        /// Which.
        endpoint: String,
        /// What is wrong with it, in our words.
        what: String,
        /// The server's words, or a reader's that quotes them, cut; empty for none.
        words: String,
    },
    /// The endpoint was not reached, or the exchange broke off.
    #[error("model endpoint {endpoint}: {source}")]
    Net {
        /// Which.
        endpoint: String,
        /// What happened.
        source: NetError,
    },
    /// It took the request and then said nothing for too long. Not tried again there: the provider does the work, and
    /// bills it, whether anybody waits or not.
    #[error(
        "model endpoint {endpoint} said nothing for {}; if it is only slow, raise its timeout",
        agentd_base::duration::Duration(*.limit)
    )]
    Silent {
        /// Which.
        endpoint: String,
        /// For so long.
        limit: Duration,
    },
    /// The time that the caller gave ran out.
    #[error("no model answered within the time that was left")]
    Deadline,
    /// There is no endpoint.
    #[error("no model endpoint is configured; set intelligence.endpoints")]
    NoEndpoint,
}

impl Classified for ModelError {
    fn class(&self) -> Class {
        match self {
            Self::Denied { .. } | Self::Budget { .. } => Class::Denied,
            Self::Rejected { .. } | Self::TooLong { .. } | Self::NoEndpoint => Class::Invalid,
            Self::Busy { .. } | Self::Malformed { .. } | Self::Silent { .. } | Self::Deadline => {
                Class::Unavailable
            }
            Self::Net { source, .. } => source.class(),
        }
    }
}

impl ModelError {
    /// The error without the words of whoever answered, who may repeat what was asked: for logs.
    pub fn plain(&self) -> String {
        match self {
            Self::Rejected { endpoint, status, .. } => {
                format!("model endpoint {endpoint} answered {status}; check model name, URL and limits")
            }
            Self::TooLong { endpoint, .. } => {
                format!("model endpoint {endpoint} cannot take a request of this length")
            }
            Self::Busy { endpoint, status, .. } => format!("model endpoint {endpoint} answered {status}"),
            Self::Malformed { endpoint, what, .. } => {
                format!("model endpoint {endpoint} sent no valid answer: {what}")
            }
            Self::Denied { .. }
            | Self::Budget { .. }
            | Self::Net { .. }
            | Self::Silent { .. }
            | Self::Deadline
            | Self::NoEndpoint => self.to_string(),
        }
    }
}

/// What to do after a failed try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing helps.
    GiveUp,
    /// The same endpoint, after a wait: the server's, else ours.
    Again(Option<Duration>),
    /// Another endpoint; the same one after a wait where there is no other.
    Elsewhere,
    /// Another endpoint; this one will not change.
    Never,
}

impl ModelError {
    /// Whether the provider had the request and may have begun to work on it, which it bills whatever became of the answer.
    pub fn may_be_billed(&self) -> bool {
        match self {
            Self::Malformed { .. } | Self::Silent { .. } | Self::Deadline => true,
            Self::Net { source, .. } => matches!(
                source,
                NetError::Interrupted { .. } | NetError::TooLarge { .. } | NetError::Coding { .. }
            ),
            Self::Denied { .. }
            | Self::Rejected { .. }
            | Self::TooLong { .. }
            | Self::Budget { .. }
            | Self::Busy { .. }
            | Self::NoEndpoint => false,
        }
    }

    pub(crate) fn next(&self) -> Next {
        match self {
            Self::Denied { .. }
            | Self::Rejected { .. }
            | Self::TooLong { .. }
            | Self::Budget { .. }
            | Self::Deadline
            | Self::NoEndpoint => Next::GiveUp,
            Self::Busy { retry_after, .. } => Next::Again(*retry_after),
            Self::Malformed { .. } => Next::Again(None),
            Self::Silent { .. } => Next::Never,
            Self::Net { source, .. } => match source.class() {
                Class::Invalid | Class::Internal => Next::Never,
                Class::Denied => Next::GiveUp,
                Class::Unavailable | Class::Conflict => Next::Elsewhere,
            },
        }
    }
}
