//! One endpoint over `agentd-net`: one try at a time, in its dialect. What it learns of the endpoint (what it does not
//! take, how it counts) it keeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::text::clip;
use agentd_net::{Body, HttpClient, NetError, Phase, Redactor, Response};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::Value;

use crate::anthropic;
use crate::body::Shelf;
use crate::codec;
use crate::dialect::{Dialect, StructuredOutput};
use crate::error::ModelError;
use crate::message::{ModelReply, ModelRequest};
use crate::model::{CallContext, Endpoint, Sink};
use crate::tokens::Calibration;
use crate::wire::{self, Ask, Fault, Heard, Quirks, REPLY_BYTES};

/// An error's body is read this far for its message.
const ERROR_BYTES: usize = 16 * 1024;
/// How often one try asks again because the endpoint turned out not to take something.
const LESSONS: usize = 4;
/// An answer that comes as a whole gives no sign of life before its end: it is waited for so long, or as long as silence
/// is allowed if that is longer.
const WHOLE: Duration = Duration::from_secs(600);
/// The header with the version of the API.
const VERSION: &str = "anthropic-version";

/// What an endpoint is.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// For logs and metrics.
    pub name: String,
    /// The model, as the endpoint knows it.
    pub model: String,
    /// Its wire. Default: Chat Completions.
    pub dialect: Dialect,
    /// How answers of a given shape are asked for.
    pub structured_output: StructuredOutput,
    /// How long it may say nothing, before its answer and between two pieces of it. None: the caller's deadline alone.
    pub silence: Option<Duration>,
    /// The header `anthropic-version` is declared for it.
    pub declares_version: bool,
}

/// A client of one endpoint.
pub struct ModelClient {
    setup: Setup,
    client: HttpClient,
    quirks: Mutex<Quirks>,
    /// It answered as a whole where it was asked for a stream.
    is_whole: AtomicBool,
    calibration: Calibration,
    shelf: Shelf,
}

/// What came of a request.
enum Came {
    Reply(ModelReply),
    /// The endpoint does not take something: once more without it.
    Lesson(Quirks),
}

impl ModelClient {
    /// Over a client whose destination is the base URL, such as `https://gw.example/v1`. It has no clock but that of
    /// connecting: an answer may take its time as long as it comes.
    pub fn new(setup: Setup, client: HttpClient) -> Self {
        Self {
            setup,
            client,
            quirks: Mutex::default(),
            is_whole: AtomicBool::new(false),
            calibration: Calibration::default(),
            shelf: Shelf::default(),
        }
    }

