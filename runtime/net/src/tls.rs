//! How a destination proves who it is, and how we do.

use std::path::PathBuf;

use agentd_identity::{IdentitySource, SpiffeId};

/// How a destination is trusted.
#[derive(Clone)]
pub enum TlsMode {
    /// The bundled web roots and the given ones; the certificate must name the host.
    WebRoots(WebRoots),
    /// Mutual TLS inside the trust domain: the server is exactly `expected`, we show our SVID.
    Spiffe {
        /// Ours.
        source: IdentitySource,
        /// The server's.
        expected: SpiffeId,
    },
    /// The server is exactly `expected`; we show no certificate.
    SpiffeServerOnly {
        /// Has the bundle.
        source: IdentitySource,
        /// The server's.
        expected: SpiffeId,
    },
}

/// Trust and identity from files, read again at the first connection after they change.
#[derive(Debug, Clone, Default)]
pub struct WebRoots {
    /// PEM files with roots, added to the bundled ones.
    pub ca_files: Vec<PathBuf>,
    /// Client certificate chain and key, PEM.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// The name in SNI and in the certificate when it is not the host.
    pub server_name: Option<String>,
}

impl Default for TlsMode {
    fn default() -> Self {
        Self::WebRoots(WebRoots::default())
    }
}
