//! Scripted peers on loopback.

use std::net::SocketAddr;

use axum::Router;
use tokio::net::TcpListener;

/// Serves it until the test ends, at a port of its own.
pub async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}
