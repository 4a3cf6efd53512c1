//! Gets an X.509-SVID from the issuer and keeps it fresh. The key is made here and never leaves.

use std::path::PathBuf;
use std::time::Duration;

use agentd_base::clock::SharedClock;
use agentd_identity::{IdentitySource, SpiffeId};
use tokio::sync::watch;

/// Where the issuer is and with what we come.
#[derive(Debug, Clone)]
pub struct IssuerConfig {
    /// `https://<issuer Service>.<namespace>.svc:8443`.
    pub url: String,
    /// Exactly this SPIFFE ID.
    pub id: SpiffeId,
    /// The ServiceAccount token; read at each try.
    pub token_file: PathBuf,
    /// The ID that must be issued; `None` takes what comes (`agentd identity fetch`).
    pub expected: Option<SpiffeId>,
}

/// Why there is no SVID.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IssuerError {
    /// The token file cannot be read.
    #[error("{0}")]
    Token(String),
    /// The issuer cannot be reached.
    #[error("the issuer cannot be reached: {0}")]
    Net(#[from] crate::NetError),
    /// The issuer said no.
    #[error("the issuer refused ({reason}): {message}")]
    Refused {
        /// CamelCase.
        reason: String,
        /// For people.
        message: String,
    },
    /// The issuer's answer is unusable.
    #[error("the issuer's answer is unusable: {0}")]
    Answer(String),
}

/// What was issued, also as PEM for those who write it to files.
pub struct Issued {
    /// Checked against the bundle.
    pub svid: agentd_identity::Svid,
    /// Leaf first.
    pub certificates_pem: String,
    /// PKCS#8.
    pub key_pem: secrecy::SecretString,
    /// The trust domain's roots as the issuer sends them.
    pub bundle_pem: String,
}

/// Asks the issuer.
pub struct IssuerClient {
    _private: (),
}

impl IssuerClient {
    /// A client that trusts the issuer by the bundle in `source`.
    pub fn new(source: IdentitySource, config: IssuerConfig, clock: SharedClock) -> Result<Self, IssuerError> {
        let _ = (source, config, clock);
        todo!()
    }

    /// One request with a new key.
    pub async fn fetch(&self) -> Result<Issued, IssuerError> {
        todo!()
    }
}

/// What the renewal loop last saw, for `/readyz`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewal {
    /// Why the last try failed; `None` after a success.
    pub last_error: Option<String>,
    /// SVIDs taken so far.
    pub renewals: u64,
}

/// The clocks of the loop.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// First wait after a failure; doubles.
    pub retry_first: Duration,
    /// Longest wait after a failure.
    pub retry_max: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { retry_first: Duration::from_secs(1), retry_max: Duration::from_secs(60) }
    }
}

/// Fetches an SVID, puts it into `source`, and again at a third of its life with jitter; after a failure with growing
/// waits. Spawn it; it ends only when it is dropped.
pub async fn renew(client: IssuerClient, pace: Pace, state: watch::Sender<Renewal>) {
    let _ = (client, pace, state);
    todo!()
}
