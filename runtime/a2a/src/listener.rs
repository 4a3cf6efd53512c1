//! The A2A listener: an agent behind a [`Server`], and who is asked for what.

use std::net::SocketAddr;
use std::sync::Arc;

use agentd_base::class::{Class, Classified};
use agentd_base::drain::Watch;
use agentd_identity::SpiffeId;
use agentd_net::tls::WebRoots;
use http::{Request, Response};
use hyper::body::Incoming;
use rustls::ServerConfig;
use tokio::sync::watch;

use crate::body::Answer;
use crate::budget::Budget;
use crate::caller::Principals;
use crate::card::Card;
use crate::http::{App, handle};
use crate::limit;
use crate::oidc::Issuers;
use crate::quota::Quotas;
use crate::server::{Bounds, Events, Handler, Server};
use crate::service::Service;
use crate::throttle::Throttle;

const BOUNDS: Bounds = Bounds {
    connections: limit::CONNECTIONS,
    of_one: limit::CONNECTIONS_OF_ONE,
    streams: limit::STREAMS,
    linger: limit::LINGER,
};

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
    server: Server,
    authentication: Authentication,
    issuers: Issuers,
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
            Transport::Tls(config) => Some(*config),
            Transport::Plain => None,
        };
        let server = Server::bind(Events::A2A, address, tls, BOUNDS).await;
        let server = server.map_err(|problem| ListenError::Bind { address, problem })?;
        Ok(Self {
            server,
            authentication,
            issuers: Issuers::new(WebRoots::default()),
        })
    }

    /// Reaches the issuers of callers' tokens with these roots.
    #[must_use]
    pub fn trusting(mut self, roots: WebRoots) -> Self {
        self.issuers = Issuers::new(roots);
        self
    }

    /// The address with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Serves until the drain begins. What is in flight then goes on; each connection holds a clone of `drain`.
    pub async fn serve(self, service: Arc<dyn Service>, card: Arc<Card>, drain: Watch) {
        let authentication = self.authentication;
        let app = App {
            service,
            card,
            authentication,
            denials: Throttle::default(),
            failures: Throttle::default(),
            quotas: Quotas::default(),
            unreadable: Throttle::default(),
            issuers: self.issuers,
            reading: Budget::new(limit::READING),
            answering: Budget::new(limit::ANSWERING),
        };
        self.server.serve(Agent(Arc::new(app)), drain).await;
    }
}

/// The agent as the server sees it.
#[derive(Clone)]
struct Agent(Arc<App>);

impl Handler for Agent {
    type Body = Answer;

    async fn handle(&self, peer: Option<Arc<SpiffeId>>, request: Request<Incoming>) -> Response<Answer> {
        handle(&self.0, peer.as_deref(), request).await
    }

    /// When the peer was listed and no longer is.
    async fn revoked(&self, peer: Option<Arc<SpiffeId>>) {
        if let (Authentication::Principals(current), Some(peer)) = (&self.0.authentication, peer) {
            let mut current = current.clone();
            let listed = |current: &Arc<Principals>| current.caller(&peer).is_some();
            if current.wait_for(listed).await.is_ok() && current.wait_for(|now| !listed(now)).await.is_ok() {
                tracing::info!(event = "a2a.denied", peer.spiffe_id = %peer, reason = "PRINCIPAL_REMOVED");
                return;
            }
        }
        std::future::pending().await
    }
}
