//! The events of one stream of an agent: JSON-RPC answers in a `text/event-stream`, each with one event of a task.

use std::time::Duration;

use a2a::{JsonRpcId, JsonRpcResponse};
use agentd_net::{NetError, Response};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http::header;
use sse_stream::{Error as SseError, SseStream};

use super::{ClientError, accepted, outcome, parse};
use crate::wire::StreamResponse;

pub(super) const MEDIA_TYPE: &str = "text/event-stream";
/// One event: an artifact of a task, or the task with all of them.
const EVENT_BYTES: usize = 4 * 1024 * 1024;
/// A stream that says nothing for so long, not even that it is there, is taken for a broken one: those who keep streams
/// open say so every some seconds.
const SILENCE: Duration = Duration::from_secs(120);

pub(super) type Events = BoxStream<'static, Result<StreamResponse, ClientError>>;

/// The events of this answer to `call`. An answer that is one result is a stream of one.
pub(super) async fn of(response: Response, call: JsonRpcId) -> Result<Events, ClientError> {
    let is_stream = response
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with(MEDIA_TYPE));
    if !response.status.is_success() || !is_stream {
        let answer: JsonRpcResponse = parse(&accepted(response).await?)?;
        let event = outcome(answer, &call)?;
        return Ok(stream::once(std::future::ready(Ok(event))).boxed());
    }
    let body = response.body.unless_silent(SILENCE);
    let redactor = body.redactor();
    let events = SseStream::from_bytes_stream(body.events(EVENT_BYTES)).filter_map(move |event| {
        let read = match event {
            Err(error) => Some(Err(broken(error))),
            Ok(event) => event.data.filter(|data| !data.is_empty()).map(|data| {
                let data = redactor.text(&data).unwrap_or(data);
                let answer: JsonRpcResponse = parse(&Bytes::from(data))?;
                outcome(answer, &call)
            }),
        };
        std::future::ready(read)
    });
    Ok(events.boxed())
}

/// Why a stream ended.
fn broken(error: SseError) -> ClientError {
    let error = match error {
        SseError::Body(error) => match error.downcast::<NetError>() {
            Ok(error) if matches!(*error, NetError::TooLarge { .. }) => error.to_string(),
            Ok(error) => return ClientError::Net(*error),
            Err(other) => other.to_string(),
        },
        other => other.to_string(),
    };
    ClientError::Protocol(format!("its stream cannot be read: {error}"))
}
