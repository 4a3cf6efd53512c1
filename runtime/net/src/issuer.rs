//! Gets an X.509-SVID from the issuer and keeps it fresh. The key is made here and never leaves the process; the token
//! is read at each try; the issuer is known by its SPIFFE ID, checked against the bundle that the pod was given.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentd_base::class::{Class, Classified};
use agentd_base::clock::SharedClock;
use agentd_base::issuance::{PATH, Refusal, SvidRequest, SvidResponse};
use agentd_base::json::why;
use agentd_base::limit::SECRET_BYTES;
use agentd_base::text::clip;
use agentd_identity::request::new_key_and_csr;
use agentd_identity::{IdentitySource, SpiffeId, Svid};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::watch;

use crate::client::HttpClient;
use crate::destination::{Declared, Destination, DestinationError};
use crate::error::NetError;
use crate::options::{Limits, Options, Replay, Timeouts};
use crate::pace::{Backoff, Pace, jittered};
use crate::sign::header_value;
use crate::tls::TlsMode;

/// An answer: a chain, a bundle and little else.
const ANSWER_BYTES: usize = 512 * 1024;
/// One request. The issuer asks the API server a few questions.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// Renewal comes this much earlier than a third of the life, at most, so that pods do not come in step.
const JITTER: f64 = 0.2;
/// However short a life is, the issuer is not asked more often.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

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
    /// The configured URL is no destination.
    #[error("identity.issuer_url {0}")]
    Url(#[from] DestinationError),
    /// There is no trust bundle to know the issuer by.
    #[error("there is no trust bundle yet to know the issuer by; is the bundle file mounted?")]
    NoBundle,
    /// The token file cannot be read.
    #[error("{0}")]
    Token(String),
    /// The issuer cannot be reached.
    #[error("the issuer cannot be reached: {0}")]
    Net(#[from] NetError),
    /// The issuer said no.
    #[error("the issuer refused ({reason}): {message}")]
    Refused {
        /// CamelCase.
        reason: String,
        /// For people.
        message: String,
    },
    /// The issuer is not well.
    #[error("the issuer answered with HTTP {0}")]
    Status(u16),
    /// The issuer's answer is unusable.
    #[error("the issuer's answer is unusable: {0}")]
    Answer(String),
    /// No key could be made.
    #[error("{0}")]
    Key(String),
}

impl Classified for IssuerError {
    fn class(&self) -> Class {
        match self {
            Self::Url(_) => Class::Invalid,
            Self::Net(error) => error.class(),
            Self::NoBundle | Self::Status(_) => Class::Unavailable,
            Self::Token(_) | Self::Refused { .. } => Class::Denied,
            Self::Answer(_) | Self::Key(_) => Class::Internal,
        }
    }
}

/// What was issued.
#[derive(Debug)]
pub struct Issued {
    /// Checked against the bundle that we hold.
    pub svid: Svid,
    /// The trust domain's roots as the issuer sends them, PEM: for those who write files, not trusted here.
    pub bundle_pem: String,
}

/// Asks the issuer.
pub struct IssuerClient {
    http: HttpClient,
    source: IdentitySource,
    config: IssuerConfig,
    clock: SharedClock,
}

impl IssuerClient {
    /// A client that trusts the issuer by the bundle in `source`.
    ///
    /// # Errors
    /// When the URL is no https destination.
    pub fn new(
        source: IdentitySource,
        config: IssuerConfig,
        clock: SharedClock,
    ) -> Result<Self, IssuerError> {
        let destination = Destination::declared(&config.url, Declared::Internal)?;
        let options = Options {
            tls: TlsMode::SpiffeServerOnly {
                source: source.clone(),
                expected: config.id.clone(),
            },
            timeouts: Timeouts {
                response: Some(REQUEST_TIME),
                total: Some(REQUEST_TIME),
                ..Timeouts::default()
            },
            limits: Limits {
                body_bytes: ANSWER_BYTES,
                ..Limits::default()
            },
            ..Options::default()
        };
        Ok(Self {
            http: HttpClient::new(destination, options)?,
            source,
            config,
            clock,
        })
    }

    /// One request with a new key.
    ///
    /// # Errors
    /// See [`IssuerError`].
    pub async fn fetch(&self) -> Result<Issued, IssuerError> {
        let bundle = self
            .source
            .current()
            .bundle
            .clone()
            .ok_or(IssuerError::NoBundle)?;
        let (key, csr) = new_key_and_csr().map_err(|error| IssuerError::Key(error.to_string()))?;
        let token = read_token(&self.config.token_file)?;
        let response = self.http.send(request(csr, &token)?).await?;
        let status = response.status;
        let body = response.body.bytes().await?;
        if !status.is_success() {
            return Err(refusal(status.as_u16(), &body));
        }
        let answer: SvidResponse =
            serde_json::from_slice(&body).map_err(|error| IssuerError::Answer(why(&error)))?;
        let svid = Svid::from_pem(
            answer.certificates.as_bytes(),
            key.as_bytes(),
            &bundle,
            self.clock.now(),
        )
        .map_err(|error| IssuerError::Answer(error.to_string()))?;
        match &self.config.expected {
            Some(expected) if expected != svid.id() => Err(IssuerError::Answer(format!(
                "it is for {}, and this process is {expected}",
                svid.id()
            ))),
            _ => Ok(Issued {
                svid,
                bundle_pem: answer.bundle,
            }),
        }
    }
}

/// A request that may be sent twice: a second certificate for the same key harms nobody.
fn request(csr: String, token: &SecretString) -> Result<Request<Bytes>, IssuerError> {
    let body =
        serde_json::to_vec(&SvidRequest { csr }).map_err(|error| IssuerError::Key(error.to_string()))?;
    let bearer = SecretString::from(format!("Bearer {}", token.expose_secret()));
    let mut request = Request::new(Bytes::from(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static(PATH);
    request
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request
        .headers_mut()
        .insert(AUTHORIZATION, header_value(&AUTHORIZATION, &bearer)?);
    request.extensions_mut().insert(Replay::Safe);
    Ok(request)
}

pub(crate) fn refusal(status: u16, body: &[u8]) -> IssuerError {
    match serde_json::from_slice::<Refusal>(body) {
        Ok(Refusal { reason, message }) => IssuerError::Refused {
            reason: clip(&reason, 64),
            message: clip(&message, 512),
        },
        Err(_) => IssuerError::Status(status),
    }
}

fn read_token(path: &Path) -> Result<SecretString, IssuerError> {
    use std::io::Read as _;
    let fault = |why: String| IssuerError::Token(format!("token file {}: {why}", path.display()));
    let mut text = String::new();
    let most = u64::try_from(SECRET_BYTES).unwrap_or(u64::MAX);
    let read = crate::tls::open(path).and_then(|file| file.take(most + 1).read_to_string(&mut text));
    let read = read.map_err(|error| fault(error.to_string()))?;
    if read > SECRET_BYTES {
        return Err(fault("is too long for a token".into()));
    }
    match text.trim() {
        "" => Err(fault("is empty".into())),
        token => Ok(SecretString::from(token)),
    }
}

/// What the renewal loop last saw, for `/readyz`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewal {
    /// Why the last try failed; `None` after a success and before the first try.
    pub last_error: Option<String>,
    /// SVIDs taken so far.
    pub renewals: u64,
}

/// After a failure: from one second to a minute, so that a pod that came first is ready soon after the issuer is.
pub const PACE: Pace = Pace {
    first: Duration::from_secs(1),
    max: Duration::from_secs(60),
};

/// Fetches an SVID and puts it into the source, again at a third of its life (up to a fifth earlier, by chance), and
/// after failures at `pace` or as soon as the bundle changes. Spawn it; it ends only when it is dropped.
pub async fn renew(client: IssuerClient, pace: Pace, state: watch::Sender<Renewal>) {
    let mut changes = client.source.subscribe();
    let mut backoff = Backoff::new(pace);
    loop {
        changes.mark_unchanged();
        match turn(&client).await {
            Ok(svid) => {
                backoff.reset();
                let life = span(svid.issued_at(), svid.expires_at());
                let gone = span(svid.issued_at(), client.clock.now());
                let wait = jittered(life / 3, JITTER).saturating_sub(gone).max(SHORTEST_WAIT);
                tracing::info!(event = "identity.svid.renewed", spiffe_id = %svid.id(), expires_at = %svid.expires_at(), next_s = wait.as_secs());
                state.send_modify(|state| {
                    *state = Renewal {
                        last_error: None,
                        renewals: state.renewals + 1,
                    }
                });
                tokio::time::sleep(wait).await;
            }
            Err(error) => {
                let wait = backoff.wait();
                tracing::warn!(event = "identity.svid.fail", err = %error, error.class = error.class().label(), next_s = wait.as_secs());
                state.send_modify(|state| state.last_error = Some(error.to_string()));
                let _ = tokio::time::timeout(wait, bundle_change(&client.source, &mut changes)).await;
            }
        }
    }
}

async fn turn(client: &IssuerClient) -> Result<Arc<Svid>, IssuerError> {
    let issued = client.fetch().await?;
    client
        .source
        .set_svid(issued.svid)
        .map_err(|error| IssuerError::Answer(error.to_string()))?;
    client
        .source
        .current()
        .svid
        .clone()
        .ok_or_else(|| IssuerError::Answer("no SVID".into()))
}

/// Resolves when the source has another bundle than now.
async fn bundle_change(
    source: &IdentitySource,
    changes: &mut watch::Receiver<Arc<agentd_identity::Snapshot>>,
) {
    let before = source.current().bundle.clone();
    let _ = changes.wait_for(|snapshot| snapshot.bundle != before).await;
}

fn span(from: jiff::Timestamp, to: jiff::Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}
