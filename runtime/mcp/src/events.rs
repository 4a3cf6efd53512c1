//! What comes on a server's event streams, before the SDK sees it: cleaned of our secrets, screened, mended, and no more
//! of what nobody asked for than the flow admits. Beyond that a stream ends as broken.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentd_net::{Body, NetError, Redactor};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};
use tokio::time::Instant;

use crate::flow::Flow;
use crate::mend::Asked;
use crate::notices::Notices;
use crate::screen::{Kind, screen};

/// Ids of broken answers that are remembered, so that one which is resumed is not taken for the notification stream.
const RESUMABLE: usize = 64;

pub(crate) type Events = BoxStream<'static, Result<Sse, SseError>>;

/// A server said more than anybody could hear.
#[derive(Debug, thiserror::Error)]
#[error("the server sends more than is asked for")]
pub(crate) struct Flood;

/// Whether a stream ended so.
pub(crate) fn is_flood(error: &SseError) -> bool {
    matches!(error, SseError::Body(error) if error.is::<Flood>())
}

/// What all streams of a connection share.
pub(crate) struct Streams {
    server: String,
    elicitation: bool,
    notices: Arc<Notices>,
    flow: Mutex<Flow>,
    /// Of events on the streams of answers.
    answers: Mutex<VecDeque<String>>,
}

/// What a stream is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Of {
    /// The notification stream.
    Notices,
    /// The answer to a request.
    Answer(Option<Asked>),
}

impl Streams {
    /// `elicitation` lets `elicitation/create` through.
    pub(crate) fn new(server: &str, elicitation: bool, notices: Arc<Notices>) -> Self {
        Self {
            server: server.to_owned(),
            elicitation,
            notices,
            flow: Mutex::default(),
            answers: Mutex::default(),
        }
    }

    /// Whether this is the last event that was seen of an answer.
    pub(crate) fn is_of_answer(&self, event: &str) -> bool {
        lock(&self.answers).iter().any(|id| id == event)
    }

    /// The events of a body, up to the first that cannot be read or is too much; `ended` hears of that one.
    pub(crate) fn events(
        self: &Arc<Self>,
        body: Body,
        max: usize,
        of: Of,
        ended: impl Fn(&SseError) + Send + 'static,
    ) -> Events {
        let redactor = body.redactor();
        self.heard(body.events(max), redactor, of, ended)
    }

    /// The events of what comes in these chunks.
    pub(crate) fn heard(
        self: &Arc<Self>,
        chunks: BoxStream<'static, Result<Bytes, NetError>>,
        redactor: Redactor,
        of: Of,
        ended: impl Fn(&SseError) + Send + 'static,
    ) -> Events {
        let streams = self.clone();
        SseStream::from_bytes_stream(chunks)
            .map(move |event| event.and_then(|event| streams.admit(clean(event, &redactor), of)))
            .inspect_err(move |error| ended(error))
            .scan(false, |over, event| {
                let before = std::mem::replace(over, event.is_err());
                std::future::ready((!before).then_some(event))
            })
            .boxed()
    }

    fn admit(&self, event: Sse, of: Of) -> Result<Sse, SseError> {
        let (mut event, kind) = screen(event, self.elicitation);
        let watched = self.notices.watched();
        if kind == Kind::Unasked && !lock(&self.flow).take(Instant::now(), watched) {
            return Err(SseError::Body(Box::new(Flood)));
        }
        if let Of::Answer(asked) = of {
            if let Some(id) = &event.id {
                let mut answers = lock(&self.answers);
                answers.truncate(RESUMABLE);
                answers.push_front(id.clone());
            }
            if let (Some(asked), Kind::Answer, Some(data)) = (asked, kind, &event.data)
                && let Some(mended) = asked.mended(data, &self.server)
            {
                event.data = Some(mended.to_string());
            }
        }
        Ok(event)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An event whose data repeats none of our secrets.
fn clean(mut event: Sse, redactor: &Redactor) -> Sse {
    let data = event.data.as_deref().and_then(|data| redactor.text(data));
    if data.is_some() {
        event.data = data;
    }
    event
}
