//! The issuer's listener: TLS with its own SVID, HTTP/1.1, `POST /v1/svid` and nothing else. Bounds everything a
//! stranger can do before and after the handshake; handshakes run off the accept path. Who may have what is policy's.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentd_base::class::Classified as _;
use agentd_base::drain::Watch;
use agentd_base::issuance::{self, SvidRequest, SvidResponse, reason};
use agentd_base::json::why;
use agentd_base::limit::CSR_BYTES;
use agentd_identity::authority::AuthorityError;
use agentd_identity::tls::{ClientAuth, server_config};
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Json, Response};
use axum::routing::post;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::Watcher;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::ObjectMeta;
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_rustls::server::TlsStream;

use super::facts::{Facts, Token};
use super::lookup::Lookup;
use super::metrics::{Metrics, Open};
use super::pace::{Pace, Rate};
use super::policy::{self, Case, Decision, Grant, Refusal};
use super::sign::Signer;
use super::token::{TokenVerifier, looks_signed};
use crate::events::Events;
use crate::tls_listener::{Bounds, Listener, Session};

/// The head of a request, and how long an idle connection is kept.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// One request: the API server is read up to eight times, each in milliseconds.
const REQUEST_DEADLINE: Duration = Duration::from_secs(20);
/// Requests at once that may read the API server.
const MAX_REQUESTS: usize = 64;
/// Requests of one ServiceAccount: a pod asks once when it starts and a few times a day; all pods of a Job may start
/// together. Above this many accounts those that have not asked for a minute are forgotten first.
const ACCOUNT_RATE: Rate = Rate {
    burst: 30.0,
    per_second: 0.5,
    keys: 20_000,
};
/// Requests of one origin, counted before anybody is asked whose token it is: garbage from one pod must not cost the API
/// server more than a full node that starts behind one address.
const ORIGIN_RATE: Rate = Rate {
    burst: 300.0,
    per_second: 10.0,
    keys: 20_000,
};
/// A CSR in JSON: its line ends are escaped.
const BODY_BYTES: usize = 2 * CSR_BYTES;
/// A head: a token is under 2 KiB.
const HEAD_BYTES: usize = 16 * 1024;
/// Header fields of one request.
const MAX_HEADERS: usize = 64;

/// What answers requests.
pub struct App {
    /// Verifies tokens.
    pub verifier: Box<dyn TokenVerifier>,
    /// Reads the API server.
    pub lookup: Box<dyn Lookup>,
    /// Signs.
    pub signer: Arc<Signer>,
    /// The cluster's DNS domain.
    pub cluster_domain: String,
    /// Says what a person should see.
    pub events: Events,
    /// Counts.
    pub metrics: Metrics,
    origins: Mutex<Pace<IpAddr>>,
    accounts: Mutex<Pace<(String, String)>>,
    requests: Semaphore,
}

impl App {
    /// Everything a request needs.
    pub fn new(
        verifier: Box<dyn TokenVerifier>,
        lookup: Box<dyn Lookup>,
        signer: Arc<Signer>,
        cluster_domain: String,
        events: Events,
        metrics: Metrics,
    ) -> Self {
        Self {
            verifier,
            lookup,
            signer,
            cluster_domain,
            events,
            metrics,
            origins: Mutex::new(Pace::new(ORIGIN_RATE)),
            accounts: Mutex::new(Pace::new(ACCOUNT_RATE)),
            requests: Semaphore::new(MAX_REQUESTS),
        }
    }

