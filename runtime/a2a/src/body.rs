//! The bytes of requests and answers, within the budgets: what a body takes is held until it was read and understood,
//! what an answer takes until the caller has it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::access::Refusal;
use crate::budget::{Budget, Reserved};
use crate::limit;

/// Reads a body whole, as soon as there is memory for it.
pub(crate) async fn read<B>(budget: &Budget, caller: &str, body: B) -> Result<(Bytes, Reserved), Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let too_large = Refusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "BODY_TOO_LARGE",
        "a request may have 1 MiB; send larger content by reference",
    );
    let hint = body.size_hint();
    if hint.lower() > limit::BODY_BYTES as u64 {
        return Err(too_large);
    }
    // One that does not say its size may have the largest.
    let declared = hint.exact().and_then(|bytes| usize::try_from(bytes).ok());
    let end = Instant::now() + limit::BODY;
    let room = budget.reserve(caller, declared.unwrap_or(limit::BODY_BYTES));
    let Ok(Ok(mut reserved)) = timeout_at(end, room).await else {
        return Err(Refusal {
            header: Some((http::header::RETRY_AFTER, "5")),
            ..Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "TOO_MANY_REQUESTS",
                "so many requests of this caller are being read that this one has no place; send it again later",
            )
        });
    };
    match timeout_at(end, Limited::new(body, limit::BODY_BYTES).collect()).await {
        Ok(Ok(collected)) => {
            let bytes = collected.to_bytes();
            reserved.shrink(bytes.len());
            Ok((bytes, reserved))
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large),
        Ok(Err(_)) => Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "BODY_INCOMPLETE",
            "the body ended before its end",
        )),
        Err(_) => Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "BODY_TOO_SLOW",
            "the body did not arrive within 30 seconds",
        )),
    }
}

/// The body of an answer.
pub(crate) enum Answer {
    Whole(Full<Bytes>),
    /// One event after the other. Dropping it tells whoever makes them.
    Stream(mpsc::Receiver<Bytes>),
}

impl Answer {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self::Whole(Full::new(bytes))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Stream(events) => {
                let event = ready!(events.poll_recv(context));
                Poll::Ready(event.map(|event| Ok(Frame::data(event))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// Bytes that hold their part of the budget until the last of them was sent.
pub(crate) fn held(bytes: Vec<u8>, mut reserved: Reserved) -> Bytes {
    struct Held {
        bytes: Vec<u8>,
        _reserved: Reserved,
    }
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    reserved.shrink(bytes.len());
    Bytes::from_owner(Held {
        bytes,
        _reserved: reserved,
    })
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::budget::Share;

    #[tokio::test]
    async fn an_answer_holds_what_it_takes_until_its_last_byte_is_gone() {
        let budget = Budget::new(Share {
            all: 4096,
            each: 4096,
            waiting: 1,
        });
        let bytes = held(vec![0; 3000], budget.reserve("alice", 4096).await.unwrap());
        // It was less than it might have been.
        assert!(budget.reserve("alice", 1024).now_or_never().is_some());
        assert!(budget.reserve("alice", 2048).now_or_never().is_none());
        let unsent = bytes.slice(2999..);
        drop(bytes);
        assert!(budget.reserve("alice", 2048).now_or_never().is_none());
        drop(unsent);
        assert!(budget.reserve("alice", 4096).now_or_never().is_some());
    }
}
