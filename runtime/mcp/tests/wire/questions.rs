//! Questions on the notification stream: it is open before the first call makes a server ask, and a server that asks far
//! too much is told so.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentd_mcp::{Answer, CallMeta, Connection, Elicitor, Era, Hooks, Kind, Outbound, Question};
use async_trait::async_trait;
use serde_json::{Map, json};
use tokio::sync::Semaphore;

use crate::peer::{Peer, open};
use crate::script::{Discover, Get, Script};

/// Time that stands still until this is dropped: while something blocks, paused time does not run ahead.
struct Frozen(std::sync::mpsc::Sender<()>);

impl Frozen {
    fn start() -> Self {
        tokio::time::pause();
        let (thaw, thawed) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || thawed.recv());
        Self(thaw)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = self.0.send(());
        tokio::time::resume();
    }
}

fn streaming(get: Get, opening: &Arc<Semaphore>) -> Script {
    Script {
        get,
        opening: Some(opening.clone()),
        ..Script::default()
    }
}

fn legacy() -> Kind {
    Kind::Worker {
        era: Some(Era::Legacy),
    }
}

async fn call(connection: &Connection) -> String {
    let outcome = connection.call("echo", Map::new(), &CallMeta::default()).await;
    outcome.unwrap().text
}

/// A server that asks on the stream of the GET loses the question when there is none yet.
#[tokio::test]
async fn m13_the_first_call_comes_after_the_stream_that_its_question_comes_on() {
    let opening = Arc::new(Semaphore::new(0));
    let peer = Peer::start(streaming(Get::Held, &opening)).await;
    let connection = open(&peer.server("s"), legacy()).await;
    peer.seen("GET").await;
    let frozen = Frozen::start();
    let mut called = Box::pin(call(&connection));
    assert!(futures::poll!(called.as_mut()).is_pending());
    // What makes no server ask does not wait, and would be behind the call if that did not.
    for _ in 0..20 {
        connection.ping().await.unwrap();
        assert!(futures::poll!(called.as_mut()).is_pending());
    }
    assert_eq!(peer.count("tools/call"), 0);
    opening.add_permits(1);
    assert_eq!(called.await, "hello");
    drop(frozen);
    connection.close().await;
}

/// Who says that there is no such stream is called at once; so is everybody by a connection that answers no questions.
#[tokio::test]
async fn m13_no_call_waits_for_a_stream_that_is_refused_or_of_no_use() {
    for (get, opening, kind) in [
        (Get::NotAllowed, 1, legacy()),
        (Get::Unauthorized, 1, legacy()),
        (Get::Broken, 1, legacy()),
        (
            Get::Held,
            0,
            Kind::Boot {
                instance: "agent-0".into(),
            },
        ),
    ] {
        let opening = Arc::new(Semaphore::new(opening));
        let peer = Peer::start(streaming(get, &opening)).await;
        let connection = open(&peer.server("s"), kind).await;
        peer.seen("GET").await;
        let frozen = Frozen::start();
        assert_eq!(call(&connection).await, "hello", "{get:?}");
        drop(frozen);
        connection.close().await;
    }
}

/// A server that does not answer the GET is called all the same, after one wait in the life of a connection.
#[tokio::test]
async fn m13_a_stream_that_does_not_come_holds_up_one_call() {
    let peer = Peer::start(streaming(Get::Held, &Arc::new(Semaphore::new(0)))).await;
    let connection = open(&peer.server("s"), legacy()).await;
    let began = std::time::Instant::now();
    assert_eq!(call(&connection).await, "hello");
    assert!(
        began.elapsed() >= Duration::from_millis(900),
        "{:?}",
        began.elapsed()
    );
    let frozen = Frozen::start();
    assert_eq!(call(&connection).await, "hello");
    drop(frozen);
    connection.close().await;
}

/// Thinks for as long as there is no permit.
struct Slow(Semaphore, AtomicUsize);

#[async_trait]
impl Elicitor for Slow {
    async fn ask(&self, _: Question) -> Answer {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.acquire().await.unwrap().forget();
        Answer::Accept(Map::new())
    }
}

/// A person is asked what a person can answer; the rest is cancelled, by a few connections at a time.
#[tokio::test(flavor = "multi_thread")]
async fn m13_a_thousand_questions_at_once_are_a_few_and_many_that_are_cancelled() {
    let peer = Peer::start(Script {
        discover: Discover::Old,
        get: Get::Held,
        ..Script::default()
    })
    .await;
    let person = Arc::new(Slow(Semaphore::new(0), AtomicUsize::default()));
    let hooks = Hooks {
        elicitor: Some(person.clone()),
    };
    let connection = Connection::open(&peer.server("s"), None, legacy(), &Outbound::default(), hooks)
        .await
        .unwrap();
    peer.seen("GET").await;
    let before = descriptors();
    let schema = json!({"type": "object", "properties": {}});
    for id in 0..1_000 {
        peer.push(
            &json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create",
            "params": {"message": "now?", "requestedSchema": schema}}),
        );
    }
    // Meanwhile the server is of use.
    connection.ping().await.unwrap();
    peer.seen_times("answer", 996).await;
    assert!(descriptors() < before + 32, "{before} -> {}", descriptors());
    assert_eq!(person.1.load(Ordering::SeqCst), 4);
    person.0.add_permits(4);
    peer.seen_times("answer", 1_000).await;
    let log = peer.log();
    let answered = |action: &str| {
        let answers = log.iter().filter(|seen| seen.what() == "answer");
        answers
            .filter(|seen| seen.body["result"]["action"] == action)
            .count()
    };
    assert_eq!((answered("accept"), answered("cancel")), (4, 996));
    connection.close().await;
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
