//! Response bodies, read within bounds.

use bytes::Bytes;
use futures::stream::BoxStream;

use crate::error::NetError;

/// The body of a response. Dropping it gives the connection up.
pub struct Body {
    _stream: BoxStream<'static, Result<Bytes, NetError>>,
}

impl Body {
    /// The whole body, refused when it is longer than [`crate::Limits::body_bytes`].
    pub async fn bytes(self) -> Result<Bytes, NetError> {
        todo!()
    }

    /// At most the first `max` bytes; the rest is not read.
    pub async fn prefix(self, max: usize) -> Bytes {
        let _ = max;
        todo!()
    }

    /// The chunks as they come, without a bound on their sum: for streams that never end.
    pub fn chunks(self) -> BoxStream<'static, Result<Bytes, NetError>> {
        todo!()
    }

    /// The chunks of a `text/event-stream`; ends with an error at an event longer than `max` bytes.
    pub fn events(self, max: usize) -> BoxStream<'static, Result<Bytes, NetError>> {
        let _ = max;
        todo!()
    }
}
