//! Resources: listed, read, watched; with sessions by `resources/subscribe`, without by `subscriptions/listen`.

use agentd_base::report::ServerState;
use agentd_interop::peers::Peer;
use agentd_interop::tap::{Act, Tap, by_hand};
use agentd_interop::watcher::Watcher;
use agentd_interop::{boot, meta, server, soon};
use agentd_mcp::{Content, ReadError};
use serde_json::{Value, json};

use crate::{both_eras, everything, open, stateless};

fn text(contents: &[Content]) -> &str {
    match contents {
        [Content::Text { text, .. }] => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m26_text_blobs_and_what_is_not_there() {
    let old = Peer::old("1.12.4", &[]);
    for (port, uri, expected) in [
        (old.port, "note://one", "note one"),
        (old.port, "note://by/ada", "note ada"),
        (both_eras(), "state://by/ada", "ada"),
        (stateless(), "state://counter", "0"),
    ] {
        let connection = open(port, boot()).await;
        assert!(connection.offers_resources());
        let contents = connection.read(uri, &meta("k")).await.unwrap();
        assert_eq!(text(&contents), expected, "{uri}");
        let missing = connection.read("state://nowhere", &meta("k")).await.unwrap_err();
        let is_told = match &missing {
            ReadError::NotFound { uri } => uri == "state://nowhere",
            // Releases of before say it in words of their own.
            ReadError::Call(error) => {
                port == old.port && error.to_string().to_lowercase().contains("unknown resource")
            }
        };
        assert!(is_told, "{port}: {missing:?}");
        connection.close().await;
    }
    let connection = open(both_eras(), boot()).await;
    let contents = connection.read("state://image", &meta("k")).await.unwrap();
    let expected = [Content::Blob {
        uri: "state://image".into(),
        mime_type: Some("image/png".into()),
        base64: "iVBORw==".into(),
    }];
    assert_eq!(contents, expected);
    connection.close().await;
    let connection = open(everything(), boot()).await;
    let contents = connection
        .read("demo://resource/dynamic/blob/1", &meta("k"))
        .await
        .unwrap();
    assert!(
        matches!(contents.as_slice(), [Content::Blob { .. }]),
        "{contents:?}"
    );
    connection.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m27_templates_are_listed_beside_the_resources() {
    let old = Peer::old("1.12.4", &[]);
    for (port, resources, template) in [
        (old.port, vec!["note://one"], Some("note://by/{name}")),
        (
            both_eras(),
            vec!["state://counter", "state://image"],
            Some("state://by/{name}"),
        ),
        (stateless(), vec!["state://counter"], None),
    ] {
        let connection = open(port, boot()).await;
        let mut listed: Vec<String> = connection
            .resources()
            .await
            .unwrap()
            .into_iter()
            .map(|each| each.uri)
            .collect();
        listed.sort();
        assert_eq!(listed, resources);
        let templates = connection.resource_templates().await.unwrap();
        let templates: Vec<&str> = templates.iter().map(|each| each.uri_template.as_str()).collect();
        assert_eq!(templates, template.into_iter().collect::<Vec<_>>());
        connection.close().await;
    }
    let connection = open(everything(), boot()).await;
    assert!(connection.resources().await.unwrap().len() >= 5);
    assert!(connection.resource_templates().await.unwrap().len() >= 2);
    connection.close().await;
}

/// M28, M31, M37: subscribe, notification, read, on the session's GET stream.
#[tokio::test(flavor = "multi_thread")]
async fn m28_a_word_of_the_reference_server_is_followed_by_a_read() {
    let tap = Tap::in_front_of(everything()).await;
    let uri = "demo://resource/dynamic/text/1";
    let mut watcher = Watcher::start(server(tap.address.port()), uri);
    let first = watcher.armed().await;
    assert!(first.contains("Resource 1"), "{first}");
    let subscribed = tap.seen("resources/subscribe", 1).await;
    assert_eq!(subscribed.body["params"]["uri"], uri);
    tap.seen("GET", 1).await;
    // The server speaks of what this very session subscribed to, once it was told to: by hand, in that session.
    let session = subscribed.header("mcp-session-id").unwrap().to_owned();
    let headers = [
        ("mcp-session-id", session.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    let toggle = json!({ "jsonrpc": "2.0", "id": "by-hand", "method": "tools/call", "params": { "name": "toggle-subscriber-updates", "arguments": {} } });
    let reads = tap.count("resources/read");
    let told = by_hand(everything(), "POST", "/mcp", &headers, &toggle.to_string()).await;
    assert!(told.contains("Started simulated resource updated"), "{told}");
    let second = watcher.changed().await;
    assert!(second.contains("Resource 1"), "{second}");
    assert!(tap.count("resources/read") > reads);
    watcher.stop();
    assert_eq!(
        tap.seen("resources/unsubscribe", 1).await.body["params"]["uri"],
        uri
    );
    watcher.supervised.close().await;
}

/// M37: the stateless revision has `subscriptions/listen` in its place.
#[tokio::test(flavor = "multi_thread")]
async fn m37_a_stateless_server_is_listened_to() {
    let peer = Peer::stateless(&[]);
    let tap = Tap::in_front_of(peer.port).await;
    let mut watcher = Watcher::start(server(tap.address.port()), "state://counter");
    assert_eq!(watcher.armed().await, "0");
    tap.seen("subscriptions/listen", 1).await;
    assert_eq!(tap.count("resources/subscribe"), 0);
    for expected in ["1", "2"] {
        by_hand(peer.port, "GET", "/touch", &[], "").await;
        assert_eq!(watcher.changed().await, expected);
    }
    watcher.supervised.close().await;
}

/// M30: what changed while the server could not be reached is found out afterwards, once.
#[tokio::test(flavor = "multi_thread")]
async fn m30_a_change_that_was_missed_is_told_once() {
    let peer = Peer::stateless(&[]);
    let tap = Tap::in_front_of(peer.port).await;
    let mut watcher = Watcher::start(server(tap.address.port()), "state://counter");
    assert_eq!(watcher.armed().await, "0");
    by_hand(peer.port, "GET", "/touch", &[], "").await;
    assert_eq!(watcher.changed().await, "1");

    tap.rule(|_| Act::cut());
    tap.cut();
    for _ in 0..3 {
        by_hand(peer.port, "GET", "/touch", &[], "").await;
    }
    tap.rule(|_| Act::Pass);
    assert_eq!(watcher.changed().await, "4");
    // The next word is the next change: nothing was told twice.
    by_hand(peer.port, "GET", "/touch", &[], "").await;
    assert_eq!(watcher.changed().await, "5");
    assert!(watcher.is_quiet());
    watcher.supervised.close().await;
}

/// M30: a server without a push channel is read once, and that is no failure.
#[tokio::test(flavor = "multi_thread")]
async fn m30_without_a_push_channel_it_is_pull_only() {
    let old = Peer::old("1.12.4", &["stateless"]);
    for port in [both_eras(), old.port] {
        let tap = Tap::in_front_of(port).await;
        let uri = if port == old.port {
            "note://one"
        } else {
            "state://image"
        };
        let mut watcher = Watcher::start(server(tap.address.port()), uri);
        watcher.armed().await;
        assert_eq!(tap.count("resources/subscribe"), 0, "it was not offered");
        let mut view = watcher.supervised.view();
        let connected = view.wait_for(|view| view.servers[0].state == ServerState::Connected);
        soon("the connection", connected).await.unwrap();
        watcher.supervised.close().await;
    }
}

/// M16: what the handshake did not offer is not asked for.
#[tokio::test(flavor = "multi_thread")]
async fn m16_what_the_server_did_not_offer_is_not_asked_for() {
    for (port, subscribe) in [(everything(), true), (stateless(), true), (both_eras(), false)] {
        let connection = open(port, boot()).await;
        assert_eq!(connection.offers_subscribe(), subscribe);
        connection.close().await;
    }
}

/// The log of the server itself: what it was sent, not what we think we sent.
#[tokio::test(flavor = "multi_thread")]
async fn m37_every_request_of_the_stateless_revision_stands_for_itself() {
    let peer = Peer::stateless(&["modern-only"]);
    let connection = open(peer.port, boot()).await;
    connection.read("state://counter", &meta("k")).await.unwrap();
    connection.close().await;
    let log: Value = serde_json::from_str(&by_hand(peer.port, "GET", "/log", &[], "").await).unwrap();
    let log = log.as_array().unwrap();
    let read = log
        .iter()
        .find(|each| each["headers"]["mcp-method"] == "resources/read")
        .unwrap();
    assert_eq!(read["headers"]["mcp-name"], "state://counter");
    for each in log {
        assert_eq!(
            (&each["method"], &each["headers"]["mcp-protocol-version"]),
            (&json!("POST"), &json!("2026-07-28"))
        );
    }
}
