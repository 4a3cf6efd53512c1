//! Resources: listed, read, never written into by what they hold.

use agentd_mcp::{CallError, Content, ReadError, Resource, ResourceTemplate};
use serde_json::json;

use crate::log::Log;
use crate::peer::{Peer, boot, meta, open};
use crate::script::{Discover, Script, text, tool};

fn offering() -> Script {
    Script {
        capabilities: json!({"resources": {}}),
        ..Script::default()
    }
}

#[tokio::test]
async fn m26_a_read_gives_every_part_as_text_or_base64() {
    let peer = Peer::start(offering()).await;
    let connection = peer.boot().await;
    let part = |uri: &str| Content::Text {
        uri: uri.into(),
        mime_type: Some("text/plain".into()),
        text: "one".into(),
    };
    assert_eq!(connection.read("a:1", &meta()).await.unwrap(), [part("a:1")]);
    let blob = json!({"uri": "a:3", "blob": "AAAA"});
    let both = json!({"result": {"contents": [text("a:1/x", "one"), blob]}});
    peer.script().first.push_back(both);
    let blob = Content::Blob {
        uri: "a:3".into(),
        mime_type: None,
        base64: "AAAA".into(),
    };
    assert_eq!(
        connection.read("a:1", &meta()).await.unwrap(),
        [part("a:1/x"), blob]
    );
    peer.script().first.push_back(json!({"result": {"contents": []}}));
    assert_eq!(connection.read("a:1", &meta()).await.unwrap(), []);
    connection.close().await;
}

/// A folder of very many files is no reason to hold them all.
#[tokio::test]
async fn m26_a_read_of_very_many_parts_is_cut_and_says_so() {
    let peer = Peer::start(offering()).await;
    let connection = peer.boot().await;
    let parts = |count: usize| vec![text("a:1/x", "one"); count];
    for (count, kept, last) in [
        (1_000, 1_000, "one"),
        (50_000, 1_001, "[49000 more parts, not shown]"),
    ] {
        let read = json!({"result": {"contents": parts(count)}});
        peer.script().first.push_back(read);
        let contents = connection.read("a:1", &meta()).await.unwrap();
        assert_eq!(contents.len(), kept);
        let Some(Content::Text { text, .. }) = contents.last() else {
            panic!("{:?}", contents.last());
        };
        assert_eq!(text, last);
    }
    connection.close().await;
}

/// What nobody sees, and what turns the order of what is seen, stands in no name, no address and no description.
#[tokio::test]
async fn m25_what_is_not_seen_is_not_there() {
    const UNSEEN: [char; 7] = [
        '\u{202e}',
        '\u{2066}',
        '\u{200b}',
        '\u{200d}',
        '\u{feff}',
        '\u{e0041}',
        '\u{ad}',
    ];
    let peer = Peer::start(Script {
        capabilities: json!({"resources": {}, "tools": {}}),
        instructions: Some(format!("do{}this", UNSEEN[0])),
        ..Script::default()
    })
    .await;
    for c in UNSEEN {
        let said = format!("a{c}b");
        let mut named = tool("good");
        named["description"] = said.clone().into();
        named["inputSchema"] = json!({"type": "object", "description": said,
            "properties": {"x": {"type": "string", "title": said, "enum": [said]}}});
        peer.script().tools = [(String::new(), (vec![named, tool(&said)], None))].into();
        let line = |uri: &str| json!({"uri": uri, "name": said, "title": said, "description": said, "mimeType": said});
        peer.script().resources = vec![line("a:1"), line(&format!("a:{c}2"))];
        peer.script().templates = vec![json!({"uriTemplate": format!("a:{c}{{x}}"), "name": said})];
        let connection = peer.boot().await;
        assert_eq!(connection.instructions(), Some("dothis"));
        let listed = connection.resources().await.unwrap();
        let plain = || Some("ab".to_owned());
        assert_eq!(
            listed,
            [Resource {
                uri: "a:1".into(),
                name: "ab".into(),
                title: plain(),
                description: plain(),
                mime_type: plain(),
                size: None,
            }]
        );
        assert_eq!(connection.resource_templates().await.unwrap(), []);
        let tools = connection.tools().await.unwrap();
        assert_eq!(tools[0].description, plain());
        assert_eq!(
            json!(tools[0].input_schema),
            json!({"type": "object", "description": "ab",
                "properties": {"x": {"type": "string", "title": "ab", "enum": [said]}}}),
            "what is sent back stays as it is"
        );
        let server = peer.server("s");
        let catalogue = agentd_mcp::Catalogue::build([(&server, tools.as_slice())]);
        let names: Vec<_> = catalogue
            .entries()
            .iter()
            .map(|entry| entry.qualified.as_str())
            .collect();
        assert_eq!(names, ["good"]);
        connection.close().await;
    }
}

