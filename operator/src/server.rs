//! The plain admin port of both processes: `/healthz`, `/readyz`, `/metrics`. Nothing else, no identity, no writes.

use std::net::SocketAddr;

use agentd_base::drain::Watch;
use agentd_base::readiness::Readiness;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::get;
use prometheus::{Encoder as _, Registry, TextEncoder};
use tokio::net::TcpListener;

/// The port in a pod.
pub const PORT: u16 = 9090;

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
        let router = Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route(
                "/readyz",
                get(move || {
                    let blockers = readiness.blockers();
                    async move {
                        if blockers.is_empty() {
                            (StatusCode::OK, "ok\n".to_owned())
                        } else {
                            (StatusCode::SERVICE_UNAVAILABLE, blockers.join("\n") + "\n")
                        }
                    }
                }),
            )
            .route(
                "/metrics",
                get(move || {
                    let text = text(&registry);
                    async move {
                        match text {
                            Ok(text) => {
                                ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
                            }
                            Err(error) => {
                                (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
                            }
                        }
                    }
                }),
            );
        Ok(Self { listener, router })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the socket has no address.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the drain begins.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(self, mut drain: Watch) -> std::io::Result<()> {
        axum::serve(self.listener, self.router)
            .with_graceful_shutdown(async move { drain.signaled().await })
            .await
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
