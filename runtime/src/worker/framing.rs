//! JSON frames with a four-byte length before each, over a socketpair that is the worker's standard input. Guarantees: a
//! frame that is longer than the bound or is not of the expected type ends the connection, never the reader's process; a
//! frame that its reader would refuse is refused by its writer.

use bytes::{Bytes, BytesMut};
use futures::{FutureExt as _, SinkExt, StreamExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::OwnedReadHalf;
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};
use zeroize::Zeroizing;

/// A transcript that grew to the largest window of today's models has some 4 MiB of text; JSON escapes may double it.
pub const FRAME_BYTES: usize = 16 * 1024 * 1024;

/// Levels of objects and lists in a frame: the parser refuses one more. Frames hold structure that models and servers made.
const FRAME_DEPTH: usize = 127;

/// Why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The peer is gone, or its frame is too long.
    #[error("the connection between supervisor and worker broke: {0}")]
    Connection(#[from] std::io::Error),
    /// It was not sent.
    #[error(
        "the conversation has grown too long ({0} bytes, and at most {FRAME_BYTES} go to a worker); begin a new one"
    )]
    TooLong(usize),
    /// It was not sent.
    #[error("it holds a value that is nested more than {FRAME_DEPTH} levels deep")]
    TooDeep,
    /// Not one of our frames.
    #[error("a frame between supervisor and worker cannot be understood: {}", agentd_base::json::why(.0))]
    Content(#[from] serde_json::Error),
}

/// How deep a JSON text is nested.
fn depth(json: &[u8]) -> usize {
    let (mut open, mut deepest) = (0_usize, 0);
    let (mut in_text, mut escaped) = (false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                open += 1;
                deepest = deepest.max(open);
            }
            b'}' | b']' if !in_text => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder()
        .max_frame_length(FRAME_BYTES)
        .new_codec()
}

/// Reads frames of one direction.
#[derive(Debug)]
pub struct FrameReader<R>(FramedRead<R, LengthDelimitedCodec>);

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// From a byte stream.
    pub fn new(reader: R) -> Self {
        Self(FramedRead::new(reader, codec()))
    }

    /// The next frame; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// See [`FrameError`]; the stream is of no use afterwards.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        match self.0.next().await {
            None => Ok(None),
            Some(frame) => Ok(Some(serde_json::from_slice(&frame?)?)),
        }
    }

    /// The next frame, which is waited for when it has begun to come; `None` when there is nothing to read.
    ///
    /// # Errors
    /// As [`FrameReader::next`].
    pub async fn ready<T: DeserializeOwned>(&mut self) -> Option<Result<Option<T>, FrameError>> {
        match self.next().now_or_never() {
            None if self.0.read_buffer().is_empty() => {
                // The longest so far is not kept for the next.
                *self.0.read_buffer_mut() = BytesMut::new();
                None
            }
            None => Some(self.next().await),
            ready => ready,
        }
    }
}

impl FrameReader<OwnedReadHalf> {
    /// Until something of the next frame has come, or the end.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn readable(&self) -> std::io::Result<()> {
        self.0.get_ref().readable().await
    }
}

