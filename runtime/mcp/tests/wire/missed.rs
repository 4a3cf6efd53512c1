//! What was missed: after a break, a restart, a reload, or for want of a stream; told once, or said to be unheard of.

use agentd_base::report::ServerState;
use agentd_config::document::{Mcp, McpServer};
use agentd_mcp::{Content, Digest};
use serde_json::json;

use crate::case::{Case, changed, consumer, mcp, subscribing};
use crate::log::Log;
use crate::peer::Peer;
use crate::script::{Discover, Get, Script, text};

#[tokio::test]
async fn m30_a_change_that_was_missed_while_the_stream_was_away_fires_once() {
    for (discover, gracefully) in [
        (Discover::Old, false),
        (Discover::Modern, true),
        (Discover::Modern, false),
    ] {
        let mut case = Case::armed(subscribing(discover)).await;
        let streams = |case: &Case| case.peer.count("GET") + case.peer.count("subscriptions/listen");
        let before = streams(&case);
        case.now("two");
        case.peer.hang_up();
        case.peer.end_listens(gracefully);
        assert_eq!(case.next().await, changed("two"), "{discover:?} {gracefully}");
        assert!(streams(&case) > before);
        // What a resumed stream repeats is of the change that was found already.
        case.say("a:1").await;
        case.change("three").await;
        assert_eq!(case.next().await, changed("three"), "{discover:?} {gracefully}");
        case.supervised.close().await;
    }
}

/// SSE: what was seen last is said when the stream is opened again.
#[tokio::test]
async fn m30_a_stream_is_resumed_with_the_last_event_id() {
    let mut case = Case::armed(subscribing(Discover::Old)).await;
    case.change("two").await;
    assert_eq!(case.next().await, changed("two"));
    case.peer.hang_up();
    let again = case.peer.seen_times("GET", 2).await;
    assert_eq!(again.header("last-event-id"), Some("n1"));
    assert_eq!(case.peer.seen("GET").await.header("last-event-id"), None);
    case.supervised.close().await;
}

/// M01: the session is gone; there is one new one, whoever finds out, and it is subscribed and read.
#[tokio::test]
async fn field_m01_a_session_that_is_lost_is_begun_anew_once_and_subscribed() {
    let mut case = Case::armed(subscribing(Discover::Old)).await;
    let connection = case.supervised.connection("s").unwrap();
    case.now("two");
    *case.peer.sessions() += 1000;
    let meta = agentd_mcp::CallMeta::default();
    let call = || connection.call("echo", Default::default(), &meta);
    let (one, two, three) = tokio::join!(call(), call(), call());
    for outcome in [one, two, three] {
        assert_eq!(outcome.unwrap().text, "hello");
    }
    assert_eq!(case.peer.count("initialize"), 2);
    assert_eq!(case.next().await, changed("two"));
    assert_eq!(case.peer.count("resources/subscribe"), 2);
    case.change("three").await;
    assert_eq!(case.next().await, changed("three"));
    case.supervised.close().await;
}

#[tokio::test]
async fn m30_a_watch_survives_a_restart_and_a_reload() {
    for discover in [Discover::Old, Discover::Modern] {
        let mut case = Case::armed(subscribing(discover)).await;
        let address = case.peer.address;
        let server = case.peer.server("s");
        case.peer = {
            drop(case.peer);
            let script = subscribing(discover);
            let peer = Peer::on(address, script).await;
            peer.script()
                .contents
                .insert("a:1", text("a:1", "after the restart"));
            peer
        };
        assert_eq!(case.next().await, changed("after the restart"), "{discover:?}");
        // Another entry: another connection.
        case.now("after the reload");
        let renamed = McpServer {
            ns: Some("x".into()),
            ..server.clone()
        };
        case.supervised.reload(&mcp(renamed));
        assert_eq!(case.next().await, changed("after the reload"), "{discover:?}");
        // Gone, and back.
        case.supervised.reload(&Mcp::default());
        assert!(case.supervised.connection("s").is_none());
        case.now("back");
        case.supervised.reload(&mcp(server));
        assert_eq!(case.next().await, changed("back"), "{discover:?}");
        case.supervised.close().await;
    }
}

