//! What a client does with its requests: clocks, bounds, trust, and what is added to each.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method, request};

use crate::sign::{RequestSigner, SecretValue};
use crate::tls::TlsMode;

/// The clocks of a request. Each runs on its own.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// DNS, TCP and TLS of a new connection.
    pub connect: Duration,
    /// From the call to the response's headers. `None`: the caller has a clock of its own.
    pub response: Option<Duration>,
    /// From the call to the last byte of the body. `None`: for streams.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            response: Some(Duration::from_secs(60)),
            total: None,
        }
    }
}

/// How much of a response is taken.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Names and values of all headers.
    pub header_bytes: usize,
    /// [`Body::bytes`].
    pub body_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: 64 * 1024,
            body_bytes: 16 * 1024 * 1024,
        }
    }
}

/// Everything about a client but its destination.
#[derive(Clone, Default)]
pub struct Options {
    /// Trust.
    pub tls: TlsMode,
    /// Clocks.
    pub timeouts: Timeouts,
    /// Bounds.
    pub limits: Limits,
    /// Sent with every request; values are resolved for each one. A header that the request already has wins.
    pub headers: Vec<(HeaderName, SecretValue)>,
    /// Those of the values above, and of the signer's, that are secret: a response that repeats one comes without it.
    pub confidential: Vec<SecretValue>,
    /// A successful response comes as it is: what is kept at a server must come back as it was given, whatever is in it.
    pub verbatim: bool,
    /// Authenticates every request.
    pub signer: Option<Arc<dyn RequestSigner>>,
}

/// Whether a request may be sent again: when a pooled connection turned out to be dead and nobody knows whether the
/// server saw it, when no connection could be made, when the server asks for it (429, 503). Put it into the request's extensions; absent, GET, HEAD, PUT and DELETE are
/// [`Replay::Safe`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// Twice is as good as once.
    Safe,
    /// Only when it certainly was not sent.
    Unsafe,
}

impl Replay {
    /// Whether this request may be sent a second time.
    pub(crate) fn allows(parts: &request::Parts) -> bool {
        match parts.extensions.get::<Replay>() {
            Some(replay) => *replay == Replay::Safe,
            None => matches!(
                parts.method,
                Method::GET | Method::HEAD | Method::PUT | Method::DELETE
            ),
        }
    }
}

/// What happens to a redirect. Put it into the request's extensions; absent, one on the same origin is followed and any
/// other is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// The response is the caller's, who decides by rules of its own.
    Returned,
}

impl Redirects {
    /// Whether the caller wants to see redirects.
    pub(crate) fn returned(parts: &request::Parts) -> bool {
        parts.extensions.get::<Self>() == Some(&Self::Returned)
    }
}
