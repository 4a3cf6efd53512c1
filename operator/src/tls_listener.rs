//! The accept loop of the operator's two TLS ports, the issuer's and that of reports. Bounds what a stranger can do
//! before and during the handshake: connections of all and of one address, and the time. Whoever holds most makes room
//! when all places are taken. Handshakes run off the accept path. What is spoken after the handshake is the session's.

use std::future::Future;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use agentd_base::class::Class;
use agentd_base::drain::Watch;
use agentd_base::places::{Place, Places};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::tally::Tally;

/// A handshake of a peer that means it takes milliseconds.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
/// The pause after a failed accept (no file descriptor left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a port bears.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The port's name in logs.
    pub(crate) name: &'static str,
    /// Connections at once; the next one takes the place of the oldest of whoever holds most.
    pub(crate) connections: usize,
    /// Of these, from one [`origin`]; more are closed.
    pub(crate) per_origin: usize,
    /// For what is in flight when the process is asked to stop.
    pub(crate) drain: Duration,
}

/// What one connection is served with.
pub(crate) trait Session: Send + 'static {
    /// Whether the handshake shows who the peer is: such a one keeps its place.
    const KNOWN: bool;

    /// Of the handshake.
    fn tls(&self) -> Arc<ServerConfig>;

    /// Serves a connection to its end, under `watcher`. The error is for the log.
    fn serve(
        self,
        stream: TlsStream<TcpStream>,
        origin: IpAddr,
        watcher: Watcher,
    ) -> impl Future<Output = Result<(), String>> + Send;
}

/// A bound port.
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

    /// Serves until the drain begins, then lets what is in flight end. With no session a connection is closed.
    pub(crate) async fn serve<S: Session>(
        self,
        bounds: Bounds,
        session: impl Fn() -> Option<S>,
        mut drain: Watch,
    ) {
        let graceful = GracefulShutdown::new();
        let places = Places::new(bounds.connections);
        let origins = Tally::new(bounds.per_origin);
        loop {
            let accepted = tokio::select! {
                () = drain.signaled() => break,
                accepted = self.0.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(event = "accept.fail", port = bounds.name, error = %error, error.class = Class::Unavailable.label());
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let origin = origin(peer.ip());
            let Some(counted) = origins.enter(&origin) else {
                tracing::debug!(event = "connection.refused", port = bounds.name, %peer, limit = bounds.per_origin);
                continue;
            };
            let Some(session) = session() else { continue };
            let Some(place) = places.take(origin) else {
                tracing::warn!(event = "connection.refused", port = bounds.name, %peer, limit = bounds.connections);
                continue;
            };
            let watcher = graceful.watcher();
            tokio::spawn(async move {
                let served = tokio::select! {
                    served = connection(stream, session, origin, watcher, &place) => served,
                    () = place.lost() => Err("its place went to another connection".to_owned()),
                };
                if let Err(error) = served {
                    tracing::debug!(event = "connection.fail", port = bounds.name, %peer, error);
                }
                drop((counted, place));
            });
        }
        drop(self.0);
        if timeout(bounds.drain, graceful.shutdown()).await.is_err() {
            tracing::warn!(
                event = "drain.late",
                port = bounds.name,
                error.class = Class::Unavailable.label()
            );
        }
    }
}

async fn connection<S: Session>(
    stream: TcpStream,
    session: S,
    origin: IpAddr,
    watcher: Watcher,
    place: &Place,
) -> Result<(), String> {
    let _ = stream.set_nodelay(true);
    let handshake = timeout(
        HANDSHAKE_DEADLINE,
        TlsAcceptor::from(session.tls()).accept(stream),
    );
    let stream = handshake
        .await
        .map_err(|_| "the handshake took too long".to_owned())?
        .map_err(|error| error.to_string())?;
    if S::KNOWN {
        place.keep();
    }
    session.serve(stream, origin, watcher).await
}

/// Who counts as one: an IPv4 address, or an IPv6 network of 64 bits, of which one machine may have every address.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            const NETWORK: u128 = !0 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods)] // The listener under test is on loopback.

    use tokio::io::AsyncReadExt as _;

    use super::*;

    struct Silent(Arc<ServerConfig>);

    impl Session for Silent {
        const KNOWN: bool = false;

        fn tls(&self) -> Arc<ServerConfig> {
            self.0.clone()
        }

        async fn serve(self, _: TlsStream<TcpStream>, _: IpAddr, _: Watcher) -> Result<(), String> {
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn strangers_that_say_nothing_make_room_for_whoever_comes() {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::server::ResolvesServerCertUsingSni::new()));
        let tls = Arc::new(tls);
        let bounds = Bounds {
            name: "test",
            connections: 2,
            per_origin: 8,
            drain: Duration::ZERO,
        };
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let drain = agentd_base::drain::Drain::new();
        let serving = tokio::spawn(listener.serve(bounds, move || Some(Silent(tls.clone())), drain.watch()));
        let mut first = TcpStream::connect(address).await.unwrap();
        let others = [
            TcpStream::connect(address).await.unwrap(),
            TcpStream::connect(address).await.unwrap(),
        ];
        let ended = timeout(Duration::from_secs(8), first.read(&mut [0; 1])).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
        for other in &others {
            let open = other.try_read(&mut [0; 1]).unwrap_err();
            assert_eq!(open.kind(), std::io::ErrorKind::WouldBlock);
        }
        serving.abort();
    }

    #[test]
    fn a_machine_is_one_origin() {
        let origin = |text: &str| origin(text.parse().unwrap()).to_string();
        assert_eq!(origin("10.1.2.3"), "10.1.2.3");
        assert_eq!(origin("::ffff:10.1.2.3"), "10.1.2.3");
        assert_eq!(origin("fd00:1:2:3:4:5:6:7"), "fd00:1:2:3::");
        assert_eq!(origin("fd00:1:2:3::9"), "fd00:1:2:3::");
        assert_eq!(origin("fd00:1:2:4::9"), "fd00:1:2:4::");
    }
}
