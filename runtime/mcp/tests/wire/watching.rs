//! Watched resources: notify, then read; once for each change.

use std::sync::Arc;

use agentd_config::document::McpServer;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::case::{Case, Got, changed, consumer, heard, mcp, subscribing};
use crate::log::Log;
use crate::script::Discover;

/// The mechanism follows from what was negotiated; what is heard is the same.
#[tokio::test]
async fn m37_m28_the_server_says_that_it_changed_and_it_is_read() {
    for discover in [Discover::Old, Discover::Modern] {
        let mut case = Case::armed(subscribing(discover)).await;
        for content in ["two", "three"] {
            case.change(content).await;
            assert_eq!(case.next().await, changed(content), "{discover:?}");
        }
        // It says that something happened, and is believed.
        case.change("three").await;
        assert_eq!(case.next().await, changed("three"), "{discover:?}");
        let (subscribes, listens) = (
            case.peer.count("resources/subscribe"),
            case.peer.count("subscriptions/listen"),
        );
        match discover {
            // One for the resource, one for the lists.
            Discover::Modern => assert_eq!((subscribes, listens), (0, 2)),
            _ => assert_eq!((subscribes, listens), (1, 0)),
        }
        let read = case.peer.seen("resources/read").await;
        let meta = &read.body["params"]["_meta"];
        assert_eq!(
            (&meta["agent/instance"], meta.get("agent/run_id")),
            (&json!("agent-0"), None)
        );
        case.supervised.close().await;
    }
}

#[tokio::test]
async fn m35_the_end_of_a_watch_and_of_a_connection_is_told() {
    let mut case = Case::armed(subscribing(Discover::Old)).await;
    drop(case.watch.take());
    let told = case.peer.seen("resources/unsubscribe").await;
    assert_eq!(told.body["params"]["uri"], "a:1");

    // Two watches are one subscription, and its end comes with the last of them.
    let (one, mut first) = consumer(None);
    let (two, mut second) = consumer(None);
    let watches = [
        case.supervised.watch("s", "a:1", one, None),
        case.supervised.watch("s", "a:1", two, None),
    ];
    first.recv().await.unwrap();
    second.recv().await.unwrap();
    assert_eq!(case.peer.count("resources/subscribe"), 2);
    let [first, _second] = watches;
    drop(first);
    case.supervised.close().await;
    case.peer.seen("DELETE").await;
    let methods = case.peer.methods();
    let place = |what: &str| methods.iter().rposition(|seen| seen == what);
    assert_eq!(case.peer.count("resources/unsubscribe"), 2);
    assert!(place("resources/unsubscribe") < place("DELETE"), "{methods:?}");

    let mut case = Case::armed(subscribing(Discover::Modern)).await;
    assert_eq!(case.peer.listening(), 2);
    drop(case.watch.take());
    // The stream is closed: that is how the stateless revision says it.
    while case.peer.listening() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(case.peer.count("notifications/cancelled"), 0);
    case.supervised.close().await;
}

/// What is said while a read or the consumer is busy is one more read, never lost.
#[tokio::test]
async fn m28_what_is_said_meanwhile_is_one_more_read() {
    for discover in [Discover::Old, Discover::Modern] {
        let busy = Arc::new(Semaphore::new(0));
        let mut case = Case::with(subscribing(discover), None, Some(busy.clone())).await;
        assert_eq!(case.next().await, Got::Armed("one".into()));
        case.change("two").await;
        assert_eq!(case.next().await, changed("two"));
        let before = case.peer.count("resources/read");
        for number in 0..200 {
            case.change(&format!("v{number}")).await;
        }
        // Everything was heard once this is answered, as it came on the same streams before it.
        heard(&case).await;
        busy.add_permits(1);
        assert_eq!(case.next().await, changed("v199"), "{discover:?}");
        assert_eq!(case.peer.count("resources/read"), before + 1);
        busy.add_permits(100);
        case.supervised.close().await;
    }
}

/// A word that comes late, of a change that was found already, brings the next change; the word of that one is late too.
#[tokio::test]
async fn m28_words_that_lag_behind_are_not_told_twice() {
    let mut case = Case::armed(subscribing(Discover::Old)).await;
    case.now("two");
    case.peer.hang_up();
    assert_eq!(case.next().await, changed("two"));
    case.now("three");
    case.say("a:1").await;
    assert_eq!(case.next().await, changed("three"));
    let reads = case.peer.count("resources/read");
    case.say("a:1").await;
    case.peer.seen_times("resources/read", reads + 1).await;
    heard(&case).await;
    case.change("four").await;
    assert_eq!(case.next().await, changed("four"));
    // Nothing lags any more: a word counts whatever is read.
    case.say("a:1").await;
    assert_eq!(case.next().await, changed("four"));
    case.supervised.close().await;
}

/// M38: nothing that a server says is dropped in silence.
#[tokio::test]
async fn m28_what_nobody_waits_for_is_logged() {
    let log = Log::start();
    let mut case = Case::armed(subscribing(Discover::Old)).await;
    case.say("a:7").await;
    let lines = log.until("mcp.resource.undelivered", 1).await;
    assert!(
        lines[0].contains("uri=a:7") && lines[0].starts_with("WARN"),
        "{lines:?}"
    );
    // A part of what is watched is news of it.
    case.now("two");
    case.say("a:1/part").await;
    assert_eq!(case.next().await, changed("two"));
    case.supervised.close().await;
}

/// A read that fails is tried again, and says why.
#[tokio::test]
async fn m28_a_read_that_fails_is_done_again() {
    let log = Log::start();
    let mut case = Case::armed(subscribing(Discover::Old)).await;
    let fault = json!({"error": {"code": -32603, "message": "later"}});
    case.peer.script().first = [fault.clone(), fault].into();
    case.change("two").await;
    assert_eq!(case.next().await, changed("two"));
    assert!(log.of("mcp.watch.fail")[0].contains("later"));
    // What is not there is waited for.
    let gone = case.peer.script().contents.remove("a:1");
    assert!(gone.is_some());
    case.say("a:1").await;
    log.until("mcp.watch.fail", 3).await;
    case.change("again").await;
    assert_eq!(case.next().await, changed("again"));
    case.supervised.close().await;
}

/// A connection that is lost while the consumer is busy with a change has not told it: the next one does.
#[tokio::test]
async fn m30_a_change_counts_once_its_consumer_has_it() {
    let busy = Arc::new(Semaphore::new(0));
    let mut case = Case::with(subscribing(Discover::Old), None, Some(busy.clone())).await;
    assert_eq!(case.next().await, Got::Armed("one".into()));
    case.change("two").await;
    assert_eq!(case.next().await, changed("two"));
    let other = McpServer {
        ns: Some("x".into()),
        ..case.peer.server("s")
    };
    case.supervised.reload(&mcp(other));
    assert_eq!(case.next().await, changed("two"));
    busy.add_permits(10);
    case.supervised.close().await;
}
