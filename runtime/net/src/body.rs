//! Response bodies, read within bounds.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tokio::time::Instant;

use crate::error::{NetError, Phase};
use crate::redact::Redactor;

/// The body of a response. Dropping it gives the connection up.
pub struct Body {
    stream: BoxStream<'static, Result<Bytes, NetError>>,
    host: String,
    limit: usize,
    redactor: Redactor,
}

/// When an exchange must be over, and how long that was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    pub(crate) limit: Duration,
}

impl Body {
    pub(crate) fn new(
        stream: BoxStream<'static, Result<Bytes, NetError>>,
        host: String,
        limit: usize,
        deadline: Option<Deadline>,
        redactor: Redactor,
    ) -> Self {
        let stream = match deadline {
            None => stream,
            Some(deadline) => until(stream, host.clone(), deadline),
        };
        Self {
            stream,
            host,
            limit,
            redactor,
        }
    }

    /// The whole body, refused when it is longer than [`crate::Limits::body_bytes`].
    ///
    /// # Errors
    /// When it is too long, breaks off, or takes too long.
    pub async fn bytes(self) -> Result<Bytes, NetError> {
        let limit = self.limit;
        self.bytes_within(limit).await
    }

    /// As [`Body::bytes`], with another limit.
    ///
    /// # Errors
    /// As [`Body::bytes`].
    pub async fn bytes_within(mut self, limit: usize) -> Result<Bytes, NetError> {
        let mut collected = BytesMut::new();
        while let Some(chunk) = self.stream.next().await {
            let chunk = chunk?;
            if collected.len().saturating_add(chunk.len()) > limit {
                return Err(NetError::TooLarge {
                    host: self.host,
                    what: "body",
                    limit,
                });
            }
            collected.extend_from_slice(&chunk);
        }
        Ok(self.redactor.body(collected.freeze()))
    }

    /// At most the first `max` bytes, for a message; the rest is not read, and an error ends it early.
    pub async fn prefix(mut self, max: usize) -> Bytes {
        let mut collected = BytesMut::new();
        while collected.len() < max
            && let Some(Ok(chunk)) = self.stream.next().await
        {
            collected.extend_from_slice(&chunk);
        }
        collected.truncate(max);
        self.redactor.body(collected.freeze())
    }

    /// The same body; ends with an error when nothing of it comes for so long.
    #[must_use]
    pub fn unless_silent(self, limit: Duration) -> Self {
        let Self { stream, host, .. } = self;
        let stream = silent(stream, host.clone(), limit);
        Self { stream, host, ..self }
    }

    /// Cleans texts that are put together from [`Body::events`], in which a secret may be cut in two.
    pub fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    /// The chunks as they come, without a bound on their sum: for streams that never end.
    pub fn chunks(self) -> BoxStream<'static, Result<Bytes, NetError>> {
        self.stream
    }

    /// The chunks of a `text/event-stream`; ends with an error at an event longer than `max` bytes.
    pub fn events(self, max: usize) -> BoxStream<'static, Result<Bytes, NetError>> {
        let Self { stream, host, .. } = self;
        let measure = EventMeasure::default();
        stream::unfold(Some((stream, measure, host)), move |state| async move {
            let (mut stream, mut measure, host) = state?;
            let chunk = stream.next().await?;
            match chunk {
                Ok(chunk) if measure.take(&chunk) > max => Some((
                    Err(NetError::TooLarge {
                        host,
                        what: "one event",
                        limit: max,
                    }),
                    None,
                )),
                Ok(chunk) => Some((Ok(chunk), Some((stream, measure, host)))),
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed()
    }
}

/// Ends a stream with an error when the deadline passes.
fn until(
    stream: BoxStream<'static, Result<Bytes, NetError>>,
    host: String,
    deadline: Deadline,
) -> BoxStream<'static, Result<Bytes, NetError>> {
    stream::unfold(Some((stream, host)), move |state| async move {
        let (mut stream, host) = state?;
        match tokio::time::timeout_at(deadline.at, stream.next()).await {
            Ok(chunk) => chunk.map(|chunk| (chunk, Some((stream, host)))),
            Err(_) => Some((
                Err(NetError::Timeout {
                    host,
                    phase: Phase::Total,
                    limit: deadline.limit,
                }),
                None,
            )),
        }
    })
    .boxed()
}

/// Ends a stream with an error when nothing comes for so long.
fn silent(
    stream: BoxStream<'static, Result<Bytes, NetError>>,
    host: String,
    limit: Duration,
) -> BoxStream<'static, Result<Bytes, NetError>> {
    stream::unfold(Some((stream, host)), move |state| async move {
        let (mut stream, host) = state?;
        match tokio::time::timeout(limit, stream.next()).await {
            Ok(chunk) => chunk.map(|chunk| (chunk, Some((stream, host)))),
            Err(_) => {
                let phase = Phase::Silence;
                Some((Err(NetError::Timeout { host, phase, limit }), None))
            }
        }
    })
    .boxed()
}

