//! The notification stream, and sessions that end: what is broken comes back by itself, slower each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agentd_base::report::ServerState;
use agentd_interop::sane::sane;
use agentd_interop::tap::{Act, Asked, Tap, event, event_head};
use agentd_interop::watcher::Watcher;
use agentd_interop::{server, soon, worker};
use futures::future::join_all;
use serde_json::json;

use crate::{bounded, but, echo, impatient, open};

fn updated(uri: &str) -> String {
    event(&json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri } }))
}

/// The text of `note://one` is this number.
fn note(asked: &Asked, number: usize) -> Act {
    let uri = &asked.body["params"]["uri"];
    let text = number.to_string();
    Act::json(&asked.result(&json!({ "contents": [{ "uri": uri, "mimeType": "text/plain", "text": text }] })))
}

/// M28: the notification carries nothing; what is told is what is read after it.
#[tokio::test(flavor = "multi_thread")]
async fn m28_each_word_is_followed_by_a_read_of_what_is_there_now() {
    let number = Arc::new(AtomicUsize::default());
    let now = number.clone();
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<String>();
    let receiver = Arc::new(std::sync::Mutex::new(Some(receiver)));
    let tap = Tap::server(move |asked| match asked.what().as_str() {
        "GET" => match receiver.lock().unwrap().take() {
            Some(receiver) => {
                let said = futures::stream::unfold(receiver, |mut receiver| async {
                    receiver.recv().await.map(|event| (event.into_bytes(), receiver))
                });
                let head = futures::stream::iter([event_head("")]);
                Act::Bytes(Box::pin(futures::StreamExt::chain(head, said)))
            }
            None => Act::status(405),
        },
        "resources/read" => note(asked, now.load(Ordering::SeqCst)),
        _ => sane(asked),
    })
    .await;
    let mut watcher = Watcher::start(server(tap.address.port()), "note://one");
    assert_eq!(watcher.armed().await, "0");
    tap.seen("GET", 1).await;
    for expected in 1..=5 {
        number.store(expected, Ordering::SeqCst);
        sender.send(updated("note://one")).unwrap();
        assert_eq!(watcher.changed().await, expected.to_string());
    }
    // Of another resource, of the whole list, and what is no JSON: nobody is told.
    for other in [updated("note://two"), "data:\n\n".into(), "data: {\n\n".into()] {
        sender.send(other).unwrap();
    }
    number.store(6, Ordering::SeqCst);
    sender.send(updated("note://one")).unwrap();
    assert_eq!(watcher.changed().await, "6");
    assert!(watcher.is_quiet());
    watcher.supervised.close().await;
}

/// M31: an item, the set of resources and the set of tools each have a word of their own, and each wakes its own.
#[tokio::test(flavor = "multi_thread")]
async fn m31_three_words_for_three_changes() {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<&str>();
    let receiver = Arc::new(std::sync::Mutex::new(Some(receiver)));
    let tap = Tap::server(move |asked| match asked.what().as_str() {
        "GET" => match receiver.lock().unwrap().take() {
            Some(receiver) => {
                let said = futures::stream::unfold(receiver, |mut receiver| async {
                    let method = receiver.recv().await?;
                    let params = json!({ "uri": "note://one" });
                    let notice = json!({ "jsonrpc": "2.0", "method": method, "params": params });
                    Some((event(&notice).into_bytes(), receiver))
                });
                let head = futures::stream::iter([event_head("")]);
                Act::Bytes(Box::pin(futures::StreamExt::chain(head, said)))
            }
            None => Act::status(405),
        },
        _ => sane(asked),
    })
    .await;
    let connection = open(&server(tap.address.port()), worker()).await.unwrap();
    tap.seen("GET", 1).await;
    let (mut tools, mut resources) = (connection.tools_changed(), connection.resources_changed());
    sender.send("notifications/resources/updated").unwrap();
    sender.send("notifications/tools/list_changed").unwrap();
    soon("the tools", tools.changed()).await.unwrap();
    assert!(
        !resources.has_changed().unwrap(),
        "an item is not the set of them"
    );
    sender.send("notifications/resources/list_changed").unwrap();
    soon("the resources", resources.changed()).await.unwrap();
    assert!(!tools.has_changed().unwrap());
    assert_eq!((*tools.borrow(), *resources.borrow()), (1, 1));
    connection.close().await;
}

