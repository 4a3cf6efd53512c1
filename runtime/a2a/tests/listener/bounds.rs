//! What the listener survives: what is large, slow, much, or no TLS at all.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use agentd_a2a::server::{Bounds, Events, Handler, Server};
use agentd_a2a::{limit, tls};
use agentd_base::drain::Drain;
use agentd_identity::{SpiffeId, Svid};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

use crate::support::*;

#[tokio::test]
async fn s12_a_body_that_is_too_large_is_refused() {
    let world = World::start().await;
    let shown = svid(&world.authority, ALICE, &[]);
    let head = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\na2a-version: 1.0\r\n";
    // Declared too large: refused before a byte of it is sent.
    let mut stream = tls_stream(world.address, world.showing(Some(&shown)))
        .await
        .unwrap();
    let declared = format!("{head}content-length: {}\r\n\r\n", 1024 * 1024 + 1);
    stream.write_all(declared.as_bytes()).await.unwrap();
    assert!(first_line(&mut stream).await.starts_with("HTTP/1.1 413 "));
    // Not declared: refused when it has become too large.
    let mut stream = tls_stream(world.address, world.showing(Some(&shown)))
        .await
        .unwrap();
    stream
        .write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
    for _ in 0..33 {
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    assert!(first_line(&mut stream).await.starts_with("HTTP/1.1 413 "));
    // One byte less than too large is read.
    let mut alice = world.as_caller(ALICE).await;
    let mut request = rpc("/", "GetTask", json!({ "id": "x" }));
    let body = request.body().clone();
    let mut bytes = http_body_util::BodyExt::collect(body)
        .await
        .unwrap()
        .to_bytes()
        .to_vec();
    bytes.resize(1024 * 1024, b' ');
    *request.body_mut() = Full::from(Bytes::from(bytes));
    assert_eq!(alice.send(request).await.unwrap().error_code(), -32001);
}

#[tokio::test]
async fn s12_heads_are_bounded() {
    let world = World::start().await;
    let shown = svid(&world.authority, ALICE, &[]);
    let large = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "y".repeat(40 * 1024)
    );
    let many = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\n{}\r\n",
        "x: y\r\n".repeat(101)
    );
    let smuggled = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd";
    let spaced = "GET / HTTP/1.1\r\nhost : localhost\r\n\r\n";
    for (head, status) in [
        (large.as_str(), "431"),
        (&many, "431"),
        (smuggled, "400"),
        (spaced, "400"),
    ] {
        let mut stream = tls_stream(world.address, world.showing(Some(&shown)))
            .await
            .unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let line = first_line(&mut stream).await;
        assert!(
            line.starts_with(&format!("HTTP/1.1 {status} ")),
            "{line} for {:.60}",
            head
        );
    }
    let mut peer = Peer::connect_http2(world.address, world.showing(Some(&shown))).await;
    let request = Request::get("https://localhost/").header("x", "y".repeat(40 * 1024));
    let answer = peer.send(request.body(Full::default()).unwrap()).await;
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status == 431));
}

#[tokio::test]
async fn handshakes_that_never_end_keep_nobody_waiting() {
    let world = World::start().await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        // The first bytes of a ClientHello that never comes.
        stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00]).await.unwrap();
        silent.push(stream);
    }
    let mut alice = world.as_caller(ALICE).await;
    assert_eq!(alice.call("SendMessage", message("echo hi")).await.status, 200);
    // What is no TLS at all is told so and closed.
    let mut plain = TcpStream::connect(world.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    let _ = plain.read_to_end(&mut rest).await;
    assert_eq!(rest.first(), Some(&0x15), "a TLS alert");
}

