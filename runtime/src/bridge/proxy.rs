//! What the bridge lets through: callers on the list, the methods of Streamable HTTP on the server's one path; bodies
//! both ways as streams, headers of the hop left out. It adds nothing, and reads no body but the beginning of a refused
//! one.

use std::sync::Arc;
use std::time::Duration;

use agentd_a2a::server::Handler;
use agentd_base::drain::Watch;
use agentd_identity::SpiffeId;
use agentd_net::{Declared, Destination, HttpClient, NetError, Options, StreamedBody, Timeouts};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody};
use hyper::body::Incoming;
use tokio::sync::{Notify, watch};

use super::BridgeSettings;
use crate::metrics::Metrics;

/// One message of a client: a tool's arguments with a few embedded files fit.
pub(super) const REQUEST_BYTES: usize = 16 * 1024 * 1024;
/// The server is on loopback: it answers at once or it is not there.
const CONNECT: Duration = Duration::from_secs(2);
/// From a request to the head of its answer. The caller has a clock of its own and hangs up; this ends what it forgot.
const ANSWER: Duration = Duration::from_secs(3600);

/// What is read of a refused request. An answer that overtakes the body comes with a reset of the HTTP/2 stream, and some
/// clients then lose the answer; the bodies that clients begin with are smaller than this and come at once.
const REFUSED_BYTES: usize = 64 * 1024;
/// And for how long.
const REFUSED: Duration = Duration::from_secs(1);

/// Headers that belong to one connection (RFC 9110 7.6.1), and those with which a server tells a browser's page from a
/// client: what we dial is loopback, and says so.
pub(super) const DROPPED: [HeaderName; 10] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::HOST,
    header::EXPECT,
];

/// A few bytes of ours, or a stream of the server's.
type Body = UnsyncBoxBody<Bytes, NetError>;

/// What happened to a request, for the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Forwarded,
    NoCertificate,
    NotAllowed,
    NotMcp,
    Upstream,
}

impl Outcome {
    const fn label(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::NoCertificate => "no_certificate",
            Self::NotAllowed => "not_allowed",
            Self::NotMcp => "not_mcp",
            Self::Upstream => "upstream_failed",
        }
    }
}

/// The handler of the bridge's port.
#[derive(Clone)]
pub struct Proxy {
    settings: watch::Receiver<Arc<BridgeSettings>>,
    path: Arc<str>,
    upstream: HttpClient,
    /// Whether the last request reached the server.
    reachable: watch::Sender<bool>,
    metrics: Metrics,
    drain: Watch,
}

impl Proxy {
    /// A proxy to this port and path of loopback. `reachable` follows whether the server can be dialled.
    ///
    /// # Errors
    /// When port and path make no URL.
    pub fn new(
        settings: watch::Receiver<Arc<BridgeSettings>>,
        port: u16,
        path: &str,
        reachable: watch::Sender<bool>,
        metrics: Metrics,
        drain: Watch,
    ) -> Result<Self, String> {
        let url = format!("http://127.0.0.1:{port}{path}");
        let destination =
            Destination::declared(&url, Declared::Upstream).map_err(|error| error.to_string())?;
        let timeouts = Timeouts {
            connect: CONNECT,
            response: Some(ANSWER),
            total: None,
        };
        let options = Options {
            timeouts,
            ..Options::default()
        };
        let upstream = HttpClient::new(destination, options).map_err(|error| error.to_string())?;
        Ok(Self {
            settings,
            path: path.into(),
            upstream,
            reachable,
            metrics,
            drain,
        })
    }

    /// Whether this peer may call now.
    fn judge(
        &self,
        peer: Option<&SpiffeId>,
        method: &Method,
        path: &str,
    ) -> Result<(), (Outcome, StatusCode, &'static str)> {
        let Some(peer) = peer else {
            let text = "show a client certificate with the SPIFFE ID of an agent";
            return Err((Outcome::NoCertificate, StatusCode::UNAUTHORIZED, text));
        };
        if !is_allowed(&self.settings.borrow(), peer) {
            let text = "this SPIFFE ID is not allowed to use this MCP server";
            return Err((Outcome::NotAllowed, StatusCode::FORBIDDEN, text));
        }
        if path != &*self.path {
            return Err((
                Outcome::NotMcp,
                StatusCode::NOT_FOUND,
                "there is only the path of the MCP server",
            ));
        }
        if ![Method::GET, Method::POST, Method::DELETE].contains(method) {
            return Err((
                Outcome::NotMcp,
                StatusCode::METHOD_NOT_ALLOWED,
                "only POST, GET and DELETE",
            ));
        }
        Ok(())
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<Response<Body>, NetError> {
        let (mut parts, body) = request.into_parts();
        // A stream of notifications would go on for ever: it ends with the drain, and its client comes back.
        let listening = parts.method == Method::GET;
        drop_hop_headers(&mut parts.headers);
        parts.headers.remove(header::ORIGIN);
        drop_claimed_origin(&mut parts.headers);
        parts.extensions = http::Extensions::new();
        parts.version = http::Version::HTTP_11;
        let path = parts
            .uri
            .path_and_query()
            .map_or(&*self.path, http::uri::PathAndQuery::as_str);
        parts.uri = path
            .parse()
            .map_err(|_| NetError::Invalid("the path cannot be sent on".into()))?;
        let answer = self
            .upstream
            .send_streamed(Request::from_parts(parts, bounded(body)))
            .await?;
        let mut chunks = answer.body.chunks();
        if listening {
            let mut drain = self.drain.clone();
            let over = async move { drain.signaled().await };
            chunks = chunks.take_until(Box::pin(over)).boxed();
        }
        let mut response = Response::new(StreamBody::new(chunks.map_ok(Frame::data)).boxed_unsync());
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        drop_hop_headers(response.headers_mut());
        Ok(response)
    }
}

impl Handler for Proxy {
    type Body = Body;

