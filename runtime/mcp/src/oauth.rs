//! OAuth 2 towards one MCP server, as a signer of its requests: the server's 401 says where tokens come from, a 403 with
//! `insufficient_scope` which rights are missing, and the refused request goes out again with a new token. One token for
//! each connection, renewed shortly before it runs out, by one request however many wait for it. Discovery, registration,
//! PKCE and the `iss` check are the SDK's; its `AuthClient` is not used, because it neither discovers nor steps up, asks
//! nobody for a token without a refresh token, and holds a lock during every request.
//!
//! A token is in memory alone, goes to the declared endpoint's origin and nowhere else, and is in no log, error or
//! status; a server that repeats it gets it cut out of its answers.

mod assertion;
mod client;
mod code;
mod dialer;
#[cfg(test)]
mod fuzz;
mod search;
mod token;
mod veil;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentd_base::class::Class;
use agentd_net::{NetError, Refusal, RequestSigner, SecretValue};
use bytes::Bytes;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode, request};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use self::client::{ClientCredentials, Settings};
pub(crate) use self::code::Code;
pub use self::code::{Login, Opener, Registered};
pub(crate) use self::dialer::Dialer;
use self::token::{Freshness, Granted, Kept};

/// Discovery and a token, or a person who logs in.
const ACQUIRE: Duration = Duration::from_secs(60);
/// Steps up for one request. Each has to bring rights that were not asked for before.
const STEP_UPS: u32 = 3;
/// `WWW-Authenticate`, all lines of it.
const CHALLENGE_BYTES: usize = 8 * 1024;

/// Why a token is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Want {
    /// There is none, and it is known where to ask.
    First,
    /// It runs out.
    Renewed,
    /// The server answered 401, with this challenge.
    Challenged(Option<String>),
    /// The server answered 403: these rights are missing. The challenge is the second.
    Scopes(BTreeSet<String>, Option<String>),
}

/// Where tokens come from.
#[async_trait::async_trait]
pub(crate) trait Grant: Send {
    /// Whether a token can be had before the server was asked.
    fn is_ready(&self) -> bool;

    /// A new token.
    async fn token(&mut self, want: &Want) -> Result<Granted, NetError>;
}

/// A grant whose every token is a search of its own to its dialer.
pub(crate) struct Search<G> {
    dialer: Arc<Dialer>,
    grant: G,
}

impl<G> Search<G> {
    pub(crate) fn new(dialer: Arc<Dialer>, grant: G) -> Self {
        Self { dialer, grant }
    }
}

#[async_trait::async_trait]
impl<G: Grant> Grant for Search<G> {
    fn is_ready(&self) -> bool {
        self.grant.is_ready()
    }

    async fn token(&mut self, want: &Want) -> Result<Granted, NetError> {
        self.dialer.begin();
        self.grant.token(want).await
    }
}

/// The signer. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OAuth(Arc<Inner>);

struct Inner {
    ready: bool,
    source: Arc<tokio::sync::Mutex<Source>>,
    kept: Mutex<Option<Kept>>,
    /// Requests that wait for a token.
    waiting: watch::Sender<usize>,
}

struct Source {
    grant: Box<dyn Grant>,
    failed: Option<(Instant, NetError)>,
    granted: u64,
}

impl OAuth {
    pub(crate) fn new(grant: impl Grant + 'static) -> Self {
        Self(Arc::new(Inner {
            ready: grant.is_ready(),
            source: Arc::new(tokio::sync::Mutex::new(Source {
                grant: Box::new(grant),
                failed: None,
                granted: 0,
            })),
            kept: Mutex::new(None),
            waiting: watch::Sender::default(),
        }))
    }

    /// The current token, for those who cut it out of what comes back.
    pub(crate) fn confidential(&self) -> SecretValue {
        let this = self.clone();
        Arc::new(move || {
            let kept = this.kept().map(|kept| kept.token);
            kept.ok_or_else(|| "there is no token yet".to_owned())
        })
    }

    /// How many requests wait for a token now.
    pub(crate) fn waiting(&self) -> watch::Receiver<usize> {
        self.0.waiting.subscribe()
    }