/// Writes frames of one direction.
#[derive(Debug)]
pub struct FrameWriter<W>(FramedWrite<W, LengthDelimitedCodec>);

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    /// Onto a byte stream.
    pub fn new(writer: W) -> Self {
        Self(FramedWrite::new(writer, codec()))
    }

    /// Writes one frame. Not cancel safe: a writer whose `send` was dropped must not be used again.
    ///
    /// # Errors
    /// See [`FrameError`]. A frame that is too long or too deep is refused before a byte of it is written.
    pub async fn send<T: Serialize>(&mut self, frame: &T) -> Result<(), FrameError> {
        self.put(frame).await?;
        self.flush().await
    }

    /// Takes one frame, which is written together with the next, or by [`FrameWriter::flush`].
    ///
    /// # Errors
    /// As [`FrameWriter::send`].
    pub async fn put<T: Serialize>(&mut self, frame: &T) -> Result<(), FrameError> {
        let bytes = Zeroizing::new(serde_json::to_vec(frame)?);
        if bytes.len() > FRAME_BYTES {
            return Err(FrameError::TooLong(bytes.len()));
        }
        if depth(&bytes) > FRAME_DEPTH {
            return Err(FrameError::TooDeep);
        }
        Ok(self.0.feed(Bytes::copy_from_slice(&bytes)).await?)
    }

    /// Writes what was taken.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn flush(&mut self) -> Result<(), FrameError> {
        Ok(SinkExt::<Bytes>::flush(&mut self.0).await?)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::worker::frame::{FromWorker, ToWorker, TurnResult};

    fn result(text: &str) -> FromWorker {
        FromWorker::Done(Box::new(TurnResult {
            run_id: "r".into(),
            status: agentd_agent::Status::Completed,
            text: text.into(),
            reason: None,
            plain: None,
            transcript: serde_json::json!([{ "role": "user" }]),
            steps: 1,
            tokens: 2,
            tool_calls: 0,
        }))
    }

    #[tokio::test]
    async fn frames_cross_in_order_and_the_end_is_the_end() {
        let (here, there) = tokio::io::duplex(64);
        let write = tokio::spawn(async move {
            let mut writer = FrameWriter::new(here);
            for text in ["ä", &"x".repeat(10_000)] {
                writer.send(&result(text)).await.unwrap();
            }
        });
        let mut reader = FrameReader::new(there);
        for length in [2, 10_000] {
            let frame: FromWorker = reader.next().await.unwrap().unwrap();
            let FromWorker::Done(done) = frame else {
                panic!("{frame:?}")
            };
            assert_eq!(done.text.len(), length);
        }
        assert!(reader.next::<FromWorker>().await.unwrap().is_none());
        write.await.unwrap();
    }

    #[tokio::test]
    async fn what_is_no_frame_is_an_error_and_reserves_no_memory() {
        for bytes in [
            &b"\xff\xff\xff\xff"[..],
            b"\0\0\0\x02{}",
            b"\0\0\0\x04nope",
            b"\0\0\0\x09{",
        ] {
            let (mut here, there) = tokio::io::duplex(64);
            here.write_all(bytes).await.unwrap();
            drop(here);
            assert!(
                FrameReader::new(there).next::<ToWorker>().await.is_err(),
                "{bytes:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_frame_over_the_bound_is_refused_by_its_writer() {
        let (here, _there) = tokio::io::duplex(64);
        let error = FrameWriter::new(here)
            .send(&result(&"x".repeat(FRAME_BYTES)))
            .await
            .unwrap_err();
        assert!(matches!(error, FrameError::TooLong(_)), "{error}");
        assert!(error.to_string().contains("begin a new one"), "{error}");
    }

    /// Whatever a model or a server nests: what the writer takes, the reader reads.
    #[tokio::test]
    async fn a_frame_that_cannot_be_read_is_refused_by_its_writer() {
        for levels in [1, 100, 120, 124, 125, 126, 127, 128, 500] {
            let (here, there) = tokio::io::duplex(64 * 1024);
            let nested = (0..levels).fold(serde_json::json!("]}\\\"{["), |inner, _| {
                serde_json::json!([inner])
            });
            let FromWorker::Done(mut done) = result("x") else {
                panic!()
            };
            done.transcript = nested.clone();
            let sent = FrameWriter::new(here).send(&FromWorker::Done(done)).await;
            if levels > FRAME_DEPTH - 2 {
                assert!(matches!(sent, Err(FrameError::TooDeep)), "{levels}");
                continue;
            }
            sent.unwrap();
            match FrameReader::new(there).next().await.unwrap() {
                Some(FromWorker::Done(done)) => assert_eq!(done.transcript, nested, "{levels}"),
                other => panic!("{other:?}"),
            }
        }
    }

    /// A worker looks whether there is something to do before it goes to wait for it.
    #[tokio::test]
    async fn a_frame_that_has_begun_is_waited_for_and_none_is_not() {
        let frame = serde_json::to_vec(&result("x")).unwrap();
        let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
        let (mut here, there) = tokio::io::duplex(1024);
        let mut reader = FrameReader::new(there);
        assert!(reader.ready::<FromWorker>().await.is_none());
        here.write_all(&[&length[..], &frame[..1]].concat())
            .await
            .unwrap();
        let rest = tokio::spawn(async move {
            here.write_all(&[&frame[1..], &length[..], &frame[..]].concat())
                .await
                .unwrap();
            here
        });
        for _ in 0..2 {
            let read = reader.ready::<FromWorker>().await;
            assert!(matches!(read, Some(Ok(Some(FromWorker::Done(_))))), "{read:?}");
        }
        assert!(reader.ready::<FromWorker>().await.is_none());
        drop(rest.await.unwrap());
        assert!(matches!(reader.ready::<FromWorker>().await, Some(Ok(None))));
    }

    /// Reads all frames of these bytes, in whatever pieces they come.
    fn frames<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> usize {
        let mut reader = FrameReader::new(bytes);
        let mut count = 0;
        loop {
            match futures::FutureExt::now_or_never(reader.next::<T>()) {
                Some(Ok(Some(_))) => count += 1,
                Some(Err(error)) => {
                    agentd_noise::words(&error.to_string());
                    break count;
                }
                Some(Ok(None)) | None => break count,
            }
        }
    }

    fn right() -> Vec<u8> {
        serde_json::to_vec(&result("right")).unwrap()
    }

    fn with_length(frame: Vec<u8>) -> Vec<u8> {
        let length = u32::try_from(frame.len()).unwrap();
        [length.to_be_bytes().to_vec(), frame].concat()
    }

    proptest::proptest! {
        /// Either process may be made to say anything by what it was given to read.
        #[test]
        fn any_bytes_are_frames_or_an_error(
            frame in agentd_noise::json(vec![serde_json::from_slice(&right()).unwrap()]),
            bytes in agentd_noise::changed(vec![with_length(right())]),
        ) {
            for bytes in [&bytes, &with_length(frame)] {
                frames::<FromWorker>(bytes);
                frames::<ToWorker>(bytes);
            }
            // What follows a frame does not change it.
            let followed = [with_length(right()), bytes].concat();
            proptest::prop_assert!(frames::<FromWorker>(&followed) >= 1);
        }
    }
}
