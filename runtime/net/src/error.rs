//! What can go wrong between us and a destination, in sentences that guess the cause.

use std::time::Duration;

use agentd_base::class::{Class, Classified};

/// Why a request or a connection failed. Texts name the host, never a header or a body.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// The name or an address of the destination is refused by the guard, or a redirect leads elsewhere.
    #[error("{0}")]
    Refused(String),
    /// The name does not resolve.
    #[error(
        "{host} does not resolve ({detail}); is the name right, and does a NetworkPolicy let DNS through?"
    )]
    Resolve {
        /// The host.
        host: String,
        /// What the resolver said.
        detail: String,
    },
    /// No connection: refused, unreachable, reset.
    #[error("cannot connect to {host}: {detail}")]
    Connect {
        /// Host and port.
        host: String,
        /// What the system said, and the likely cause.
        detail: String,
    },
    /// The TLS handshake failed: untrusted, wrong name, wrong SPIFFE ID, our certificate refused.
    #[error("TLS with {host} failed: {detail}")]
    Tls {
        /// Host and port.
        host: String,
        /// What was wrong with which side.
        detail: String,
    },
    /// A clock ran out.
    #[error("{host}: {phase} took longer than {limit:?}")]
    Timeout {
        /// Host and port.
        host: String,
        /// Which clock.
        phase: Phase,
        /// Its length.
        limit: Duration,
    },
    /// The connection ended in the middle; the request may have been carried out.
    #[error("{host} closed the connection before the answer was complete ({detail})")]
    Interrupted {
        /// Host and port.
        host: String,
        /// What was seen.
        detail: String,
    },
    /// More bytes than we take.
    #[error("{host} sent more than {limit} bytes of {what}")]
    TooLarge {
        /// Host and port.
        host: String,
        /// Headers, body or event.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// The body is not of the content coding that its header names, or of one that nobody asked for.
    #[error("{host} sent a compressed body that cannot be read ({detail})")]
    Coding {
        /// Host and port.
        host: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A header, secret, certificate file or signer of ours is unusable.
    #[error("{0}")]
    Credential(String),
    /// No token for the request: the authorization server is away, refuses us, or is not to be found. Names its URL and
    /// what was seen, never a secret.
    #[error("{message}")]
    Authorization {
        /// One line.
        message: String,
        /// Who must act.
        class: Class,
    },
    /// The request or its options make no sense: a bug of ours or a bad value that validation let through.
    #[error("{0}")]
    Invalid(String),
}

/// Which clock ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// DNS, TCP and, in [`crate::HttpClient`], TLS.
    Connect,
    /// TLS.
    Handshake,
    /// From the request to the response's headers.
    Response,
    /// From one piece of the body to the next.
    Silence,
    /// From the request to the last byte of the body.
    Total,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting",
            Self::Handshake => "the TLS handshake",
            Self::Response => "waiting for the answer",
            Self::Silence => "waiting for more of the answer",
            Self::Total => "the whole exchange",
        })
    }
}

impl NetError {
    /// True when the request has not reached the server, so that sending it again is always safe.
    pub fn is_connect(&self) -> bool {
        match self {
            Self::Resolve { .. } | Self::Connect { .. } | Self::Tls { .. } => true,
            Self::Timeout { phase, .. } => matches!(phase, Phase::Connect | Phase::Handshake),
            Self::Refused(_)
            | Self::Interrupted { .. }
            | Self::TooLarge { .. }
            | Self::Coding { .. }
            | Self::Credential(_)
            | Self::Authorization { .. }
            | Self::Invalid(_) => false,
        }
    }
}

impl Classified for NetError {
    fn class(&self) -> Class {
        match self {
            Self::Refused(_) | Self::Invalid(_) => Class::Invalid,
            Self::Credential(_) => Class::Denied,
            Self::Authorization { class, .. } => *class,
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Tls { .. }
            | Self::Timeout { .. }
            | Self::Interrupted { .. }
            | Self::TooLarge { .. }
            | Self::Coding { .. } => Class::Unavailable,
        }
    }
}