    fn kept(&self) -> Option<Kept> {
        self.slot().clone()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Kept>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets a token in place of the one numbered `seen`. Whoever wants the same waits for the first and shares its
    /// outcome. A caller that gives up does not end it: the next one finds it done.
    async fn acquire(&self, seen: Option<u64>, want: Want) -> Result<Kept, NetError> {
        let since = Instant::now();
        self.0.waiting.send_modify(|waiting| *waiting += 1);
        let _waits = Waits(&self.0.waiting);
        let this = self.clone();
        let task = tokio::spawn(async move {
            let mut source = this.0.source.clone().lock_owned().await;
            if let Some(kept) = this.kept().filter(|kept| Some(kept.number) != seen) {
                return Ok(kept);
            }
            if let Some((_, error)) = source.failed.as_ref().filter(|(at, _)| *at >= since) {
                tracing::debug!(event = "mcp.auth.wait.fail", err = %error);
                return Err(error.clone());
            }
            let outcome = match tokio::time::timeout(ACQUIRE, source.grant.token(&want)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(unavailable(format!("no token within {ACQUIRE:?}"))),
            };
            match outcome {
                Err(error) => {
                    source.failed = Some((Instant::now(), error.clone()));
                    Err(error)
                }
                Ok(granted) => {
                    source.granted += 1;
                    let kept = Kept::new(granted, source.granted, Instant::now());
                    *this.slot() = Some(kept.clone());
                    Ok(kept)
                }
            }
        });
        match task.await {
            Ok(outcome) => outcome,
            Err(_) => Err(unavailable("asking for a token was broken off".to_owned())),
        }
    }

    /// The token that a request goes out with; none where the server has to say first where they come from.
    async fn current(&self) -> Result<Option<Kept>, NetError> {
        let Some(kept) = self.kept() else {
            return match self.0.ready {
                true => self.acquire(None, Want::First).await.map(Some),
                false => Ok(None),
            };
        };
        let freshness = kept.freshness(Instant::now());
        if freshness == Freshness::Fresh {
            return Ok(Some(kept));
        }
        match self.acquire(Some(kept.number), Want::Renewed).await {
            Ok(renewed) => Ok(Some(renewed)),
            // It still is good for a moment, and the next try may find the authorization server again.
            Err(error) if freshness == Freshness::Due => {
                tracing::warn!(event = "mcp.auth.renew.fail", "{error}");
                if let Some(slot) = self.slot().as_mut().filter(|slot| slot.number == kept.number) {
                    slot.postpone(Instant::now());
                }
                Ok(Some(kept))
            }
            Err(error) => Err(error),
        }
    }
}

/// One request that waits.
struct Waits<'a>(&'a watch::Sender<usize>);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting = waiting.saturating_sub(1));
    }
}

#[async_trait::async_trait]
impl RequestSigner for OAuth {
    async fn sign(&self, parts: &mut request::Parts, _: &Bytes) -> Result<(), NetError> {
        if let Some(kept) = self.current().await? {
            parts.headers.insert(AUTHORIZATION, bearer(&kept.token)?);
        }
        Ok(())
    }

    async fn refused(&self, refusal: &Refusal<'_>) -> Result<bool, NetError> {
        let kept = self.kept();
        let number = kept.as_ref().map(|kept| kept.number);
        let challenge = challenge(refusal.headers);
        let want = match refusal.status {
            StatusCode::UNAUTHORIZED if refusal.round == 0 => Want::Challenged(challenge),
            StatusCode::FORBIDDEN if refusal.round < STEP_UPS => {
                let missing = challenge.as_deref().and_then(token::missing_scopes);
                let asked = kept.as_ref().map(|kept| &kept.scopes);
                match missing {
                    Some(missing) if asked.is_none_or(|asked| !missing.is_subset(asked)) => {
                        Want::Scopes(missing, challenge)
                    }
                    _ => return Ok(false),
                }
            }
            _ => return Ok(false),
        };
        // While this request was away, another one may have brought a newer token.
        if let Some(kept) = &kept
            && refusal.sent.get(AUTHORIZATION) != Some(&bearer(&kept.token)?)
        {
            return Ok(true);
        }
        self.acquire(number, want).await.map(|_| true)
    }
}

/// All challenges in one line; `None` where there is none that can be read.
fn challenge(headers: &HeaderMap) -> Option<String> {
    let lines: Vec<_> = headers
        .get_all(WWW_AUTHENTICATE)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .collect();
    let line = lines.join(", ");
    (!line.is_empty() && line.len() <= CHALLENGE_BYTES).then_some(line)
}

fn bearer(token: &SecretString) -> Result<HeaderValue, NetError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
        .map_err(|_| unavailable("the token that was given cannot be sent".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn unavailable(message: String) -> NetError {
    NetError::Authorization {
        message,
        class: Class::Unavailable,
    }
}

fn denied(message: String) -> NetError {
    NetError::Authorization {
        message,
        class: Class::Denied,
    }
}
