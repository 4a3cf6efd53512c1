//! Compressed bodies as servers send them: gzip, deflate, br, zstd. Guarantees: what is decoded comes in small pieces, so
//! that the bound on a body holds for what it unpacks to; a piece is given on as soon as the server flushed it, so that
//! an event does not wait for the next one; a window costs no more memory than RFC 9659 lets a browser spend.

use std::future::ready;
use std::io;
use std::pin::Pin;

use async_compression::tokio::bufread::{
    BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder,
};
use async_compression::zstd::DParameter;
use bytes::Bytes;
use futures::stream::{self, BoxStream, Peekable, StreamExt as _, TryStreamExt as _};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue};
use tokio::io::AsyncRead;
use tokio_util::io::{ReaderStream, StreamReader};

use crate::error::NetError;

/// What a server is told that we take.
pub(crate) const ACCEPTED: HeaderValue = HeaderValue::from_static("gzip, deflate, br, zstd");
/// A piece of what is decoded.
const PIECE: usize = 16 * 1024;
/// 8 MiB, the most that a client has to have for zstd over HTTP (RFC 9659).
const ZSTD_WINDOW_LOG: u32 = 23;
/// How a brotli stream begins whose window may have up to 1 GiB. No browser takes one; others have at most 16 MiB.
const LARGE_WINDOW: u8 = 0x11;

/// Chunks of a body.
pub(crate) type Chunks = BoxStream<'static, Result<Bytes, NetError>>;

/// How a body is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The coding of a response; its headers are then those of the decoded body.
///
/// # Errors
/// With the coding's name when it is none that we said we take, or several.
pub(crate) fn take_coding(headers: &mut HeaderMap) -> Result<Coding, String> {
    let named: Vec<String> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .flat_map(|value| value.to_str().unwrap_or("?").split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| !name.is_empty() && name != "identity")
        .collect();
    let coding = match named.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => return Ok(Coding::Identity),
        ["gzip" | "x-gzip"] => Coding::Gzip,
        ["deflate"] => Coding::Deflate,
        ["br"] => Coding::Brotli,
        ["zstd"] => Coding::Zstd,
        _ => return Err(agentd_base::text::clip(&named.join(", "), 64)),
    };
    headers.remove(CONTENT_ENCODING);
    headers.remove(CONTENT_LENGTH);
    Ok(coding)
}

/// The decoded chunks.
pub(crate) fn decoded(coding: Coding, chunks: Chunks, host: String) -> Chunks {
    if coding == Coding::Identity {
        return chunks;
    }
    let filled = chunks.filter(|chunk| ready(!chunk.as_ref().is_ok_and(Bytes::is_empty)));
    let mut filled = filled.boxed().peekable();
    // Which decoder it takes shows in the first byte; a body without any (304, HEAD) takes none.
    let start = async move {
        let first = Pin::new(&mut filled).peek().await;
        let first = first.and_then(|chunk| chunk.as_ref().ok()?.first().copied());
        match first {
            None => filled.boxed(),
            Some(first) => unpacked(coding, first, filled, host),
        }
    };
    stream::once(start).flatten().boxed()
}

fn unpacked(coding: Coding, first: u8, chunks: Peekable<Chunks>, host: String) -> Chunks {
    if coding == Coding::Brotli && first & 0x7f == LARGE_WINDOW {
        let detail = "its window is too large".to_owned();
        return stream::once(ready(Err(NetError::Coding { host, detail }))).boxed();
    }
    let packed = StreamReader::new(chunks.map_err(io::Error::other).boxed());
    let reader: Pin<Box<dyn AsyncRead + Send>> = match coding {
        Coding::Gzip => {
            let mut decoder = GzipDecoder::new(packed);
            decoder.multiple_members(true);
            Box::pin(decoder)
        }
        // The name means zlib (RFC 9110, 8.4.1.2); some servers leave its two bytes out. A zlib body begins with method 8.
        Coding::Deflate if first & 0x0f == 8 => Box::pin(ZlibDecoder::new(packed)),
        Coding::Deflate => Box::pin(DeflateDecoder::new(packed)),
        Coding::Brotli => Box::pin(BrotliDecoder::new(packed)),
        Coding::Zstd => {
            let window = DParameter::window_log_max(ZSTD_WINDOW_LOG);
            let mut decoder = ZstdDecoder::with_params(packed, &[window]);
            decoder.multiple_members(true);
            Box::pin(decoder)
        }
        Coding::Identity => Box::pin(packed),
    };
    ReaderStream::with_capacity(reader, PIECE)
        .map_err(move |error| fault(&error, &host))
        .boxed()
}

/// Our own error from below the decoder, or what the decoder says.
fn fault(error: &io::Error, host: &str) -> NetError {
    let own = error.get_ref().and_then(|inner| inner.downcast_ref::<NetError>());
    match own {
        Some(own) => own.clone(),
        None if error.kind() == io::ErrorKind::UnexpectedEof => NetError::Interrupted {
            host: host.to_owned(),
            detail: "the compressed body ends early".to_owned(),
        },
        None => NetError::Coding {
            host: host.to_owned(),
            detail: agentd_base::text::clip(&error.to_string(), 120),
        },
    }
}
