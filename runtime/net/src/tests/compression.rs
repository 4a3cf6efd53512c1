//! Compressed bodies: every coding, what they unpack to, and events that must not wait for the next one.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use agentd_base::class::{Class, Classified as _};
use async_compression::tokio::write::{BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder};
use async_compression::zstd::CParameter;
use axum::Router;
use axum::body::Body as AxumBody;
use axum::extract::Request as AxumRequest;
use axum::response::Response as AxumResponse;
use axum::routing::any;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::channel::mpsc;
use http::Request;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;

use super::client::{client, post};
use super::peer::Peer;
use crate::{HttpClient, Limits, NetError, Options};

/// The codings by the names that servers send, the fifth being deflate without the two bytes of zlib.
const CODINGS: [(&str, &str); 5] = [
    ("gzip", "gzip"),
    ("deflate", "deflate"),
    ("br", "br"),
    ("zstd", "zstd"),
    ("raw", "deflate"),
];

/// What a server writes its body to.
struct Wire(mpsc::UnboundedSender<std::io::Result<Bytes>>);

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        self.0.unbounded_send(Ok(Bytes::copy_from_slice(bytes))).unwrap();
        std::task::Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

type Encoder = Pin<Box<dyn AsyncWrite + Send>>;

fn encoder(kind: &str, wire: impl AsyncWrite + Send + 'static) -> Encoder {
    match kind {
        "gzip" => Box::pin(GzipEncoder::new(wire)),
        "deflate" => Box::pin(ZlibEncoder::new(wire)),
        "raw" => Box::pin(DeflateEncoder::new(wire)),
        "br" => Box::pin(BrotliEncoder::new(wire)),
        "zstd" => Box::pin(ZstdEncoder::new(wire)),
        other => panic!("{other}"),
    }
}

async fn packed(kind: &str, plain: &[u8]) -> Vec<u8> {
    let (mut ours, theirs) = tokio::io::duplex(1024 * 1024);
    let mut encoder = encoder(kind, theirs);
    let reading = tokio::spawn(async move {
        let mut bytes = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut ours, &mut bytes)
            .await
            .unwrap();
        bytes
    });
    encoder.write_all(plain).await.unwrap();
    encoder.shutdown().await.unwrap();
    drop(encoder);
    reading.await.unwrap()
}

fn answer(coding: &str, body: impl Into<AxumBody>) -> AxumResponse {
    AxumResponse::builder()
        .header("content-encoding", coding)
        .body(body.into())
        .unwrap()
}

/// A peer that answers everything so.
async fn serves(coding: &'static str, body: Vec<u8>) -> Peer {
    let body = Bytes::from(body);
    let router = Router::new().fallback(any(move || {
        let body = body.clone();
        async move { answer(coding, body) }
    }));
    Peer::start(router, None).await
}

fn bounded(peer: &Peer, body_bytes: usize) -> HttpClient {
    let limits = Limits {
        body_bytes,
        ..Limits::default()
    };
    client(
        &peer.url("http", "/"),
        Options {
            limits,
            ..Options::default()
        },
    )
}

async fn body(client: &HttpClient) -> Result<Bytes, NetError> {
    client.send(post("/", "")).await?.body.bytes().await
}

#[tokio::test]
async fn every_coding_is_asked_for_and_read() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let router = Router::new().fallback(any(move |request: AxumRequest| {
        let seen = seen.clone();
        async move {
            let accepted = request.headers()["accept-encoding"].to_str().unwrap().to_owned();
            seen.lock().unwrap().push(accepted);
            let kind = request.uri().path().trim_matches('/').to_owned();
            let coding = CODINGS.iter().find(|(name, _)| *name == kind).unwrap().1;
            answer(coding, packed(&kind, "Grüße ".repeat(10_000).as_bytes()).await)
        }
    }));
    let peer = Peer::start(router, None).await;
    let client = client(&peer.url("http", "/"), Options::default());
    for (kind, _) in CODINGS {
        let request = Request::get(format!("/{kind}")).body(Bytes::new()).unwrap();
        let response = client.send(request).await.unwrap();
        for header in ["content-encoding", "content-length"] {
            assert!(
                !response.headers.contains_key(header),
                "{kind}: {header} is of the packed body"
            );
        }
        let body = response.body.bytes().await.unwrap();
        assert_eq!(body, "Grüße ".repeat(10_000).as_bytes(), "{kind}");
    }
    let own = Request::get("/gzip")
        .header("accept-encoding", "gzip")
        .body(Bytes::new())
        .unwrap();
    client.send(own).await.unwrap();
    let mut expected = vec!["gzip, deflate, br, zstd".to_owned(); CODINGS.len()];
    expected.push("gzip".to_owned());
    assert_eq!(*asked.lock().unwrap(), expected);
    assert_eq!(peer.connections(), 1);
}