/// Both ways in which servers say it are the same observation; anything else is a failure of the call.
#[tokio::test]
async fn m26_what_is_not_there_is_an_observation() {
    let peer = Peer::start(offering()).await;
    let connection = peer.boot().await;
    let missing = ReadError::NotFound { uri: "a:9".into() };
    assert_eq!(connection.read("a:9", &meta()).await.unwrap_err(), missing);
    let error = |code: i32| json!({"error": {"code": code, "message": "no"}});
    peer.script().first.push_back(error(-32602));
    assert_eq!(connection.read("a:9", &meta()).await.unwrap_err(), missing);
    peer.script().first.push_back(error(-32603));
    assert_eq!(
        connection.read("a:9", &meta()).await.unwrap_err(),
        ReadError::Call(CallError::Protocol {
            code: -32603,
            message: "no".into()
        })
    );
    connection.close().await;
}

#[tokio::test]
async fn m20_a_read_carries_the_same_meta_as_a_call() {
    for discover in [Discover::Old, Discover::Modern] {
        let peer = Peer::start(Script {
            discover,
            ..offering()
        })
        .await;
        let connection = peer.boot().await;
        connection.read("a:1", &meta()).await.unwrap();
        let seen = peer.seen("resources/read").await;
        let sent = &seen.body["params"]["_meta"];
        assert_eq!(sent["agent/run_id"], "run-1");
        assert_eq!(sent["agent/instance"], "agent-0");
        assert_eq!(sent["agent/idempotency_key"], "key-1");
        assert_eq!(sent["traceparent"], meta().traceparent.unwrap());
        assert_eq!(seen.body["params"]["uri"], "a:1");
        let modern = discover == Discover::Modern;
        assert_eq!(seen.header("mcp-name"), modern.then_some("a:1"));
        assert_eq!(seen.header("mcp-method"), modern.then_some("resources/read"));
        connection.close().await;
    }
}

#[tokio::test]
async fn m25_resources_are_listed_cut_and_cleaned() {
    let peer = Peer::start(offering()).await;
    let long = "x".repeat(3000);
    peer.script().resources = vec![
        json!({"uri": "a:1", "name": "one\u{7}", "title": "One", "description": "first\u{1b}\nline", "mimeType": "text/plain", "size": 7}),
        json!({"uri": format!("a:{long}"), "name": "too long to be asked for"}),
        json!({"uri": "a:\n2", "name": "no address"}),
        json!({"uri": "a:3", "name": long}),
    ];
    let connection = peer.boot().await;
    let listed = connection.resources().await.unwrap();
    assert_eq!(
        listed[0],
        Resource {
            uri: "a:1".into(),
            name: "one ".into(),
            title: Some("One".into()),
            description: Some("first\nline".into()),
            mime_type: Some("text/plain".into()),
            size: Some(7),
        }
    );
    assert_eq!(listed.len(), 2);
    assert_eq!(
        (listed[1].uri.as_str(), listed[1].name.chars().count()),
        ("a:3", 128)
    );
    peer.script().resources = (0..2_500)
        .map(|n| json!({"uri": format!("a:{n}"), "name": "r"}))
        .collect();
    assert_eq!(connection.resources().await.unwrap().len(), 2_000);
    connection.close().await;
}

