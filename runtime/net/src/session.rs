//! One long-lived connection, for senders that must know when the peer has gone: the pod's report.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::client::Timeouts;
use crate::destination::Destination;
use crate::error::NetError;

/// The sending half of a connection.
pub struct Session {
    _private: (),
}

/// Resolves when the connection has ended, whoever ended it.
pub struct Closed(oneshot::Receiver<()>);

impl Future for Closed {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(|_| ())
    }
}

/// Connects: guard, TCP, TLS with `tls` (from `agentd_identity::tls::client_config`), HTTP/2 or HTTP/1.1.
pub async fn connect(
    destination: &Destination,
    tls: rustls::ClientConfig,
    timeouts: Timeouts,
) -> Result<(Session, Closed), NetError> {
    let _ = (destination, tls, timeouts);
    todo!()
}

impl Session {
    /// Sends a request and reads the whole answer within the clocks and 1 MiB.
    pub async fn send(&mut self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, NetError> {
        let _ = request;
        todo!()
    }
}