    async fn answer(
        &self,
        origin: Origin,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(SvidResponse, Case), Denied> {
        let token = bearer(headers)?;
        self.verifier.screen(token)?;
        let body = axum::body::to_bytes(body, BODY_BYTES).await.map_err(|_| {
            Refusal::new(
                reason::BAD_REQUEST,
                format!("the body has more than {BODY_BYTES} bytes"),
            )
        })?;
        let request: SvidRequest = serde_json::from_slice(&body).map_err(|e| {
            Refusal::new(
                reason::BAD_REQUEST,
                format!("the body is not an SVID request: {}", why(&e)),
            )
        })?;

        take_turn(&self.origins, origin.0, || format!("{} asks too often", origin.0))?;
        let permit = self.requests.acquire().await;
        permit
            .as_ref()
            .map_err(|_| unavailable("the issuer is stopping"))?;
        let token = self.verifier.verify(token).await?;
        let (namespace, account) = (&token.namespace, &token.service_account);
        take_turn(&self.accounts, (namespace.clone(), account.clone()), || {
            format!("ServiceAccount {namespace}/{account} asks too often")
        })?;
        let facts = self.lookup.facts(token).await.map_err(|error| {
            tracing::warn!(event = "issuer.lookup.fail", error = %error);
            unavailable("the Kubernetes API does not answer now; try again")
        })?;
        let Decision {
            outcome,
            label_ignored,
        } = policy::decide(&facts, self.signer.trust_domain(), &self.cluster_domain);
        if label_ignored {
            self.say_label_ignored(&facts).await;
        }
        match &outcome {
            Ok(Grant { case, id, dns_names }) => tracing::info!(
                event = "issuer.grant", peer.spiffe_id = %id, case = ?case, dns_names = ?dns_names,
                pod = facts.token.pod.as_ref().map(|pod| pod.name.as_str()),
            ),
            Err(refusal) => tracing::info!(
                event = "issuer.refuse",
                reason = refusal.reason,
                message = refusal.message,
                namespace = facts.token.namespace,
                service_account = facts.token.service_account,
                pod = facts.token.pod.as_ref().map(|pod| pod.name.as_str()),
            ),
        }
        let grant = outcome?;
        let response = self.signer.sign(&request.csr, &grant).map_err(|error| match error {
            AuthorityError::Csr(_) => Refusal::new(reason::BAD_REQUEST, error.to_string()),
            _ => {
                tracing::error!(event = "issuer.sign.fail", error = %error, error.class = error.class().label());
                unavailable("the issuer cannot sign now")
            }
        })?;
        Ok((response, grant.case))
    }

    async fn say_label_ignored(&self, facts: &Facts) {
        let Token {
            namespace,
            service_account,
            service_account_uid,
            ..
        } = &facts.token;
        let account = ServiceAccount {
            metadata: ObjectMeta {
                namespace: Some(namespace.clone()),
                name: Some(service_account.clone()),
                uid: Some(service_account_uid.clone()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        let note = "an Agent or McpServer uses this ServiceAccount, so its label agentd.io/caller is ignored; \
                    label a ServiceAccount that nothing else uses";
        self.events
            .warning(&account, "CallerLabelIgnored", "Issue", note)
            .await;
    }
}

/// Where a request comes from, as far as it counts for one.
#[derive(Debug, Clone, Copy)]
struct Origin(IpAddr);

fn take_turn<K: Eq + std::hash::Hash>(
    pace: &Mutex<Pace<K>>,
    key: K,
    message: impl FnOnce() -> String,
) -> Result<(), Denied> {
    let mut pace = pace.lock().unwrap_or_else(PoisonError::into_inner);
    pace.take(key, Instant::now()).map_err(|wait| Denied {
        refusal: Refusal::new(reason::RATE_LIMITED, message()),
        retry_after: Some(wait.as_secs().saturating_add(1)),
    })
}

/// A refusal on its way out.
struct Denied {
    refusal: Refusal,
    retry_after: Option<u64>,
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            retry_after: None,
        }
    }
}

fn unavailable(message: &str) -> Refusal {
    Refusal::new(reason::UNAVAILABLE, message)
}

fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let value = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let (scheme, token) = value.and_then(|value| value.split_once(' ')).unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("bearer") || !looks_signed(token) {
        return Err(Refusal::new(
            reason::TOKEN_INVALID,
            "send a ServiceAccount token as `Authorization: Bearer`",
        ));
    }
    Ok(token)
}

fn status_of(reason: &str) -> StatusCode {
    match reason {
        reason::BAD_REQUEST => StatusCode::BAD_REQUEST,
        reason::TOKEN_INVALID => StatusCode::UNAUTHORIZED,
        reason::RATE_LIMITED => StatusCode::TOO_MANY_REQUESTS,
        reason::UNAVAILABLE => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::FORBIDDEN,
    }
}

impl Denied {
    fn into_response(self) -> Response {
        let Refusal { reason, message } = self.refusal;
        let body = issuance::Refusal {
            reason: reason.to_owned(),
            message,
        };
        let mut response = (status_of(reason), Json(body)).into_response();
        if let Some(seconds) = self.retry_after {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The routes, over no transport in particular.
pub fn router(app: Arc<App>) -> Router {
    let nothing = || async { (StatusCode::NOT_FOUND, format!("only POST {}\n", issuance::PATH)) };
    Router::new()
        .route(issuance::PATH, post(handle))
        .fallback(nothing)
        .with_state(app)
}

async fn handle(
    State(app): State<Arc<App>>,
    Extension(origin): Extension<Origin>,
    request: Request<Body>,
) -> Response {
    let start = Instant::now();
    let (parts, body) = request.into_parts();
    let answer = timeout(REQUEST_DEADLINE, app.answer(origin, &parts.headers, body)).await;
    let answer =
        answer.unwrap_or_else(|_| Err(unavailable("the Kubernetes API is too slow; try again").into()));
    let (outcome, response) = match answer {
        Ok((svid, Case::Workload)) => ("workload", Json(svid).into_response()),
        Ok((svid, Case::Caller)) => ("caller", Json(svid).into_response()),
        Err(denied) => (denied.refusal.reason, denied.into_response()),
    };
    app.metrics.answered(outcome, start.elapsed());
    response
}

/// Bounds of the port.
const BOUNDS: Bounds = Bounds {
    name: "issuer",
    // A thousand pods that start together each ask once.
    connections: 1024,
    // A node that hides its pods behind its own address may start a hundred at once.
    per_origin: 128,
    drain: Duration::from_secs(10),
};

/// Serves until the drain begins, then lets what is in flight end.
pub async fn serve(listener: Listener, app: Arc<App>, drain: Watch) {
    let mut tls = server_config(app.signer.source(), ClientAuth::NotRequested);
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let (tls, router, metrics) = (Arc::new(tls), router(app.clone()), app.metrics.clone());
    let session = || {
        Some(Stranger {
            tls: tls.clone(),
            router: router.clone(),
            open: metrics.connection(),
        })
    };
    listener.serve(BOUNDS, session, drain).await;
}

/// What a connection is served with: nobody is known before the token.
struct Stranger {
    tls: Arc<ServerConfig>,
    router: Router,
    open: Open,
}

impl Session for Stranger {
    const KNOWN: bool = false;

    fn tls(&self) -> Arc<ServerConfig> {
        self.tls.clone()
    }

    async fn serve(
        self,
        stream: TlsStream<TcpStream>,
        origin: IpAddr,
        watcher: Watcher,
    ) -> Result<(), String> {
        let Self { tls: _, router, open } = self;
        let router = router.layer(Extension(Origin(origin)));
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_DEADLINE)
            .max_buf_size(HEAD_BYTES)
            .max_headers(MAX_HEADERS)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
        let served = watcher.watch(connection).await;
        drop(open);
        served.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
