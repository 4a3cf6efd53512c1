//! A destination: a URL that passed the rules for where it comes from. It is the only thing that can be dialled.

use std::sync::Arc;

use url::Url;

/// Where the URL was written, which decides what it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declared {
    /// An MCP endpoint: https, or loopback http.
    Mcp,
    /// A model endpoint: https, loopback http, or http to a private address with `allow_plaintext`.
    Model {
        /// `intelligence.endpoints[].allow_plaintext`.
        allow_plaintext: bool,
    },
    /// Issuer, report endpoint, A2A peer: https.
    Internal,
    /// Our own loopback port, such as the bridge's upstream: http to loopback only.
    Upstream,
}

/// A URL that may be dialled. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Destination {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) url: Url,
}

/// Why a URL is no destination: what is wrong and the remedy, without the URL's secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DestinationError(pub String);

impl Destination {
    /// A URL from the configuration.
    pub fn declared(url: &str, declared: Declared) -> Result<Self, DestinationError> {
        let _ = (url, declared);
        todo!()
    }

    /// A URL that a peer named (redirect, OAuth metadata, card), reached through `self`: never in a more private class
    /// than `self`, and https unless `self` is loopback http.
    pub fn discovered(&self, url: &str) -> Result<Self, DestinationError> {
        let _ = url;
        todo!()
    }

    /// The URL.
    pub fn url(&self) -> &Url {
        &self.inner.url
    }

    /// `host:port`, for messages.
    pub fn authority(&self) -> String {
        todo!()
    }
}
