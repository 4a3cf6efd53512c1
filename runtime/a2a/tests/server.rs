//! The accept loop with a handler that streams: what is in flight, and what ends it.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods
)]

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use agentd_a2a::server::{Bounds, Events, Handler, Server};
use agentd_base::drain::Drain;
use agentd_identity::SpiffeId;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body, Frame, Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

const BOUNDS: Bounds = Bounds {
    connections: 2,
    of_one: 2,
    streams: 10,
    linger: Duration::from_secs(60),
};

/// Streams what the test sends.
struct Chunks(mpsc::Receiver<Bytes>);

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(context)
            .map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}

#[derive(Clone)]
struct Streams {
    bodies: Arc<Mutex<Vec<mpsc::Receiver<Bytes>>>>,
    revoked: watch::Receiver<bool>,
}

impl Handler for Streams {
    type Body = Chunks;

    async fn handle(&self, _: Option<Arc<SpiffeId>>, _: Request<Incoming>) -> Response<Chunks> {
        Response::new(Chunks(self.bodies.lock().unwrap().pop().unwrap()))
    }

    async fn revoked(&self, _: Option<Arc<SpiffeId>>) {
        let _ = self.revoked.clone().wait_for(|revoked| *revoked).await;
    }
}

struct World {
    address: std::net::SocketAddr,
    drain: Drain,
    revoke: watch::Sender<bool>,
    chunks: Vec<mpsc::Sender<Bytes>>,
}

async fn start() -> World {
    let server = Server::bind(Events::A2A, "127.0.0.1:0".parse().unwrap(), None, BOUNDS)
        .await
        .unwrap();
    let (address, drain, revoke) = (server.local_addr(), Drain::new(), watch::Sender::new(false));
    let (chunks, bodies): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel(1)).unzip();
    let handler = Streams {
        bodies: Arc::new(Mutex::new(bodies)),
        revoked: revoke.subscribe(),
    };
    tokio::spawn(server.serve(handler, drain.watch()));
    World {
        address,
        drain,
        revoke,
        chunks,
    }
}

/// A request whose answer has begun.
async fn begun(world: &World) -> Response<Incoming> {
    let stream = TokioIo::new(TcpStream::connect(world.address).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("/")
        .header("host", "localhost")
        .body(Empty::<Bytes>::new())
        .unwrap();
    sender.send_request(request).await.unwrap()
}

#[tokio::test]
async fn a_stream_is_in_flight_until_its_last_byte() {
    let mut world = start().await;
    let answer = begun(&world).await;
    let last = world.chunks.pop().unwrap();
    let mut signal = world.drain.watch();
    let draining = tokio::spawn(world.drain.run(Duration::from_secs(3600)));
    signal.signaled().await;
    drop(signal);
    // Far longer than an idle connection is kept.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(30)).await;
    tokio::time::resume();
    assert!(!draining.is_finished());
    last.send(Bytes::from_static(b"the end")).await.unwrap();
    drop(last);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "the end");
    assert!(draining.await.unwrap());
}

#[tokio::test]
async fn a_revoked_peer_is_cut_off_in_the_middle_of_a_stream() {
    let world = start().await;
    let answer = begun(&world).await;
    world.revoke.send_replace(true);
    assert!(answer.into_body().collect().await.is_err());
}

#[tokio::test]
async fn a_stranger_that_holds_every_place_keeps_nobody_out() {
    let world = start().await;
    let first = begun(&world).await;
    let second = begun(&world).await;
    // One more than the bound: it is served, and the oldest has to go.
    let third = begun(&world).await;
    assert!(first.into_body().collect().await.is_err());
    drop(world.chunks);
    for answer in [second, third] {
        assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    }
}
