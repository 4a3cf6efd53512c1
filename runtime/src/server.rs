//! A small HTTP server for the ports that are not A2A's: the bridge's and the admin port. One accept loop; a handshake
//! runs on its connection's own task with a deadline; connections, heads and idle time are bounded; a drain stops the
//! accepting and lets what is in flight end. It does not know what is served.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::drain::Watch;
use agentd_identity::SpiffeId;
use agentd_identity::tls::peer_id;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// A body of ours: a few bytes, or a stream from a server.
pub type Body = UnsyncBoxBody<Bytes, agentd_net::NetError>;

/// From accept to the end of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// From the connection, or the answer before, to the end of the next head on HTTP/1.
const HEAD: Duration = Duration::from_secs(60);
/// The head of a request: tokens and trace state fit with room.
const HEAD_BYTES: u32 = 32 * 1024;
/// Pings find an HTTP/2 peer that is gone without saying so.
const PING: Duration = Duration::from_secs(30);
/// A connection is ended in good order after this, so that what was verified in its handshake is verified again.
const AGE: Duration = Duration::from_secs(3600);
/// What a connection that was told to end may still take: a tool call at its longest.
const LINGER: Duration = Duration::from_secs(600);
/// After a failed accept (no file descriptor left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers requests. Cheap to clone.
pub trait Handler: Clone + Send + Sync + 'static {
    /// One request of a peer; `None` without a certificate, or without TLS.
    fn handle(
        &self,
        peer: Option<Arc<SpiffeId>>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Body>> + Send;

    /// Resolves when an open connection of this peer must end at once.
    fn revoked(&self, peer: Option<Arc<SpiffeId>>) -> impl Future<Output = ()> + Send;
}

/// What a server may cost.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at once; more are closed at once.
    pub connections: usize,
    /// Requests at once on one HTTP/2 connection.
    pub streams: u32,
}

/// A bound port that does not serve yet.
pub struct Server {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    bounds: Bounds,
}

impl Server {
    /// Binds. Port 0 takes a free one. Without `tls` it is plain http.
    ///
    /// # Errors
    /// When the address is taken or not ours.
    pub async fn bind(address: SocketAddr, tls: Option<rustls::ServerConfig>, bounds: Bounds) -> std::io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        let tls = tls.map(|mut config| {
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            TlsAcceptor::from(Arc::new(config))
        });
        Ok(Self { socket, address, tls, bounds })
    }

    /// The address with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the drain begins. Each connection holds a clone of `drain` until it has ended.
    pub async fn serve(self, handler: impl Handler, mut drain: Watch) {
        let slots = Arc::new(Semaphore::new(self.bounds.connections));
        loop {
            let accepted = tokio::select! {
                () = drain.signaled() => return,
                accepted = self.socket.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(event = "listen.accept.fail", address = %self.address, err = %error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(slot) = slots.clone().try_acquire_owned() else { continue };
            let connection = Connection { handler: handler.clone(), streams: self.bounds.streams };
            let (tls, drain) = (self.tls.clone(), drain.clone());
            tokio::spawn(async move {
                take(stream, tls, connection, drain).await;
                drop(slot);
            });
        }
    }
}

async fn take(stream: TcpStream, tls: Option<TlsAcceptor>, connection: Connection<impl Handler>, drain: Watch) {
    // Answers should not wait for an acknowledgement.
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = tls else { return connection.serve(None, stream, drain).await };
    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let peer = peer_id(stream.get_ref().1).map(Arc::new);
            connection.serve(peer, stream, drain).await;
        }
        Ok(Err(error)) => tracing::debug!(event = "listen.tls.fail", err = %error),
        Err(_) => tracing::debug!(event = "listen.tls.fail", err = "the handshake took too long"),
    }
}

struct Connection<H> {
    handler: H,
    streams: u32,
}

impl<H: Handler> Connection<H> {
    async fn serve<I>(self, peer: Option<Arc<SpiffeId>>, io: I, mut drain: Watch)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .max_buf_size(HEAD_BYTES as usize)
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.streams)
            .max_header_list_size(HEAD_BYTES)
            .keep_alive_interval(PING);
        let service = {
            let (handler, peer) = (self.handler.clone(), peer.clone());
            service_fn(move |request| {
                let (handler, peer) = (handler.clone(), peer.clone());
                async move { Ok::<_, Infallible>(handler.handle(peer, request).await) }
            })
        };
        let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
        let mut revoked = pin!(self.handler.revoked(peer));
        let mut clock = pin!(tokio::time::sleep(AGE));
        let mut ending = false;
        loop {
            tokio::select! {
                _ = connection.as_mut() => return,
                () = revoked.as_mut() => return,
                () = drain.signaled(), if !ending => {}
                () = clock.as_mut() => if ending { return },
            }
            ending = true;
            connection.as_mut().graceful_shutdown();
            clock.as_mut().reset(tokio::time::Instant::now() + LINGER);
        }
    }
}
