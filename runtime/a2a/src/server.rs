//! The accept loop of every port we serve: A2A, the bridge, the admin port. A handshake runs on its connection's own
//! task with a deadline, so a slow one keeps nobody waiting; the number of connections is bounded; a drain stops the
//! accepting and waits for what is in flight. It does not know what is served.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use agentd_base::drain::Watch;
use agentd_base::places::{Place, Places};
use agentd_identity::SpiffeId;
use agentd_identity::tls::peer_id;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::connection::{Connection, Protocol};
use crate::limit;
use crate::throttle::Throttle;

/// After a failed accept (no file descriptor left): long enough for one to be freed, short enough not to be felt.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// In order of preference.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Answers requests. Cheap to clone.
pub trait Handler: Clone + Send + Sync + 'static {
    /// The body of an answer: some bytes, or a stream. A request is in flight until it has ended.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Unpin
        + Send
        + 'static;

    /// One request of a peer; `None` without a certificate, or without TLS.
    fn handle(
        &self,
        peer: Option<Arc<SpiffeId>>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Resolves when an open connection of this peer must end at once, whatever is in flight; else never.
    fn revoked(&self, peer: Option<Arc<SpiffeId>>) -> impl Future<Output = ()> + Send;
}

/// What a server may cost.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at once. For one more, the oldest without an identity ends of the address that holds most; when there is
    /// none, the new one is closed at once.
    pub connections: usize,
    /// Connections of one peer that shows a certificate; more are closed at once.
    pub of_one: usize,
    /// Requests at once on one HTTP/2 connection.
    pub streams: u32,
    /// What is in flight on a connection that has reached its age ([`limit::AGE`]) may take this long.
    pub linger: Duration,
}

/// What the lines of a port are called in the log.
#[derive(Debug, Clone, Copy)]
pub struct Events {
    /// It serves.
    pub serving: &'static str,
    /// A connection was not accepted.
    pub connection: &'static str,
    /// A handshake failed.
    pub handshake: &'static str,
}

impl Events {
    /// The port for callers.
    pub const A2A: Self = Self {
        serving: "a2a.listen",
        connection: "a2a.conn",
        handshake: "a2a.tls",
    };
    /// The port of a bridge.
    pub const BRIDGE: Self = Self {
        serving: "bridge.listen",
        connection: "bridge.conn",
        handshake: "bridge.tls",
    };
    /// Probes and metrics.
    pub const METRICS: Self = Self {
        serving: "metrics.serving",
        connection: "metrics.conn",
        handshake: "metrics.tls",
    };
}

/// A bound port that does not serve yet.
pub struct Server {
    events: Events,
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    bounds: Bounds,
}

impl Server {
    /// Binds; port 0 takes a free one. Without `tls` it is plain http.
    ///
    /// # Errors
    /// When the address is taken or not ours.
    pub async fn bind(
        events: Events,
        address: SocketAddr,
        tls: Option<ServerConfig>,
        bounds: Bounds,
    ) -> std::io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        Ok(Self {
            events,
            socket,
            address,
            tls: tls.map(acceptor),
            bounds,
        })
    }

    /// The address with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the drain begins. What is in flight then goes on; each connection holds a clone of `drain`.
    pub async fn serve(self, handler: impl Handler, mut drain: Watch) {
        let places = Places::new(self.bounds.connections);
        let shared = Arc::new(Shared {
            events: self.events,
            tls: self.tls,
            bounds: self.bounds,
            handler,
            handshakes: Throttle::default(),
            peers: Mutex::default(),
            crowded: Throttle::default(),
        });
        let full = Throttle::default();
        tracing::info!(event = self.events.serving, address = %self.address, tls = shared.tls.is_some());
        loop {
            let accepted = tokio::select! {
                () = drain.signaled() => return,
                accepted = self.socket.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(event = self.events.connection, err = %error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(place) = places.take(peer.ip()) else {
                if let Some(left_out) = full.pass(Instant::now()) {
                    let limit = self.bounds.connections;
                    tracing::warn!(
                        event = self.events.connection,
                        limit,
                        left_out,
                        "too many connections"
                    );
                }
                continue;
            };
            let (shared, drain) = (shared.clone(), drain.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = shared.take(stream, &place, drain) => {}
                    () = place.lost() => {}
                }
            });
        }
    }
}

/// What every connection's task needs.
struct Shared<H> {
    events: Events,
    tls: Option<TlsAcceptor>,
    bounds: Bounds,
    handler: H,
    handshakes: Throttle,
    /// Connections of each peer with a certificate.
    peers: Mutex<HashMap<Arc<SpiffeId>, usize>>,
    crowded: Throttle,
}

/// One of the connections that a peer may have. Dropping it gives it back.
struct Share<'a> {
    peers: &'a Mutex<HashMap<Arc<SpiffeId>, usize>>,
    peer: Arc<SpiffeId>,
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = peers.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                peers.remove(&self.peer);
            }
        }
    }
}

impl<H: Handler> Shared<H> {
    async fn take(&self, stream: TcpStream, place: &Place, mut drain: Watch) {
        // Answers are small: they should not wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        let connection = |peer, stranger| Connection {
            handler: self.handler.clone(),
            bounds: self.bounds,
            peer,
            stranger,
        };
        let Some(acceptor) = &self.tls else {
            return connection(None, false)
                .serve(stream, Protocol::Http1, drain)
                .await;
        };
        let handshake = tokio::select! {
            () = drain.signaled() => return,
            handshake = tokio::time::timeout(limit::HANDSHAKE, acceptor.accept(stream)) => handshake,
        };
        let stream = match handshake {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return self.failed(&error.to_string()),
            Err(_) => return self.failed("the handshake took too long"),
        };
        let (_, session) = stream.get_ref();
        let peer = peer_id(session).map(Arc::new);
        let protocol = if session.alpn_protocol() == Some(b"h2") {
            Protocol::Http2
        } else {
            Protocol::Http1
        };
        let Some(peer) = peer else {
            return connection(None, true).serve(stream, protocol, drain).await;
        };
        place.keep();
        let Some(_share) = self.share(&peer) else {
            return self.refused(&peer);
        };
        connection(Some(peer), false).serve(stream, protocol, drain).await;
    }

    fn share(&self, peer: &Arc<SpiffeId>) -> Option<Share<'_>> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = peers.entry(peer.clone()).or_default();
        if *count >= self.bounds.of_one {
            return None;
        }
        *count += 1;
        Some(Share {
            peers: &self.peers,
            peer: peer.clone(),
        })
    }

    fn refused(&self, peer: &SpiffeId) {
        if let Some(left_out) = self.crowded.pass(Instant::now()) {
            tracing::warn!(
                event = self.events.connection,
                peer.spiffe_id = %peer,
                limit = self.bounds.of_one,
                left_out,
                "too many connections of one peer"
            );
        }
    }

    fn failed(&self, problem: &str) {
        if let Some(left_out) = self.handshakes.pass(Instant::now()) {
            let problem = agentd_base::text::clip(problem, agentd_base::limit::MESSAGE_CHARS);
            tracing::warn!(
                event = self.events.handshake,
                err = problem,
                left_out,
                "handshake failed"
            );
        }
    }
}

/// A resumed session would skip the verification of the client's certificate: there is none.
fn acceptor(mut config: ServerConfig) -> TlsAcceptor {
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    TlsAcceptor::from(Arc::new(config))
}