#[tokio::test]
async fn what_is_slow_is_ended_by_a_clock() {
    let world = World::start().await;
    let shown = svid(&world.authority, ALICE, &[]);
    let mut silent = TcpStream::connect(world.address).await.unwrap();
    let mut half_head = tls_stream(world.address, world.showing(Some(&shown)))
        .await
        .unwrap();
    half_head.write_all(b"GET / HTTP/1.1\r\nhost: loc").await.unwrap();
    let mut half_body = tls_stream(world.address, world.showing(Some(&shown)))
        .await
        .unwrap();
    let head =
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
    half_body.write_all(head.as_bytes()).await.unwrap();
    let mut idle = tls_stream(world.address, world.showing(Some(&shown)))
        .await
        .unwrap();
    let stranger = Peer::connect_http2(world.address, world.showing(None)).await;
    // A round trip, so that what was sent has arrived before the clock stands still and jumps to the next timer.
    let mut alice = world.as_caller(ALICE).await;
    assert_eq!(alice.call("SendMessage", message("echo hi")).await.status, 200);
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let mut rest = Vec::new();
    assert_eq!(silent.read_to_end(&mut rest).await.unwrap_or(0), 0);
    let _ = half_head.read_to_end(&mut rest).await;
    let _ = idle.read_to_end(&mut rest).await;
    let Peer::Two(stranger) = stranger else {
        unreachable!()
    };
    assert!(
        stranger.is_closed(),
        "who shows no certificate is not kept waiting for"
    );
    assert!(first_line(&mut half_body).await.starts_with("HTTP/1.1 408 "));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_caller_that_sends_too_much_at_once_waits_and_another_does_not() {
    let world = World::start().await;
    let shown = svid(&world.authority, ALICE, &[]);
    let mut held = all_that_a_caller_may_send(&world, &shown).await;
    let mut bob = world.as_caller(BOB).await;
    assert_eq!(bob.call("SendMessage", message("echo hi")).await.status, 200);
    let mut alice = world.as_caller(ALICE).await;
    let waiting = tokio::spawn(async move { alice.call("SendMessage", message("echo more")).await });
    assert_eq!(bob.call("SendMessage", message("echo on")).await.status, 200);
    assert!(!waiting.is_finished());
    held.pop();
    assert_eq!(waiting.await.unwrap().status, 200);
}

#[tokio::test]
async fn a_caller_of_whom_too_many_requests_wait_is_told_to_come_again() {
    let world = World::start().await;
    let shown = svid(&world.authority, ALICE, &[]);
    let held = all_that_a_caller_may_send(&world, &shown).await;
    let mut calls = JoinSet::new();
    for number in [65, 64] {
        let peer = Peer::connect_http2(world.address, world.showing(Some(&shown))).await;
        let Peer::Two(sender) = peer else { unreachable!() };
        for _ in 0..number {
            let mut peer = Peer::Two(sender.clone());
            calls.spawn(async move { peer.call("GetTask", json!({ "id": "x" })).await });
        }
    }
    let refused = calls.join_next().await.unwrap().unwrap();
    assert_eq!(
        (
            refused.status,
            refused.header("retry-after"),
            refused.reason().as_str()
        ),
        (429, "5", "TOO_MANY_REQUESTS")
    );
    drop(held);
    let rest = calls.join_all().await;
    assert_eq!(rest.len(), 128);
    assert!(rest.iter().all(|answer| answer.error_code() == -32001));
}

/// A handler that answers nothing in particular.
#[derive(Clone)]
struct Nothing;

impl Handler for Nothing {
    type Body = Full<Bytes>;

    async fn handle(&self, _: Option<Arc<SpiffeId>>, _: Request<Incoming>) -> Response<Full<Bytes>> {
        Response::default()
    }

    async fn revoked(&self, _: Option<Arc<SpiffeId>>) {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_peer_has_no_more_connections_than_its_share() {
    let world = World::start().await;
    let bounds = Bounds {
        connections: 100,
        of_one: 2,
        streams: 1,
        linger: Duration::ZERO,
    };
    let config = tls::svid(&world.source);
    let server = Server::bind(Events::A2A, "127.0.0.1:0".parse().unwrap(), Some(config), bounds)
        .await
        .unwrap();
    let (address, drain) = (server.local_addr(), Drain::new());
    tokio::spawn(server.serve(Nothing, drain.watch()));
    let (alice, bob) = (
        svid(&world.authority, ALICE, &[]),
        svid(&world.authority, BOB, &[]),
    );
    let connect = async |shown| {
        let mut peer = Peer::connect(address, world.showing(shown)).await?;
        let answer = peer.try_call("/", "GetTask", json!({})).await?;
        assert_eq!(answer.status, 200);
        Ok::<_, String>(peer)
    };
    let first = connect(Some(&alice)).await.unwrap();
    let _second = connect(Some(&alice)).await.unwrap();
    assert!(connect(Some(&alice)).await.is_err());
    // Others are no part of it.
    connect(Some(&bob)).await.unwrap();
    for _ in 0..3 {
        connect(None).await.unwrap();
    }
    drop(first);
    while connect(Some(&alice)).await.is_err() {}
}

/// More requests than a caller may have read at once, each of which has begun and never ends.
#[tokio::test]
async fn streams_that_are_opened_and_never_ended_keep_only_their_caller_waiting() {
    let world = World::start().await;
    let shown = svid(&world.authority, ALICE, &[]);
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut config = world.showing(Some(&shown));
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TokioIo::new(tls_stream(world.address, config).await.unwrap());
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        for _ in 0..limit::STREAMS {
            let request = rpc("https://localhost/", "GetTask", json!({ "id": "x" }));
            let answer = sender.send_request(request.map(|_| NeverEnds));
            open.push(tokio::spawn(answer));
        }
        // A round trip: what was sent before has arrived.
        sender.ready().await.unwrap();
    }
    let mut bob = world.as_caller(BOB).await;
    assert_eq!(bob.call("SendMessage", message("echo hi")).await.status, 200);
    // Each is answered in the end, by a clock or by a bound.
    tokio::time::pause();
    for answer in open {
        let status = answer.await.unwrap().unwrap().status().as_u16();
        assert!(matches!(status, 408 | 429), "{status}");
    }
}

/// A body whose first bytes never come.
struct NeverEnds;

impl Body for NeverEnds {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

/// Bodies that are being read, each of which may become the largest, so many that their caller has no more.
async fn all_that_a_caller_may_send(world: &World, shown: &Svid) -> Vec<TlsStream<TcpStream>> {
    let head = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\na2a-version: 1.0\r\n\
                expect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut stream = tls_stream(world.address, world.showing(Some(shown)))
            .await
            .unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // It is being read: it has its part.
        assert_eq!(first_line(&mut stream).await, "HTTP/1.1 100 Continue\r");
        held.push(stream);
    }
    held
}

async fn first_line(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut read = Vec::new();
    let mut byte = [0];
    while stream.read_exact(&mut byte).await.is_ok() && byte != *b"\n" {
        read.push(byte[0]);
    }
    String::from_utf8_lossy(&read).into_owned()
}
