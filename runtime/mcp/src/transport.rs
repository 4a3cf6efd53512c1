//! The SDK's HTTP transport over our own client. It maps statuses and media types to what the SDK acts on, bounds what is
//! read, ends the probe for the stateless revision in time, and lets through only what this client offers to handle:
//! a server's requests other than `ping` (and `elicitation/create`, where it is declared) are dropped unanswered.

mod seam;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentd_net::{Backoff, Body, HttpClient, Pace, Response};
use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderName, Request, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    HttpStatusError, StreamableHttpError, StreamableHttpPostResponse,
};

use tokio::sync::watch;

use crate::events::{Events, Of, Streams, is_flood};
use crate::fault::{HttpError, TransportError};
use crate::health::Health;
use crate::mend::{Asked, message as message_of};
use crate::notices::Notices;
use crate::screen::too_many;
use crate::status::{
    EVENTS, JSON, PostResult, failure, header, media_type, net, of_probe, older, unauthorized, unexpected,
};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Stands for a session where the server gives none: the SDK opens the notification stream of a session alone. It is never
/// sent, and no header of a server can read so.
const NO_SESSION: &str = "\u{2205}";
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// One message from a server, alone or as an event: a tool result with an image fits.
pub(crate) const MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// How often the first notification stream is asked for, and how fast: a server that just started has it soon.
const FIRST_TRIES: u32 = 4;
const FIRST_STREAM: Pace = Pace {
    first: Duration::from_millis(200),
    max: Duration::from_secs(5),
};

/// See the module. Clones are one transport; when the last is gone, the server counts as lost.
#[derive(Clone)]
pub(crate) struct Transport(Arc<Inner>);

struct Inner {
    server: String,
    http: HttpClient,
    probe: Duration,
    /// Requests that wait for a token.
    waiting: watch::Receiver<usize>,
    streams: Arc<Streams>,
    /// A session was begun.
    ready: AtomicBool,
    health: Arc<Health>,
    notices: Arc<Notices>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.health.lose();
    }
}

impl Transport {
    /// To the server of this name. `probe` bounds `server/discover`, but for the time in which requests are `waiting` for a token; `elicitation` lets `elicitation/create` through.
    pub(crate) fn new(
        server: &str,
        http: HttpClient,
        probe: Duration,
        waiting: watch::Receiver<usize>,
        elicitation: bool,
        health: Arc<Health>,
        notices: Arc<Notices>,
    ) -> Self {
        Self(Arc::new(Inner {
            server: server.to_owned(),
            http,
            probe,
            waiting,
            streams: Arc::new(Streams::new(server, elicitation, notices.clone())),
            ready: AtomicBool::new(false),
            health,
            notices,
        }))
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response, HttpError> {
        match self.0.http.send(request).await {
            Ok(response) => Ok(response),
            Err(error) => {
                if error.is_connect() {
                    self.0.health.lose();
                }
                Err(StreamableHttpError::Client(error.into()))
            }
        }
    }

    async fn post(
        &self,
        message: &ClientJsonRpcMessage,
        request: Request<Bytes>,
        limits: Limits,
    ) -> PostResult {
        let session = request.headers().contains_key(SESSION);
        let response = self.send(request).await?;
        let status = response.status;
        unauthorized(status, &response.headers)?;
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            return failure(message, session, response, limits.body).await;
        }
        let expects_answer = matches!(message, ClientJsonRpcMessage::Request(_));
        let invented = || is_initialize(message).then(|| NO_SESSION.to_owned());
        let id = header(&response.headers, &SESSION).or_else(invented);
        let asked = Asked::by(message);
        match media_type(&response.headers).as_deref() {
            Some(EVENTS) if expects_answer => Ok(StreamableHttpPostResponse::Sse(
                self.events(response.body, limits.event, Of::Answer(asked)),
                id,
            )),
            Some(JSON) if expects_answer => {
                let body = response.body.bytes_within(limits.body).await.map_err(net)?;
                if too_many(&body) {
                    return Err(StreamableHttpError::Client(TransportError::Values));
                }
                match message_of(&body, asked, &self.0.server) {
                    Ok(ServerJsonRpcMessage::Request(_)) => {
                        Err(unexpected("a request in place of an answer"))
                    }
                    Ok(message) => Ok(StreamableHttpPostResponse::Json(message, id)),
                    Err(error) => Err(unexpected(&agentd_base::json::why(&error))),
                }
            }
            // Whatever comes with a 2xx to a notification or an answer of ours: nothing in it is for us.
            _ if !expects_answer => Ok(StreamableHttpPostResponse::Accepted),
            other => Err(StreamableHttpError::UnexpectedContentType(
                other.map(str::to_owned),
            )),
        }
    }