    async fn handle(&self, peer: Option<Arc<SpiffeId>>, request: Request<Incoming>) -> Response<Body> {
        let peer = peer.as_deref();
        if let Err((outcome, status, text)) = self.judge(peer, request.method(), request.uri().path()) {
            self.metrics.bridge_request(outcome.label());
            tracing::debug!(
                event = "bridge.denied",
                peer.spiffe_id = peer.map(ToString::to_string),
                reason = outcome.label()
            );
            let _ = tokio::time::timeout(REFUSED, discard(request.into_body())).await;
            return refusal(status, text);
        }
        match self.forward(request).await {
            Ok(response) => {
                self.metrics.bridge_request(Outcome::Forwarded.label());
                self.reachable
                    .send_if_modified(|reachable| !std::mem::replace(reachable, true));
                response
            }
            Err(error) => {
                self.metrics.bridge_request(Outcome::Upstream.label());
                // Callers try again and again while the server is away: that it went is worth a line, each try is not.
                let is_known = error.is_connect()
                    && !self
                        .reachable
                        .send_if_modified(|reachable| std::mem::replace(reachable, false));
                if is_known {
                    tracing::debug!(event = "bridge.upstream.fail", err = %error);
                } else {
                    tracing::warn!(event = "bridge.upstream.fail", err = %error);
                }
                refusal(
                    StatusCode::BAD_GATEWAY,
                    "the MCP server behind the bridge does not answer",
                )
            }
        }
    }

    async fn revoked(&self, peer: Option<Arc<SpiffeId>>) {
        let Some(peer) = peer else {
            return std::future::pending().await;
        };
        let mut settings = self.settings.clone();
        // A peer that was never on the list keeps its connection: each of its requests is answered with 403.
        let listed = settings.wait_for(|now| is_allowed(now, &peer)).await.is_ok();
        if listed && settings.wait_for(|now| !is_allowed(now, &peer)).await.is_ok() {
            tracing::info!(event = "bridge.denied", peer.spiffe_id = %peer, reason = "removed", "connection closed");
            return;
        }
        std::future::pending().await
    }
}

fn is_allowed(settings: &BridgeSettings, peer: &SpiffeId) -> bool {
    settings.document.allowed.contains(&peer.to_string())
}

/// Also drops what `Connection` names.
pub(super) fn drop_hop_headers(headers: &mut HeaderMap<HeaderValue>) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in DROPPED.iter().chain(&named) {
        headers.remove(name);
    }
}

/// Nobody stands in front of the bridge who may say where a request came from, and some servers believe it.
pub(super) fn drop_claimed_origin(headers: &mut HeaderMap<HeaderValue>) {
    let claims =
        |name: &str| name.starts_with("x-forwarded-") || matches!(name, "forwarded" | "x-real-ip" | "via");
    let named: Vec<HeaderName> = headers
        .keys()
        .filter(|name| claims(name.as_str()))
        .cloned()
        .collect();
    for name in named {
        headers.remove(name);
    }
}

pub(super) fn bounded<B>(body: B) -> StreamedBody
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let mut left = REQUEST_BYTES;
    BodyStream::new(body)
        .map(move |frame| {
            let data = frame
                .map_err(std::io::Error::other)?
                .into_data()
                .unwrap_or_default();
            left = left.checked_sub(data.len()).ok_or_else(|| {
                std::io::Error::other(format!("a request has at most {REQUEST_BYTES} bytes"))
            })?;
            Ok(data)
        })
        .boxed()
}

/// Reads a body to its end, or [`REFUSED_BYTES`] of it.
async fn discard(body: Incoming) {
    let mut frames = BodyStream::new(body);
    let mut left = REFUSED_BYTES;
    while let Some(Ok(frame)) = frames.next().await {
        let read = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(read) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

fn refusal(status: StatusCode, text: &str) -> Response<Body> {
    let body = serde_json::json!({ "error": text }).to_string();
    let mut response = Response::new(
        Full::new(Bytes::from(body))
            .map_err(|never| match never {})
            .boxed_unsync(),
    );
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Wakes the prover when the server has gone or come back, as the proxy sees it.
pub async fn relay(mut reachable: watch::Receiver<bool>, again: Arc<Notify>) {
    while reachable.changed().await.is_ok() {
        again.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_does_not_say_where_it_comes_from() {
        let mut headers = HeaderMap::new();
        for name in [
            "forwarded",
            "x-forwarded-for",
            "x-forwarded-user",
            "x-real-ip",
            "via",
            "x-trace",
        ] {
            headers.insert(
                name.parse::<HeaderName>().unwrap(),
                HeaderValue::from_static("127.0.0.1"),
            );
        }
        drop_claimed_origin(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-trace"]);
    }

    #[test]
    fn headers_of_the_hop_stay_behind() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Once"),
            ("x-once", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("host", "fs-mcp.team.svc:8443"),
            ("mcp-session-id", "s"),
            ("authorization", "Bearer t"),
        ] {
            headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        drop_hop_headers(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["authorization", "mcp-session-id"]);
    }
}