/// M30: a stream that breaks off again and again is opened again, with pauses and `Last-Event-ID`, and the resource is
/// read after each time.
#[tokio::test(flavor = "multi_thread")]
async fn m30_a_stream_that_breaks_off_is_opened_again_with_the_last_event() {
    let number = Arc::new(AtomicUsize::default());
    let now = number.clone();
    let tap = Tap::server(move |asked| match asked.what().as_str() {
        // A word, then the end.
        "GET" => {
            let number = now.fetch_add(1, Ordering::SeqCst) + 1;
            Act::events(&[format!("id: event-{number}\n{}", updated("note://one"))])
        }
        "resources/read" => note(asked, now.load(Ordering::SeqCst)),
        _ => sane(asked),
    })
    .await;
    let mut watcher = Watcher::start(server(tap.address.port()), "note://one");
    watcher.armed().await;
    let again = tap.seen("GET", 2).await;
    assert_eq!(again.header("last-event-id"), Some("event-1"));
    watcher.changed().await;
    tap.seen("GET", 3).await;
    watcher.changed().await;
    watcher.supervised.close().await;
}

/// A stream of words that nobody waits for takes no core of its own, and calls go on.
#[tokio::test(flavor = "multi_thread")]
async fn m24_a_flood_of_announcements_does_not_hold_calls_up() {
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let flood: Vec<u8> = event(&notice).into_bytes().repeat(100);
    let tap = Tap::server(but("GET", move |_| {
        Act::repeated(event_head(""), flood.clone(), None)
    }))
    .await;
    let connection = open(&impatient(&tap), worker()).await.unwrap();
    tap.seen("GET", 1).await;
    for _ in 0..10 {
        assert_eq!(
            bounded("a call", echo(&connection, "x")).await.unwrap().text,
            "echo: x"
        );
    }
    connection.close().await;
}

/// Field case M01 with a server that says 404: one new session for eight calls, and none of them twice in it.
#[tokio::test(flavor = "multi_thread")]
async fn field_m01_a_session_that_expired_is_begun_again_once() {
    let expired = Arc::new(AtomicBool::default());
    let gone = expired.clone();
    let sessions = Arc::new(AtomicUsize::default());
    let tap = Tap::server(move |asked| {
        let current = format!("session-{}", sessions.load(Ordering::SeqCst));
        match (asked.what().as_str(), asked.header("mcp-session-id")) {
            ("initialize", None) => {
                let number = sessions.fetch_add(1, Ordering::SeqCst) + 1;
                let Act::Answer { status, body, .. } = sane(asked) else {
                    unreachable!()
                };
                let headers = vec![
                    ("content-type", "application/json".into()),
                    ("mcp-session-id", format!("session-{number}")),
                ];
                Act::Answer {
                    status,
                    headers,
                    body,
                }
            }
            (_, Some(id)) if id != current || (gone.load(Ordering::SeqCst) && id == "session-1") => {
                Act::status(404)
            }
            _ => sane(asked),
        }
    })
    .await;
    let connection = open(&server(tap.address.port()), worker()).await.unwrap();
    echo(&connection, "before").await.unwrap();
    expired.store(true, Ordering::SeqCst);
    let texts: Vec<String> = (0..8).map(|number| number.to_string()).collect();
    let calls = texts.iter().map(|text| echo(&connection, text));
    for (text, result) in texts.iter().zip(soon("the calls", join_all(calls)).await) {
        if let Ok(outcome) = result {
            assert_eq!(outcome.text, format!("echo: {text}"));
        }
    }
    assert_eq!(echo(&connection, "after").await.unwrap().text, "echo: after");
    assert_eq!(tap.count("initialize"), 2, "one new session");
    let log = tap.log();
    for text in &texts {
        let carried_out = log.iter().filter(|asked| {
            asked.header("mcp-session-id") == Some("session-2")
                && asked.body["params"]["arguments"]["text"].as_str() == Some(text.as_str())
        });
        assert!(carried_out.count() <= 1, "{text} was carried out twice");
    }
    connection.close().await;
}

/// The server goes away in every way and comes back; the view follows, and the watch is armed again.
#[tokio::test(flavor = "multi_thread")]
async fn m30_a_server_that_was_away_is_taken_back_and_watched_again() {
    let tap = Tap::server(sane).await;
    let mut watcher = Watcher::start(server(tap.address.port()), "note://one");
    watcher.armed().await;
    let mut view = watcher.supervised.view();
    for away in [
        (|_| Act::cut()) as fn(&_) -> Act,
        |_| Act::status(503),
        |_| Act::text(200, "text/html", "<html></html>"),
    ] {
        let subscribed = tap.count("resources/subscribe");
        tap.rule(away);
        tap.cut();
        // Noticed at the next use where there is no stream.
        watcher.supervised.check("peer");
        let failed = view.wait_for(|view| view.servers[0].state == ServerState::Failed);
        soon("the loss", failed).await.unwrap();
        tap.rule(sane);
        let back = view.wait_for(|view| view.servers[0].state == ServerState::Connected);
        soon("the return", back).await.unwrap();
        tap.seen("resources/subscribe", subscribed + 1).await;
    }
    assert!(watcher.is_quiet(), "nothing changed");
    watcher.supervised.close().await;
}