    fn quirks(&self) -> Quirks {
        *self.quirks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn once(
        &self,
        request: &ModelRequest,
        context: &CallContext,
        quirks: Quirks,
    ) -> Result<Came, ModelError> {
        let model = request.model.as_deref().unwrap_or(&self.setup.model);
        let origin = format!("{}/{model}", self.setup.name);
        let Setup {
            dialect,
            structured_output,
            ..
        } = self.setup;
        let way = codec::way(dialect, structured_output, quirks, request);
        let stream = context.sink.is_some() && !quirks.no_stream;
        let ask = Ask {
            dialect,
            model,
            origin: &origin,
            request,
            stream,
            names: self.shelf.names(request, dialect),
            way,
            quirks,
            shelf: &self.shelf,
        };
        let body = Bytes::from(codec::body(&ask));
        let response = self
            .sent(self.request(&ask, body.clone(), context)?, stream)
            .await?;
        let redactor = response.body.redactor();
        if !response.status.is_success() {
            let said = response.body.prefix(ERROR_BYTES).await;
            let said: Value = serde_json::from_slice(&said).unwrap_or(Value::Null);
            let said = wire::said(&said).unwrap_or_else(|| "no message".to_owned());
            let is_ours = matches!(
                response.status,
                StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY
            );
            return match codec::learn(&ask, &said) {
                Some(quirks) if is_ours && !wire::is_too_long(response.status.as_u16(), &said) => {
                    Ok(Came::Lesson(quirks))
                }
                _ => Err(self.refusal(response.status, retry_after(&response.headers), &said)),
            };
        }
        let mut told = Told::new(context.sink.as_deref());
        let streams = is_stream(dialect, &response.headers);
        if stream {
            self.is_whole.store(!streams, Ordering::Relaxed);
        }
        let heard = if streams {
            self.stream(response.body, &mut told).await?
        } else {
            let whole = response.body.bytes_within(REPLY_BYTES).await;
            let whole = whole.map_err(|error| self.net(error))?;
            codec::whole(dialect, &whole).map_err(|fault| self.fault(fault, &redactor))?
        };
        let reply = codec::reply(&ask, heard, &body, &self.calibration);
        told.settle(&reply.text());
        Ok(Came::Reply(reply))
    }

    /// Sends a request; its answer has begun, and is not silent for too long from then on.
    async fn sent(&self, request: http::Request<Bytes>, stream: bool) -> Result<Response, ModelError> {
        let sending = self.client.send(request);
        let Some(silence) = self.setup.silence else {
            return sending.await.map_err(|error| self.net(error));
        };
        let limit = match stream && !self.is_whole.load(Ordering::Relaxed) {
            true => silence,
            false => silence.max(WHOLE),
        };
        let response = tokio::time::timeout(limit, sending)
            .await
            .map_err(|_| self.silent(limit))?
            .map_err(|error| self.net(error))?;
        let body = response.body.unless_silent(silence);
        Ok(Response { body, ..response })
    }

    /// Reads a stream up to its last event; what a server sends after it is not waited for.
    async fn stream(&self, body: Body, told: &mut Told<'_>) -> Result<Heard, ModelError> {
        let redactor = body.redactor();
        let mut reader = codec::reader(self.setup.dialect);
        let mut chunks = body.chunks();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| self.net(error))?;
            let is_done = reader.push(&chunk, &mut |text| told.tell(text));
            if is_done.map_err(|fault| self.fault(fault, &redactor))? {
                break;
            }
        }
        reader.end().map_err(|fault| self.fault(fault, &redactor))
    }

    fn request(
        &self,
        ask: &Ask<'_>,
        body: Bytes,
        context: &CallContext,
    ) -> Result<http::Request<Bytes>, ModelError> {
        let base = self.client.destination().url();
        let mut path = format!("{}{}", base.path().trim_end_matches('/'), codec::path(ask));
        if let Some(query) = base.query() {
            path = format!("{path}?{query}");
        }
        let accept = if ask.stream {
            codec::media_type(ask.dialect)
        } else {
            "application/json"
        };
        let mut request = http::Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, accept);
        if ask.dialect == Dialect::Anthropic && !self.setup.declares_version {
            request = request.header(VERSION, anthropic::VERSION);
        }
        let parent = context
            .traceparent
            .as_deref()
            .and_then(|text| HeaderValue::from_str(text).ok());
        if let Some(parent) = parent {
            request = request.header("traceparent", parent);
        }
        request
            .body(body)
            .map_err(|error| self.net(NetError::Invalid(error.to_string())))
    }

    fn net(&self, source: NetError) -> ModelError {
        let endpoint = self.setup.name.clone();
        match source {
            NetError::Credential(reason) => ModelError::Denied { endpoint, reason },
            NetError::Timeout {
                phase: Phase::Silence,
                limit,
                ..
            } => self.silent(limit),
            source => ModelError::Net { endpoint, source },
        }
    }

    fn silent(&self, limit: Duration) -> ModelError {
        ModelError::Silent {
            endpoint: self.setup.name.clone(),
            limit,
        }
    }

    fn fault(&self, fault: Fault, redactor: &Redactor) -> ModelError {
        let clean = |message: String| redactor.text(&message).unwrap_or(message);
        match fault {
            Fault::Malformed(what) => self.malformed(what, String::new()),
            Fault::Unreadable(what, words) => {
                self.malformed(what.to_owned(), clip(&clean(words), FOREIGN_CHARS))
            }
            Fault::Status(status, message) => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                self.refusal(status, None, &clean(message))
            }
        }
    }

    fn malformed(&self, what: String, words: String) -> ModelError {
        ModelError::Malformed {
            endpoint: self.setup.name.clone(),
            what,
            words,
        }
    }

    fn refusal(&self, status: StatusCode, retry_after: Option<Duration>, said: &str) -> ModelError {
        let endpoint = self.setup.name.clone();
        let message = clip(said, FOREIGN_CHARS);
        if wire::is_too_long(status.as_u16(), said) {
            return ModelError::TooLong { endpoint, message };
        }
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ModelError::Denied {
                endpoint,
                reason: format!("status {}", status.as_u16()),
            },
            // 424 is a model on Bedrock that failed.
            StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_EARLY
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::FAILED_DEPENDENCY => ModelError::Busy {
                endpoint,
                status,
                retry_after,
                message,
            },
            status if status.is_client_error() => ModelError::Rejected {
                endpoint,
                status,
                message,
            },
            status => ModelError::Busy {
                endpoint,
                status,
                retry_after,
                message,
            },
        }
    }
}

