//! One long-lived connection, for senders that must know when the peer has gone: the pod's report. It is also where
//! this project opens a TCP connection by itself.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::HOST;
use http::{HeaderValue, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::destination::Destination;
use crate::error::{NetError, Phase};
use crate::fault;
use crate::guard::{Verdict, judge};
use crate::options::Timeouts;
use crate::resolve::{SystemLookup, resolve};

/// An answer on such a connection: a status and a sentence.
const ANSWER_BYTES: usize = 1024 * 1024;
/// HTTP/2 pings, so that a peer that vanished without a word is noticed.
const PING: Duration = Duration::from_secs(20);

/// The sending half of a connection.
pub struct Session {
    sender: Sender,
    destination: Destination,
    timeouts: Timeouts,
}

enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
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
/// `timeouts.connect` bounds DNS with TCP, and once more TLS.
///
/// # Errors
/// See [`NetError`].
pub async fn connect(
    destination: &Destination,
    tls: rustls::ClientConfig,
    timeouts: Timeouts,
) -> Result<(Session, Closed), NetError> {
    let host = destination.authority();
    let limit = timeouts.connect;
    let late = |phase| NetError::Timeout {
        host: host.clone(),
        phase,
        limit,
    };
    let tcp = tokio::time::timeout(limit, dial(destination))
        .await
        .map_err(|_| late(Phase::Connect))??;
    let secured = tokio::time::timeout(limit, secure(destination, tls, tcp));
    let stream = secured.await.map_err(|_| late(Phase::Handshake))??;
    let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let io = TokioIo::new(stream);
    let broken = |error: hyper::Error| fault::of_exchange(&error, &host);
    let (ended, closed) = oneshot::channel();
    let sender = if two {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .keep_alive_while_idle(true);
        let (sender, connection) = builder.handshake(io).await.map_err(broken)?;
        drive(connection, ended);
        Sender::Two(sender)
    } else {
        let (sender, connection) = http1::handshake(io).await.map_err(broken)?;
        drive(connection, ended);
        Sender::One(sender)
    };
    Ok((
        Session {
            sender,
            destination: destination.clone(),
            timeouts,
        },
        Closed(closed),
    ))
}

/// Runs a connection to its end. `ended` is dropped then, which resolves [`Closed`].
fn drive<C>(connection: C, ended: oneshot::Sender<()>)
where
    C: Future<Output = hyper::Result<()>> + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(event = "net.connection.end", err = %error);
        }
        drop(ended);
    });
}

/// Dials the vetted addresses one after the other.
async fn dial(destination: &Destination) -> Result<TcpStream, NetError> {
    let host = destination.authority();
    let mut last = NetError::Connect {
        host: host.clone(),
        detail: "no address".into(),
    };
    for address in resolve(destination, &SystemLookup).await? {
        match open(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = fault::of_connect(&error, &host),
        }
    }
    Err(last)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that opens a socket by itself; the address is vetted"
)]
async fn open(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn secure(
    destination: &Destination,
    mut tls: rustls::ClientConfig,
    tcp: TcpStream,
) -> Result<TlsStream<TcpStream>, NetError> {
    let host = destination.authority();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = match destination.literal() {
        Some(address) => ServerName::IpAddress(address.into()),
        None => ServerName::try_from(destination.host().to_owned())
            .map_err(|_| NetError::Invalid(format!("{host} cannot be named in TLS")))?,
    };
    TlsConnector::from(Arc::new(tls))
        .connect(name, tcp)
        .await
        .map_err(|error| fault::of_connect(&error, &host))
}

impl Session {
    /// Sends a request and reads the whole answer within the clocks and 1 MiB. Its URI is a path and query.
    ///
    /// # Errors
    /// See [`NetError`].
    pub async fn send(&mut self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, NetError> {
        let host = self.destination.authority();
        let limit = self.timeouts.total.or(self.timeouts.response);
        let exchange = self.exchange(request);
        match limit {
            None => exchange.await,
            Some(limit) => tokio::time::timeout(limit, exchange)
                .await
                .map_err(|_| NetError::Timeout {
                    host,
                    phase: Phase::Total,
                    limit,
                })?,
        }
    }

    async fn exchange(&mut self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, NetError> {
        let host = self.destination.authority();
        let broken = |error: hyper::Error| fault::of_exchange(&error, &host);
        let mut request = request.map(Full::new);
        let absolute = self.absolute(request.uri())?;
        let response = match &mut self.sender {
            Sender::Two(sender) => {
                *request.uri_mut() = absolute;
                sender.ready().await.map_err(broken)?;
                sender.send_request(request).await
            }
            Sender::One(sender) => {
                let value = HeaderValue::from_str(self.destination.url().authority())
                    .map_err(|_| NetError::Invalid("the host cannot be sent".into()))?;
                request.headers_mut().insert(HOST, value);
                sender.ready().await.map_err(broken)?;
                sender.send_request(request).await
            }
        };
        let (parts, body) = response.map_err(broken)?.into_parts();
        let body = collect(body, &host).await?;
        Ok(http::Response::from_parts(parts, body))
    }

    fn absolute(&self, uri: &Uri) -> Result<Uri, NetError> {
        let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        Uri::builder()
            .scheme("https")
            .authority(self.destination.url().authority())
            .path_and_query(path)
            .build()
            .map_err(|error| NetError::Invalid(error.to_string()))
    }
}

async fn collect(mut body: Incoming, host: &str) -> Result<Bytes, NetError> {
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| fault::of_exchange(&error, host))?;
        let Ok(chunk) = frame.into_data() else { continue };
        if collected.len().saturating_add(chunk.len()) > ANSWER_BYTES {
            return Err(NetError::TooLarge {
                host: host.to_owned(),
                what: "body",
                limit: ANSWER_BYTES,
            });
        }
        collected.extend_from_slice(&chunk);
    }
    Ok(collected.freeze())
}

/// Whether something listens on a port of this very pod, by a connection that is closed at once. The bridge asks it
/// about the pod's own address.
pub async fn listens(address: SocketAddr, limit: Duration) -> bool {
    matches!(judge(address.ip()), Verdict::Reach(_))
        && matches!(tokio::time::timeout(limit, open(address)).await, Ok(Ok(_)))
}
