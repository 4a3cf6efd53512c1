//! An issuer: where its keys are, and those that it had when it was asked last. It is asked when nobody knows its keys,
//! when they are old, and when a token names one that is not among them; never more often than the floor, whatever
//! strangers send. Who cannot be asked vouches for nobody.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use agentd_net::tls::WebRoots;
use agentd_net::{Declared, Destination, HttpClient, Limits, NetError, Options, Timeouts, TlsMode};
use bytes::Bytes;
use http::{Request, Uri, header};
use serde::Deserialize;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use super::keys::{KeySet, Verdict};
use super::token::Token;

/// Keys that are older are asked for again, while they still count.
const FRESH: Duration = Duration::from_secs(5 * 60);
/// Keys that are older count no more: an issuer that took one back is believed after this time at the latest.
const USABLE: Duration = Duration::from_secs(60 * 60);
/// From one question to the next.
const FLOOR: Duration = Duration::from_secs(10);
/// One request: somebody waits for it.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// What an issuer says of itself, and its keys.
const ANSWER_BYTES: usize = 256 * 1024;
const METADATA: &str = "/.well-known/openid-configuration";

/// What came of asking whether a token is an issuer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vouched {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// Nobody could be asked.
    Unknown,
}

/// One issuer of the document.
pub(crate) struct Issuer {
    url: String,
    roots: WebRoots,
    known: RwLock<Option<Known>>,
    /// When it was asked last. Who holds it asks.
    asked: Arc<Mutex<Option<Instant>>>,
}

#[derive(Clone)]
struct Known {
    keys: Arc<KeySet>,
    at: Instant,
}

/// What is read of an issuer's metadata (OpenID Connect Discovery 1.0, 3).
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) issuer: String,
    pub(crate) jwks_uri: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("{0}")]
    Net(#[from] NetError),
    #[error("it answered with HTTP {0}")]
    Status(u16),
    #[error("{0}")]
    Answer(&'static str),
    #[error("its keys are at a place that {0}")]
    Place(#[from] agentd_net::DestinationError),
}

impl Issuer {
    pub(crate) fn new(url: &str, roots: WebRoots) -> Self {
        Self {
            url: url.to_owned(),
            roots,
            known: RwLock::default(),
            asked: Arc::default(),
        }
    }

    /// Whether it signed this token.
    pub(crate) async fn vouches_for(self: &Arc<Self>, token: &Token<'_>) -> Vouched {
        let mut known = self.known();
        if known.as_ref().is_none_or(|known| known.at.elapsed() > USABLE) {
            known = self.known_after(known.map(|known| known.at)).await;
        } else if known.as_ref().is_some_and(|known| known.at.elapsed() > FRESH)
            && let Ok(asked) = self.asked.clone().try_lock_owned()
        {
            let issuer = self.clone();
            tokio::spawn(async move { issuer.ask(asked).await });
        }
        let Some(known) = known else {
            return Vouched::Unknown;
        };
        let verdict = match token.verdict(&known.keys) {
            Verdict::NoSuchKey => match self.known_after(Some(known.at)).await {
                Some(known) => token.verdict(&known.keys),
                None => return Vouched::Unknown,
            },
            verdict => verdict,
        };
        match verdict {
            Verdict::Signed => Vouched::Yes,
            Verdict::Forged | Verdict::NoSuchKey => Vouched::No,
        }
    }

    /// The keys that count, once it was asked after those of `before`, or may not be asked again yet. The question goes
    /// on when the caller does not wait for it.
    async fn known_after(self: &Arc<Self>, before: Option<Instant>) -> Option<Known> {
        let issuer = self.clone();
        let turn = tokio::spawn(async move {
            let asked = issuer.asked.clone().lock_owned().await;
            if issuer.known().map(|known| known.at) == before {
                issuer.ask(asked).await;
            }
        });
        // A turn that did not come to its end left what was there.
        let _ = turn.await;
        self.known().filter(|known| known.at.elapsed() <= USABLE)
    }

    fn known(&self) -> Option<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn ask(&self, mut asked: OwnedMutexGuard<Option<Instant>>) {
        if asked.is_some_and(|at| at.elapsed() < FLOOR) {
            return;
        }
        match self.fetch().await {
            Ok(keys) => {
                let keys = Arc::new(keys);
                let known = Known {
                    keys,
                    at: Instant::now(),
                };
                *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
            }
            Err(problem) => {
                tracing::warn!(event = "a2a.principal.issuer.fail", issuer = self.url, err = %problem);
            }
        }
        *asked = Some(Instant::now());
    }

    async fn fetch(&self) -> Result<KeySet, Problem> {
        let destination = Destination::declared(&self.url, Declared::Mcp)?;
        let path = destination.url().path().trim_end_matches('/');
        let place = format!("{path}{METADATA}");
        let metadata = metadata(&self.get(destination.clone(), &place).await?, &self.url)?;
        let keys = destination.discovered(&metadata.jwks_uri)?;
        let path = match keys.url().query() {
            Some(query) => format!("{}?{query}", keys.url().path()),
            None => keys.url().path().to_owned(),
        };
        KeySet::read(&self.get(keys, &path).await?).map_err(Problem::Answer)
    }

    async fn get(&self, destination: Destination, path: &str) -> Result<Bytes, Problem> {
        let options = Options {
            tls: TlsMode::WebRoots(self.roots.clone()),
            timeouts: Timeouts {
                connect: REQUEST_TIME,
                response: Some(REQUEST_TIME),
                total: Some(REQUEST_TIME),
            },
            limits: Limits {
                body_bytes: ANSWER_BYTES,
                ..Limits::default()
            },
            ..Options::default()
        };
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = path
            .parse::<Uri>()
            .map_err(|_| Problem::Answer("its address cannot be asked for"))?;
        request
            .headers_mut()
            .insert(header::ACCEPT, http::HeaderValue::from_static("application/json"));
        let response = HttpClient::new(destination, options)?.send(request).await?;
        if response.status != http::StatusCode::OK {
            return Err(Problem::Status(response.status.as_u16()));
        }
        Ok(response.body.bytes().await?)
    }
}

/// What an issuer says of itself, if it is this one: a name that is only nearly it is another's.
pub(super) fn metadata(bytes: &[u8], issuer: &str) -> Result<Metadata, Problem> {
    let metadata: Metadata = serde_json::from_slice(bytes)
        .map_err(|_| Problem::Answer("what it says of itself is not readable"))?;
    if metadata.issuer != issuer {
        return Err(Problem::Answer("it says that it is another one"));
    }
    Ok(metadata)
}