#[async_trait]
impl Endpoint for ModelClient {
    fn name(&self) -> &str {
        &self.setup.name
    }

    async fn attempt(&self, request: &ModelRequest, context: &CallContext) -> Result<ModelReply, ModelError> {
        let known = self.quirks();
        let mut quirks = known;
        for _ in 0..LESSONS {
            match self.once(request, context, quirks).await? {
                Came::Reply(reply) => {
                    // What did not help says nothing about the endpoint: the request itself may be at fault.
                    if quirks != known {
                        tracing::info!(
                            event = "intel.lesson",
                            run_id = context.run_id,
                            endpoint = self.setup.name,
                            ?quirks
                        );
                        *self.quirks.lock().unwrap_or_else(PoisonError::into_inner) = quirks;
                    }
                    return Ok(reply);
                }
                Came::Lesson(learnt) => quirks = learnt,
            }
        }
        Err(self.malformed(
            "it refuses the request in ever new ways".to_owned(),
            String::new(),
        ))
    }
}

/// What a sink was told, so that in the end it was told the text of the reply.
struct Told<'a> {
    sink: Option<&'a dyn Sink>,
    text: String,
}

impl<'a> Told<'a> {
    fn new(sink: Option<&'a dyn Sink>) -> Self {
        let text = String::new();
        Self { sink, text }
    }

    fn tell(&mut self, text: &str) {
        if let Some(sink) = self.sink {
            self.text.push_str(text);
            sink.text(text);
        }
    }

    /// The reply is there: what was told goes on to it, or begins again.
    fn settle(&mut self, text: &str) {
        let Some(sink) = self.sink else { return };
        match text.strip_prefix(self.text.as_str()) {
            Some("") => {}
            Some(rest) => sink.text(rest),
            None => {
                sink.restart();
                if !text.is_empty() {
                    sink.text(text);
                }
            }
        }
    }
}

/// Some servers stream unasked, and some do not when asked.
fn is_stream(dialect: Dialect, headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with(codec::media_type(dialect)))
}

/// `Retry-After` (RFC 9110, 10.2.3) in seconds or as a date, measured by the server's own clock; else the
/// milliseconds that some providers say.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let wanted = text("retry-after")?;
    if let Ok(seconds) = wanted.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = |text: &str| jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp());
    let wait = date(wanted)?.duration_since(date(text("date")?)?);
    Some(Duration::try_from(wait).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_when_to_come_back() {
        type Lines = &'static [(&'static str, &'static str)];
        let cases: [(Lines, Option<u64>); 8] = [
            (&[("retry-after", "7")], Some(7000)),
            (&[("retry-after", " 0 ")], Some(0)),
            (&[("retry-after-ms", "250"), ("retry-after", "1")], Some(250)),
            (
                &[
                    ("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"),
                    ("date", "Wed, 21 Oct 2015 07:27:30 GMT"),
                ],
                Some(30_000),
            ),
            (
                &[
                    ("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"),
                    ("date", "Wed, 21 Oct 2015 07:28:30 GMT"),
                ],
                Some(0),
            ),
            (&[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")], None),
            (&[("retry-after", "soon")], None),
            (&[], None),
        ];
        for (lines, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.insert(*name, value.parse().unwrap());
            }
            assert_eq!(
                retry_after(&headers),
                expected.map(Duration::from_millis),
                "{lines:?}"
            );
        }
    }
}