/// A server flushes after each event; the second is written only when the first has arrived.
#[tokio::test]
async fn an_event_in_a_compressed_stream_does_not_wait_for_the_next_one() {
    for (kind, coding) in CODINGS {
        let arrived = Arc::new(Notify::new());
        let go_on = arrived.clone();
        let router = Router::new().fallback(any(move || {
            let (send, receive) = mpsc::unbounded();
            let go_on = go_on.clone();
            tokio::spawn(async move {
                let mut encoder = encoder(kind, Wire(send));
                for number in 0..3 {
                    encoder
                        .write_all(format!("data: {number}\n\n").as_bytes())
                        .await
                        .unwrap();
                    encoder.flush().await.unwrap();
                    go_on.notified().await;
                }
                encoder.shutdown().await.unwrap();
            });
            let body = AxumBody::from_stream(receive);
            async move { answer(coding, body) }
        }));
        let peer = Peer::start(router, None).await;
        let client = client(&peer.url("http", "/"), Options::default());
        let response = client.send(post("/", "")).await.unwrap();
        let mut events = response.body.events(64);
        for number in 0..3 {
            let mut event = Vec::new();
            while !event.ends_with(b"\n\n") {
                let wait = tokio::time::timeout(std::time::Duration::from_secs(30), events.next());
                let chunk = wait
                    .await
                    .unwrap_or_else(|_| panic!("{kind}: event {number} waits"));
                event.extend_from_slice(&chunk.unwrap().unwrap());
            }
            assert_eq!(event, format!("data: {number}\n\n").as_bytes(), "{kind}");
            arrived.notify_one();
        }
        assert!(events.next().await.is_none(), "{kind}");
    }
}

#[tokio::test]
async fn the_bound_of_a_body_is_on_what_it_unpacks_to() {
    for (kind, coding) in CODINGS {
        let zeros = packed(kind, &vec![0; 4 * 1024 * 1024]).await;
        assert!(zeros.len() < 32 * 1024, "{kind}: {}", zeros.len());
        let peer = serves(coding, zeros).await;
        let error = body(&bounded(&peer, 64 * 1024)).await.unwrap_err();
        assert!(
            matches!(error, NetError::TooLarge { what: "body", .. }),
            "{kind}: {error}"
        );
        assert_eq!(
            body(&bounded(&peer, 4 * 1024 * 1024)).await.unwrap().len(),
            4 * 1024 * 1024
        );
        let client = bounded(&peer, 1);
        let response = client.send(post("/", "")).await.unwrap();
        let outcome: Vec<_> = response.body.events(100_000).collect().await;
        assert!(
            matches!(
                outcome.last(),
                Some(Err(NetError::TooLarge {
                    what: "one event",
                    ..
                }))
            ),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_unpacked_is_said() {
    for (kind, coding) in CODINGS {
        let mut bytes = packed(kind, "some text ".repeat(1000).as_bytes()).await;
        bytes.truncate(bytes.len() / 2);
        let peer = serves(coding, bytes).await;
        let error = body(&bounded(&peer, 1024 * 1024)).await.unwrap_err();
        assert!(
            matches!(error, NetError::Coding { .. } | NetError::Interrupted { .. }),
            "{kind}: {error:?}"
        );

        let peer = serves(coding, b"this is plain text, whatever the header says".to_vec()).await;
        let error = body(&bounded(&peer, 1024 * 1024)).await.unwrap_err();
        assert!(
            matches!(error, NetError::Coding { .. } | NetError::Interrupted { .. }),
            "{kind}: {error:?}"
        );
        assert_eq!(error.class(), Class::Unavailable);
    }
    for coding in ["compress", "gzip, br", "hunter"] {
        let peer = serves(coding, b"x".to_vec()).await;
        let error = body(&bounded(&peer, 1024)).await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("the content coding is {coding}")),
            "{error}"
        );
    }
    let peer = serves("identity", b"as it is".to_vec()).await;
    assert_eq!(body(&bounded(&peer, 1024)).await.unwrap(), "as it is");
}

#[tokio::test]
async fn a_body_that_is_not_there_is_not_unpacked() {
    for (_, coding) in CODINGS {
        let peer = serves(coding, Vec::new()).await;
        assert!(body(&bounded(&peer, 1)).await.unwrap().is_empty());
    }
}

/// A window is memory that a server could make us spend: 128 MiB or 1 GiB, if nobody said otherwise.
#[tokio::test]
async fn a_window_larger_than_a_browser_takes_is_refused() {
    let (mut ours, theirs) = tokio::io::duplex(16 * 1024 * 1024);
    let window = [CParameter::window_log(27)];
    let mut encoder =
        ZstdEncoder::with_quality_and_params(theirs, async_compression::Level::Fastest, &window);
    encoder.write_all(b"short").await.unwrap();
    encoder.flush().await.unwrap();
    encoder.shutdown().await.unwrap();
    drop(encoder);
    let mut zstd = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut ours, &mut zstd)
        .await
        .unwrap();
    // The first byte says "large window", the second that it has 2^30 bytes.
    for (coding, bytes) in [("zstd", zstd), ("br", vec![0x11, 0x1e, 0, 0])] {
        let peer = serves(coding, bytes).await;
        let error = body(&bounded(&peer, 1024)).await.unwrap_err();
        assert!(matches!(error, NetError::Coding { .. }), "{coding}: {error:?}");
    }
}

#[tokio::test]
async fn a_streamed_exchange_passes_the_body_on_as_it_is() {
    let bytes = packed("gzip", b"hello").await;
    let peer = serves("gzip", bytes.clone()).await;
    let client = client(&peer.url("http", "/"), Options::default());
    let request = Request::post("/").body(futures::stream::empty().boxed()).unwrap();
    let response = client.send_streamed(request).await.unwrap();
    assert_eq!(response.headers["content-encoding"], "gzip");
    assert_eq!(response.body.bytes().await.unwrap(), bytes);
}
