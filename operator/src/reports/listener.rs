//! The report port: mTLS with an SVID required, `POST /v1/report` and nothing else. Every process of the controllers
//! listens; one that does not lead closes what connects, so that the pod asks the Service again.
//!
//! A pod keeps its connection open and learns from its end that it has to report to another process; so there is no
//! idle deadline, but a bound on connections, of all and of one identity.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::class::{Class, Classified as _};
use agentd_base::drain::Watch;
use agentd_base::json::why;
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
use hyper_util::server::graceful::Watcher;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use super::desk::Desk;
use crate::tally::Tally;
use crate::tls_listener::{Bounds, Listener, Session};

/// The head of a request in HTTP/1.1, and how long such a connection may be idle; pods speak HTTP/2.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);
/// One report: its body and the write of up to 65 statuses.
const REQUEST_DEADLINE: Duration = Duration::from_secs(60);
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

/// Bounds of the port.
const BOUNDS: Bounds = Bounds {
    name: "report",
    // Each is a pod.
    connections: 8192,
    // A node that hides its pods behind its own address has up to some hundred of them, old and new.
    per_origin: 1024,
    drain: Duration::from_secs(5),
};

/// Serves until the drain begins; with nobody in `leader`, closes what connects.
pub async fn serve(listener: Listener, leader: watch::Receiver<Option<Service>>, drain: Watch) {
    let peers = Tally::new(MAX_PER_PEER);
    let session = || {
        let service = leader.borrow().clone()?;
        let peers = peers.clone();
        Some(Pod { service, peers })
    };
    listener.serve(BOUNDS, session, drain).await;
}

/// What a pod's connection is served with.
struct Pod {
    service: Service,
    peers: Tally<SpiffeId>,
}

impl Session for Pod {
    const KNOWN: bool = true;

    fn tls(&self) -> Arc<ServerConfig> {
        let mut config = server_config(&self.service.identity, ClientAuth::Required);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }

    async fn serve(self, stream: TlsStream<TcpStream>, _: IpAddr, watcher: Watcher) -> Result<(), String> {
        let Self { service, peers } = self;
        let peer = peer_id(stream.get_ref().1).ok_or("the peer has no SPIFFE ID")?;
        let Some(_counted) = peers.enter(&peer) else {
            tracing::warn!(event = "report.connection.refused", peer.spiffe_id = %peer, limit = MAX_PER_PEER);
            return Ok(());
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
        let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
        let served = watcher.watch(served.into_owned()).await;
        served.map_err(|error| error.to_string())
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
                format!("the body is not a report: {}", why(&error)),
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