    /// `server/discover`, which a server of an older revision may answer in any way or not at all. The SDK falls back
    /// to `initialize` on a JSON-RPC error alone and takes up nothing else before the answer, so every sign of an
    /// older server becomes such an error here.
    async fn probe(
        &self,
        message: &ClientJsonRpcMessage,
        request: Request<Bytes>,
        limits: Limits,
    ) -> PostResult {
        let exchange = async {
            match self.post(message, request, limits).await? {
                StreamableHttpPostResponse::Sse(mut events, _) => {
                    while let Some(event) = events.next().await {
                        let data = event?.data.unwrap_or_default();
                        if let Ok(
                            answer @ (ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)),
                        ) = serde_json::from_str(&data)
                        {
                            return Ok(StreamableHttpPostResponse::Json(answer, None));
                        }
                    }
                    Ok(older(message, "the stream ended without an answer"))
                }
                StreamableHttpPostResponse::Accepted => Ok(older(message, "accepted without an answer")),
                other => Ok(other),
            }
        };
        match self.in_time(exchange).await {
            Some(outcome) => outcome.map(|answer| of_probe(message, answer)),
            None => Ok(older(message, "no answer in time")),
        }
    }

    /// Within the time of a probe. Being asked for a token says nothing of the era: while one is got, the clock stands
    /// still, and begins anew for the probe that goes out with it.
    async fn in_time<T>(&self, exchange: impl Future<Output = T>) -> Option<T> {
        let mut exchange = std::pin::pin!(exchange);
        let mut waiting = self.0.waiting.clone();
        loop {
            let waits = *waiting.borrow_and_update() > 0;
            tokio::select! {
                biased;
                outcome = &mut exchange => return Some(outcome),
                () = tokio::time::sleep(self.0.probe), if !waits => return None,
                Ok(()) = waiting.changed() => {}
            }
        }
    }

    fn events(&self, body: Body, max: usize, of: Of) -> Events {
        let health = self.0.health.clone();
        self.0.streams.events(body, max, of, move |error| {
            if is_flood(error) {
                health.flooded(matches!(of, Of::Notices));
            }
        })
    }

    /// Opens the notification stream; the SDK calls this again when it ended, and when an answer's stream ended before
    /// the answer.
    async fn stream(&self, request: Request<Bytes>, max: usize) -> Result<Events, HttpError> {
        let health = &self.0.health;
        let resumed = request.headers().get(LAST_EVENT).and_then(|id| id.to_str().ok());
        if resumed.is_some_and(|id| self.0.streams.is_of_answer(id)) {
            if health.is_flooded() {
                return Err(StreamableHttpError::ServerDoesNotSupportSse);
            }
            tokio::time::sleep_until(health.resume_at()).await;
            return self.open_stream(request, max, Of::Answer(None)).await;
        }
        let again = health.had_stream();
        let session = request.headers().contains_key(SESSION);
        tokio::time::sleep(health.before_stream()).await;
        let opened = match again {
            true => self.open_stream(request, max, Of::Notices).await,
            false => self.first_stream(request, max).await,
        };
        match &opened {
            Ok(_) => {
                health.stream_opened();
                // Without a session nothing says whether the server still knows what was subscribed to.
                if again && !session {
                    self.0.notices.session_began();
                }
                self.0.notices.push_opened(again);
            }
            Err(StreamableHttpError::ServerDoesNotSupportSse) => self.0.notices.no_push(),
            // The SDK asks no second time.
            Err(
                StreamableHttpError::SessionExpired
                | StreamableHttpError::AuthRequired(_)
                | StreamableHttpError::InsufficientScope(_),
            ) if again => health.lose(),
            Err(_) if again => health.stream_failed(),
            Err(_) => self.0.notices.no_push(),
        }
        self.0.notices.push_answered();
        opened
    }

    /// The first stream of a connection. The SDK asks for it once, so a server that cannot give it at the moment is asked
    /// again here.
    async fn first_stream(&self, request: Request<Bytes>, max: usize) -> Result<Events, HttpError> {
        let mut backoff = Backoff::new(FIRST_STREAM);
        for _ in 1..FIRST_TRIES {
            match self.open_stream(request.clone(), max, Of::Notices).await {
                Err(error) if may_pass(&error) => {
                    self.0.notices.push_answered();
                    tokio::time::sleep(backoff.wait()).await;
                }
                opened => return opened,
            }
        }
        self.open_stream(request, max, Of::Notices).await
    }

    async fn open_stream(&self, request: Request<Bytes>, max: usize, of: Of) -> Result<Events, HttpError> {
        let again = self.0.health.had_stream();
        let response = self.send(request).await?;
        let status = response.status;
        unauthorized(status, &response.headers)?;
        match (status, media_type(&response.headers)) {
            (StatusCode::NOT_FOUND, _) if again => Err(StreamableHttpError::SessionExpired),
            (StatusCode::METHOD_NOT_ALLOWED, _) => Err(StreamableHttpError::ServerDoesNotSupportSse),
            // A server that has no such stream, and says so in another way than 405.
            _ if status.is_client_error() && !again => Err(StreamableHttpError::ServerDoesNotSupportSse),
            _ if !status.is_success() => Err(HttpStatusError::new(status.as_u16(), None).into()),
            (_, Some(kind)) if kind == EVENTS => Ok(self.events(response.body, max, of)),
            (_, kind) => Err(StreamableHttpError::UnexpectedContentType(kind)),
        }
    }

    /// What the SDK did by itself is told to those who must know.
    fn notice(&self, sent: &ClientJsonRpcMessage) {
        let ready = matches!(sent, ClientJsonRpcMessage::Notification(sent)
            if matches!(sent.notification, ClientNotification::InitializedNotification(_)));
        if ready && self.0.ready.swap(true, Ordering::SeqCst) {
            self.0.notices.session_began();
        }
    }
}

/// Whether a stream that could not be opened may be another time.
fn may_pass(error: &HttpError) -> bool {
    match error {
        StreamableHttpError::HttpStatus(status) => status.status >= 500 || status.status == 429,
        StreamableHttpError::Client(TransportError::Net(_)) => true,
        _ => false,
    }
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    event: usize,
    body: usize,
}

fn is_initialize(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::InitializeRequest(_)))
}
