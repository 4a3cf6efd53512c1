//! The listener: its own accept loop. A handshake runs on the connection's own task with a deadline, so a slow one
//! keeps nobody waiting; the number of connections is bounded; a drain stops the accepting and waits for what is in
//! flight.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentd_base::class::{Class, Classified};
use agentd_base::drain::Watch;
use agentd_identity::tls::peer_id;
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::caller::Principals;
use crate::card::Card;
use crate::connection::{self, Protocol};
use crate::http::App;
use crate::limit;
use crate::service::Service;
use crate::throttle::Throttle;

/// After a failed accept (no file descriptor left): long enough for one to be freed, short enough not to be felt.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// In order of preference.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// How bytes travel.
pub enum Transport {
    /// https, with a config from [`crate::tls`].
    Tls(Box<ServerConfig>),
    /// Loopback http.
    Plain,
}

/// Who is asked for.
#[derive(Debug, Clone)]
pub enum Authentication {
    /// Callers are matched against the snapshot of the moment, at each request; an open connection of a peer that is
    /// taken off the list is closed.
    Principals(watch::Receiver<Arc<Principals>>),
    /// Every caller is an operator. Loopback only.
    Dev,
}

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}: {problem}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        problem: std::io::Error,
    },
    /// Plain http, or no authentication, where others can reach it.
    #[error("{address} is not a loopback address: use https and principals, or listen on 127.0.0.1")]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
}

impl Classified for ListenError {
    fn class(&self) -> Class {
        match self {
            Self::Bind { .. } => Class::Unavailable,
            Self::NotLoopback { .. } => Class::Invalid,
        }
    }
}

/// A bound listener that does not serve yet.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    authentication: Authentication,
}

impl Listener {
    /// Binds. Port 0 takes a free one.
    ///
    /// # Errors
    /// When the address cannot be bound, or is not loopback and anybody could call.
    pub async fn bind(
        address: SocketAddr,
        transport: Transport,
        authentication: Authentication,
    ) -> Result<Self, ListenError> {
        let open = matches!(transport, Transport::Plain) || matches!(authentication, Authentication::Dev);
        if open && !address.ip().is_loopback() {
            return Err(ListenError::NotLoopback { address });
        }
        let tls = match transport {
            Transport::Tls(config) => Some(acceptor(*config)),
            Transport::Plain => None,
        };
        let problem = |problem| ListenError::Bind { address, problem };
        let socket = TcpListener::bind(address).await.map_err(problem)?;
        let address = socket.local_addr().map_err(problem)?;
        Ok(Self {
            socket,
            address,
            tls,
            authentication,
        })
    }

    /// The address with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the drain begins. What is in flight then goes on; each connection holds a clone of `drain`.
    pub async fn serve(self, service: Arc<dyn Service>, card: Arc<Card>, mut drain: Watch) {
        let app = Arc::new(App {
            service,
            card,
            authentication: self.authentication,
            denials: Throttle::default(),
        });
        let shared = Arc::new(Shared {
            tls: self.tls,
            app,
            handshakes: Throttle::default(),
        });
        let slots = Arc::new(Semaphore::new(limit::CONNECTIONS));
        let full = Throttle::default();
        tracing::info!(event = "a2a.listen", address = %self.address, tls = shared.tls.is_some());
        loop {
            let accepted = tokio::select! {
                () = drain.signaled() => return,
                accepted = self.socket.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(event = "a2a.conn", error = %error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(slot) = slots.clone().try_acquire_owned() else {
                if let Some(left_out) = full.pass(Instant::now()) {
                    tracing::warn!(
                        event = "a2a.conn",
                        limit = limit::CONNECTIONS,
                        left_out,
                        "too many connections"
                    );
                }
                continue;
            };
            let (shared, drain) = (shared.clone(), drain.clone());
            tokio::spawn(async move {
                shared.take(stream, drain).await;
                drop(slot);
            });
        }
    }
}

/// What every connection's task needs.
struct Shared {
    tls: Option<TlsAcceptor>,
    app: Arc<App>,
    handshakes: Throttle,
}

impl Shared {
    async fn take(&self, stream: TcpStream, mut drain: Watch) {
        // Answers are small: they should not wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        let Some(acceptor) = &self.tls else {
            return connection::serve(self.app.clone(), None, stream, Protocol::Http1, drain).await;
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
        let peer = peer_id(session);
        let protocol = if session.alpn_protocol() == Some(b"h2") {
            Protocol::Http2
        } else {
            Protocol::Http1
        };
        connection::serve(self.app.clone(), peer, stream, protocol, drain).await;
    }

    fn failed(&self, problem: &str) {
        if let Some(left_out) = self.handshakes.pass(Instant::now()) {
            let problem = agentd_base::text::clip(problem, agentd_base::limit::MESSAGE_CHARS);
            tracing::warn!(event = "a2a.tls", error = problem, left_out, "handshake failed");
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