/// Templates are a list and nothing else: no request of ours ever carries one.
#[tokio::test]
async fn m27_templates_are_for_information() {
    let peer = Peer::start(offering()).await;
    peer.script().templates = vec![
        json!({"uriTemplate": "a:{id}", "name": "any", "title": "Any", "mimeType": "text/plain"}),
        json!({"name": "no address"}),
    ];
    let connection = peer.boot().await;
    assert_eq!(
        connection.resource_templates().await.unwrap(),
        [ResourceTemplate {
            uri_template: "a:{id}".into(),
            name: "any".into(),
            title: Some("Any".into()),
            mime_type: Some("text/plain".into()),
        }]
    );
    connection.close().await;
    assert_eq!(
        peer.count("resources/subscribe") + peer.count("resources/read"),
        0
    );
}

#[tokio::test]
async fn m16_nothing_is_asked_of_a_server_that_did_not_offer_it() {
    let peer = Peer::start(Script {
        capabilities: json!({}),
        ..Script::default()
    })
    .await;
    let connection = peer.boot().await;
    assert!(connection.resource_templates().await.unwrap().is_empty());
    assert_eq!(
        connection.read("a:1", &meta()).await.unwrap_err(),
        ReadError::Call(CallError::NotOffered("resources"))
    );
    assert_eq!(
        connection
            .call("echo", Default::default(), &meta())
            .await
            .unwrap_err(),
        CallError::NotOffered("tools")
    );
    assert!(!connection.offers_resources() && !connection.offers_subscribe());
    connection.close().await;
    let asked = |what: &str| what.starts_with("resources/") || what.starts_with("tools/");
    assert!(
        !peer.methods().iter().any(|what| asked(what)),
        "{:?}",
        peer.methods()
    );
}

/// The whole server used to go with one tool that has no schema.
#[tokio::test]
async fn m19_an_entry_that_is_none_is_left_out_and_named() {
    let log = Log::start();
    for discover in [Discover::Old, Discover::Modern] {
        let peer = Peer::start(Script {
            discover,
            capabilities: json!({"tools": {}, "resources": {}}),
            ..Script::default()
        })
        .await;
        let tools = vec![json!({"name": "bad"}), tool("good"), json!(7)];
        peer.script().tools = [(String::new(), (tools, None))].into();
        peer.script().resources = vec![json!({"uri": "a:9"}), json!({"uri": "a:1", "name": "one"})];
        let connection = peer.boot().await;
        let names: Vec<_> = connection
            .tools()
            .await
            .unwrap()
            .into_iter()
            .map(|tool| tool.name)
            .collect();
        assert_eq!(names, ["good"]);
        assert_eq!(connection.resources().await.unwrap().len(), 1);
        connection.close().await;
    }
    let named = |name: &str| {
        log.of("mcp.spec.invalid")
            .iter()
            .filter(|line| line.contains(&format!(" name={name} ")))
            .count()
    };
    assert_eq!((named("bad"), named("a:9"), named("good")), (2, 2, 0));
}

#[tokio::test]
async fn m34_a_ping_is_a_round_trip_in_both_eras() {
    for (discover, what) in [(Discover::Old, "ping"), (Discover::Modern, "server/discover")] {
        let peer = Peer::start(Script {
            discover,
            ..offering()
        })
        .await;
        let connection = open(&peer.server("s"), boot()).await;
        let before = peer.count(what);
        connection.ping().await.unwrap();
        assert_eq!(peer.count(what), before + 1);
        peer.script().status = Some((axum::http::StatusCode::BAD_GATEWAY, None, ""));
        assert!(matches!(connection.ping().await, Err(CallError::Unavailable(_))));
        connection.close().await;
    }
}