/// Counts the bytes of the event that is being received. An event ends with an empty line; line ends are LF, CR or
/// CRLF (the SSE specification).
#[derive(Debug, Default)]
struct EventMeasure {
    bytes: usize,
    line: usize,
    after_cr: bool,
}

impl EventMeasure {
    /// Takes a chunk; the longest size that an event reached in it.
    fn take(&mut self, chunk: &[u8]) -> usize {
        let mut longest = 0;
        for byte in chunk {
            let ends_crlf = *byte == b'\n' && self.after_cr;
            self.after_cr = *byte == b'\r';
            if ends_crlf {
                continue;
            }
            self.bytes = self.bytes.saturating_add(1);
            longest = longest.max(self.bytes);
            if matches!(byte, b'\n' | b'\r') {
                if self.line == 0 {
                    self.bytes = 0;
                }
                self.line = 0;
            } else {
                self.line = self.line.saturating_add(1);
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(chunks: &[&[u8]], limit: usize) -> Body {
        let chunks: Vec<_> = chunks
            .iter()
            .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
            .collect();
        Body::new(
            stream::iter(chunks).boxed(),
            "h:1".into(),
            limit,
            None,
            Redactor::default(),
        )
    }

    #[tokio::test]
    async fn a_body_is_taken_whole_or_refused() {
        assert_eq!(
            body(&[b"abc", b"def"], 6).bytes().await.unwrap().as_ref(),
            b"abcdef"
        );
        let error = body(&[b"abc", b"def"], 5).bytes().await.unwrap_err();
        assert_eq!(error.to_string(), "h:1 sent more than 5 bytes of body");
        assert_eq!(body(&[b"abc", b"def"], 1).prefix(4).await.as_ref(), b"abcd");
    }

    #[tokio::test]
    async fn only_an_event_has_a_bound_not_their_sum() {
        for end in ["\n\n", "\r\n\r\n", "\r\r"] {
            let event = format!("data: 12345678{end}");
            let chunks: Vec<&[u8]> = std::iter::repeat_n(event.as_bytes(), 100).collect();
            assert_eq!(
                body(&chunks, 1).events(17).collect::<Vec<_>>().await.len(),
                100,
                "{end:?}"
            );
        }
        let outcome: Vec<_> = body(&[b"data: 1\n\ndata: ", b"123456", b"7890", b"more"], 1)
            .events(15)
            .collect()
            .await;
        assert_eq!(outcome.len(), 3);
        assert!(matches!(
            outcome.last(),
            Some(Err(NetError::TooLarge {
                what: "one event",
                limit: 15,
                ..
            }))
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_take_its_time_but_not_be_silent() {
        let pieces = stream::unfold(0_u64, |nth| async move {
            tokio::time::sleep(Duration::from_secs(nth)).await;
            Some((Ok(Bytes::from_static(b"x")), nth + 1))
        });
        let began = Instant::now();
        let body = Body::new(pieces.boxed(), "h:1".into(), 1, None, Redactor::default());
        let mut chunks = body.unless_silent(Duration::from_secs(9)).chunks();
        let mut count = 0;
        let error = loop {
            match chunks.next().await.unwrap() {
                Ok(_) => count += 1,
                Err(error) => break error,
            }
        };
        // 45 seconds of pieces, and nine of silence.
        assert_eq!((count, began.elapsed().as_secs()), (10, 54));
        assert_eq!(
            error.to_string(),
            "h:1: waiting for more of the answer took longer than 9s"
        );
        assert!(chunks.next().await.is_none());
        let silent = Body::new(
            stream::pending().boxed(),
            "h:1".into(),
            1,
            None,
            Redactor::default(),
        );
        let error = silent
            .unless_silent(Duration::from_secs(9))
            .bytes()
            .await
            .unwrap_err();
        assert!(
            matches!(
                error,
                NetError::Timeout {
                    phase: Phase::Silence,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_whole_exchange_has_a_clock() {
        let limit = Duration::from_secs(3);
        let deadline = Deadline {
            at: Instant::now() + limit,
            limit,
        };
        let body = Body::new(
            stream::pending().boxed(),
            "h:1".into(),
            1,
            Some(deadline),
            Redactor::default(),
        );
        assert_eq!(
            body.bytes().await.unwrap_err().to_string(),
            "h:1: the whole exchange took longer than 3s"
        );
    }
}
