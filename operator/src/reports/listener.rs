//! The report port: mTLS with an SVID required, `POST /v1/report` and nothing else. Every process of the controllers
//! listens; one that does not lead closes what connects, so that the pod asks the Service again.
//!
//! A pod keeps its connection open and learns from its end that it has to report to another process; so there is no
//! idle deadline, but a bound on connections, of all and of one identity.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentd_base::class::{Class, Classified as _};
use agentd_base::drain::Watch;
use agentd_base::limit::REPORT_BYTES;
use agentd_base::report::{PATH, Report};
use agentd_identity::tls::{ClientAuth, peer_id, server_config};
use agentd_identity::{IdentitySource, SpiffeId};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::desk::Desk;

/// A handshake of a pod takes milliseconds.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
/// The head of a request in HTTP/1.1, and how long such a connection may be idle; pods speak HTTP/2.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);
/// One report: its body and the write of up to 65 statuses.
const REQUEST_DEADLINE: Duration = Duration::from_secs(60);
/// What is in flight when the process is asked to stop.
const DRAIN_DEADLINE: Duration = Duration::from_secs(5);
/// Connections at once: each is a pod. More wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 8192;
/// Connections of one identity: its pods, old and new, and those that have not noticed yet that they are gone.
const MAX_PER_PEER: usize = 128;
/// Requests at once on one connection: a pod sends one after the other.
const MAX_STREAMS: u32 = 8;
/// How a peer that vanished is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// How long it may take to answer that.
const KEEP_ALIVE_DEADLINE: Duration = Duration::from_secs(20);
/// Header bytes of one request.
const HEAD_BYTES: u32 = 16 * 1024;
/// The pause after a failed accept (no file descriptor left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// When a pod that could not be served should try again.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("2");

/// What a leader serves with.
#[derive(Debug, Clone)]
pub struct Service {
    /// Takes the reports.
    pub desk: Arc<Desk>,
    /// The process's SVID and the bundle.
    pub identity: IdentitySource,
}

/// The bound port.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Binds it. Port 0 takes a free one.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(address: SocketAddr) -> std::io::Result<Self> {
        Ok(Self(TcpListener::bind(address).await?))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the socket has no address.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves until the drain begins; with nobody in `leader`, closes what connects.
    pub async fn serve(self, leader: watch::Receiver<Option<Service>>, mut drain: Watch) {
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let peers = Peers::default();
        loop {
            let permit = tokio::select! {
                permit = room.clone().acquire_owned() => permit,
                () = drain.signaled() => break,
            };
            let Ok(permit) = permit else { break };
            let stream = tokio::select! {
                accepted = self.0.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(event = "report.accept.fail", error = %error);
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
                () = drain.signaled() => break,
            };
            let Some(service) = leader.borrow().clone() else {
                continue;
            };
            let (watcher, peers) = (graceful.watcher(), peers.clone());
            tokio::spawn(async move {
                connection(stream, service, peers, watcher).await;
                drop(permit);
            });
        }
        drop(self.0);
        let _ = timeout(DRAIN_DEADLINE, graceful.shutdown()).await;
    }
}

/// Connections by identity.
#[derive(Debug, Clone, Default)]
struct Peers(Arc<Mutex<HashMap<SpiffeId, usize>>>);

/// Counts one connection of an identity while it lives.
struct Counted(Peers, SpiffeId);

impl Peers {
    fn count(&self, peer: &SpiffeId) -> Option<Counted> {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = peers.entry(peer.clone()).or_default();
        if *count >= MAX_PER_PEER {
            return None;
        }
        *count += 1;
        Some(Counted(self.clone(), peer.clone()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut peers = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = peers.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                peers.remove(&self.1);
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    service: Service,
    peers: Peers,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let _ = stream.set_nodelay(true);
    let mut config = server_config(&service.identity, ClientAuth::Required);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let tls = match timeout(
        HANDSHAKE_DEADLINE,
        TlsAcceptor::from(Arc::new(config)).accept(stream),
    )
    .await
    {
        Ok(Ok(tls)) => tls,
        Ok(Err(error)) => {
            tracing::info!(event = "report.handshake.fail", error = %error);
            return;
        }
        Err(_) => return,
    };
    let Some(peer) = peer_id(tls.get_ref().1) else {
        return;
    };
    let Some(_counted) = peers.count(&peer) else {
        tracing::warn!(event = "report.connection.refused", peer.spiffe_id = %peer, limit = MAX_PER_PEER);
        return;
    };
    let _open = service.desk.metrics().connection();
    let state = Arc::new(Peer {
        id: peer,
        desk: service.desk,
    });
    let router = Router::new().route(PATH, post(report)).with_state(state);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(HEAD_BYTES)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_DEADLINE);
    let served = builder.serve_connection(TokioIo::new(tls), TowerToHyperService::new(router));
    if let Err(error) = watcher.watch(served.into_owned()).await {
        tracing::debug!(event = "report.connection.end", error = %error);
    }
}

/// Who is on a connection.
struct Peer {
    id: SpiffeId,
    desk: Arc<Desk>,
}

async fn report(State(peer): State<Arc<Peer>>, request: Request) -> Response {
    let answer = timeout(REQUEST_DEADLINE, take(&peer, request.into_body())).await;
    let (status, text) =
        answer.unwrap_or_else(|_| (StatusCode::SERVICE_UNAVAILABLE, "it took too long".to_owned()));
    peer.desk.metrics().reported(match status {
        StatusCode::OK => "ok",
        StatusCode::FORBIDDEN => "denied",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        _ => "invalid",
    });
    if status != StatusCode::OK {
        tracing::info!(event = "report.refused", peer.spiffe_id = %peer.id, status = status.as_u16(), message = %text);
    }
    let mut response = (status, text).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_SECONDS);
    }
    response
}

async fn take(peer: &Peer, body: Body) -> (StatusCode, String) {
    let Ok(body) = axum::body::to_bytes(body, REPORT_BYTES).await else {
        return (
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("a report has at most {REPORT_BYTES} bytes"),
        );
    };
    let report: Report = match serde_json::from_slice(&body) {
        Ok(report) => report,
        Err(error) => {
            return (
                StatusCode::BAD_REQUEST,
                format!("the body is not a report: {error}"),
            );
        }
    };
    match peer.desk.take(&peer.id, report).await {
        Ok(()) => (StatusCode::OK, String::new()),
        Err(error) => {
            let status = match error.class() {
                Class::Denied => StatusCode::FORBIDDEN,
                Class::Invalid => StatusCode::BAD_REQUEST,
                Class::Unavailable | Class::Conflict | Class::Internal => StatusCode::SERVICE_UNAVAILABLE,
            };
            (status, error.to_string())
        }
    }
}