/// What the consumer saw before the process was started again is where it goes on.
#[tokio::test]
async fn m30_what_was_known_is_compared_with_what_is_there() {
    let one = Digest::of(&[Content::Text {
        uri: "a:1".into(),
        mime_type: Some("text/plain".into()),
        text: "one".into(),
    }]);
    let mut case = Case::with(subscribing(Discover::Old), Some(one.clone()), None).await;
    case.peer.seen("resources/read").await;
    case.change("two").await;
    assert_eq!(case.next().await, changed("two"), "what was known is no change");
    let (again, mut got) = consumer(None);
    let _watch = case.supervised.watch("s", "a:1", again, Some(one));
    assert_eq!(got.recv().await.unwrap(), changed("two"));
    case.supervised.close().await;
}

#[tokio::test]
async fn m30_without_a_push_channel_the_content_is_there_for_who_asks() {
    let log = Log::start();
    let offered = json!({"resources": {"subscribe": true}});
    // No notification stream, in a session and without; one that fails for ever; no subscriptions at all.
    for (get, session, capabilities, subscribes) in [
        (Get::NotAllowed, true, offered.clone(), 1),
        (Get::NotAllowed, false, offered.clone(), 1),
        (Get::Broken, true, offered, 1),
        (Get::Held, true, json!({"resources": {}}), 0),
    ] {
        let before = log.of("mcp.watch.pull_only").len();
        let case = Case::armed(Script {
            get,
            session,
            capabilities,
            ..subscribing(Discover::Old)
        })
        .await;
        log.until("mcp.watch.pull_only", before + 1).await;
        assert_eq!(case.peer.count("resources/subscribe"), subscribes);
        assert_eq!(case.view.borrow().servers[0].state, ServerState::Connected);
        let connection = case.supervised.connection("s").unwrap();
        assert_eq!(
            connection.read("a:1", &Default::default()).await.unwrap().len(),
            1
        );
        case.supervised.close().await;
        assert_eq!(log.of("mcp.watch.pull_only").len(), before + 1);
    }
}

/// The channel was known to be none before anybody wanted to watch.
#[tokio::test]
async fn m30_a_watch_that_begins_later_is_pull_only_too() {
    let log = Log::start();
    for session in [true, false] {
        let before = log.of("mcp.watch.pull_only").len();
        let case = Case::armed(Script {
            get: Get::NotAllowed,
            session,
            ..subscribing(Discover::Old)
        })
        .await;
        log.until("mcp.watch.pull_only", before + 1).await;
        let (later, mut got) = consumer(None);
        let _watch = case.supervised.watch("s", "a:2", later, None);
        case.peer.script().contents.insert("a:2", text("a:2", "two"));
        case.peer.seen_times("resources/read", 2).await;
        log.until("mcp.watch.pull_only", before + 2).await;
        drop(got.try_recv());
        case.supervised.close().await;
    }
}

/// A server that gives no session has a stream of notifications too: it is opened, heard, opened again after a break, and
/// then told anew what is wanted, as nothing says that it still knows.
#[tokio::test]
async fn m30_a_server_without_sessions_is_heard_as_one_with_them() {
    let log = Log::start();
    let mut case = Case::armed(Script {
        session: false,
        ..subscribing(Discover::Old)
    })
    .await;
    case.change("two").await;
    assert_eq!(case.next().await, changed("two"));
    // It asks, and is answered.
    case.peer
        .push(&json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}));
    assert_eq!(case.peer.seen("answer").await.body["id"], 7);
    case.now("three");
    case.peer.hang_up();
    assert_eq!(case.next().await, changed("three"));
    case.peer.seen_times("resources/subscribe", 2).await;
    case.change("four").await;
    assert_eq!(case.next().await, changed("four"));
    case.supervised.close().await;
    let invented = |seen: &crate::peer::Seen| seen.header("mcp-session-id").map(str::to_owned);
    assert_eq!(case.peer.log().iter().find_map(invented), None);
    assert_eq!((case.peer.count("GET"), case.peer.count("DELETE")), (2, 0));
    assert_eq!(log.of("mcp.watch.pull_only"), Vec::<String>::new());
}
