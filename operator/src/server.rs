//! The plain admin port of both processes: `/healthz`, `/readyz`, `/metrics`. Nothing else, no identity, no writes.
//! It is open to anybody, so a stranger gets little time and little room.

use std::net::SocketAddr;
use std::time::Duration;

use agentd_base::drain::Watch;
use agentd_base::places::Places;
use agentd_base::readiness::Readiness;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use prometheus::{Encoder as _, Registry, TextEncoder};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

/// The port in a pod.
pub const PORT: u16 = 9090;
/// Connections at once: kubelet and Prometheus need two. Whoever holds most makes room for one more, since a stranger that
/// held all of them would have the kubelet kill the process.
const MAX_CONNECTIONS: usize = 64;
/// The head of a request, and how long a connection may be idle: longer than the scrape interval of many.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);
/// How long a connection lives.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(120);
/// A head: probes and scrapers send less than 1 KiB.
const HEAD_BYTES: usize = 16 * 1024;
/// The pause after a failed accept (no file descriptor left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound admin port.
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
    router: Router,
}

impl Admin {
    /// Binds it. Port 0 takes a free one.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(
        address: SocketAddr,
        readiness: Readiness,
        registry: Registry,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let ready = move || {
            let blockers = readiness.blockers();
            async move {
                if blockers.is_empty() {
                    (StatusCode::OK, "ok\n".to_owned())
                } else {
                    (StatusCode::SERVICE_UNAVAILABLE, blockers.join("\n") + "\n")
                }
            }
        };
        let metrics = move || {
            let text = text(&registry);
            async move {
                match text {
                    Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
                    Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
                }
            }
        };
        let router = Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics));
        Ok(Self { listener, router })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the socket has no address.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the drain begins. What is being answered then is short, and goes with the process.
    pub async fn serve(self, mut drain: Watch) {
        let places = Places::new(MAX_CONNECTIONS);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = drain.signaled() => return,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(event = "admin.accept.fail", error = %error);
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // Nobody is known here, so there is a place.
            let Some(place) = places.take(peer.ip()) else {
                continue;
            };
            let service = TowerToHyperService::new(self.router.clone());
            tokio::spawn(async move {
                let served = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_DEADLINE)
                    .max_buf_size(HEAD_BYTES)
                    .serve_connection(TokioIo::new(stream), service);
                tokio::select! {
                    _ = timeout(CONNECTION_DEADLINE, served) => {}
                    () = place.lost() => {}
                }
            });
        }
    }
}

/// The text format of Prometheus.
///
/// # Errors
/// When the encoder fails.
pub fn text(registry: &Registry) -> Result<String, prometheus::Error> {
    let mut buffer = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer).into_owned())
}
