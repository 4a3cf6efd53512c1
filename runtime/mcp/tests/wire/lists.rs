//! Lists: every page, within bounds, only where they are offered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agentd_mcp::{Connection, Tool};
use serde_json::{Value, json};

use crate::peer::{Peer, boot, open};
use crate::script::{Script, tool};

fn pages(
    list: &[(&str, &[&str], Option<&'static str>)],
) -> BTreeMap<String, (Vec<Value>, Option<&'static str>)> {
    list.iter()
        .map(|(cursor, names, next)| {
            (
                (*cursor).to_owned(),
                (names.iter().map(|name| tool(name)).collect(), *next),
            )
        })
        .collect()
}

async fn names(connection: &Connection) -> Vec<String> {
    connection
        .tools()
        .await
        .unwrap()
        .into_iter()
        .map(|tool| tool.name)
        .collect()
}

#[tokio::test]
async fn m19_every_page_is_read_and_a_circle_ends() {
    let tools = pages(&[
        ("", &["a", "b"], Some("x y/é")),
        ("x y/é", &[], Some("2")),
        ("2", &["c"], None),
    ]);
    let peer = Peer::start(Script {
        tools,
        ..Script::default()
    })
    .await;
    let connection = peer.boot().await;
    assert_eq!(names(&connection).await, ["a", "b", "c"]);
    peer.script().tools = pages(&[
        ("", &["a"], Some("1")),
        ("1", &["b"], Some("2")),
        ("2", &["c"], Some("1")),
    ]);
    assert_eq!(names(&connection).await, ["a", "b", "c"]);
    peer.script().tools = pages(&[("", &["a"], Some(""))]);
    assert_eq!(names(&connection).await, ["a"]);
    connection.close().await;
}

#[tokio::test]
async fn a_list_that_breaks_off_or_hangs_is_a_failure() {
    let peer = Peer::start(Script {
        tools: pages(&[("", &["a"], Some("gone"))]),
        ..Script::default()
    })
    .await;
    let connection = open(&peer.hasty(Duration::from_millis(400)), boot()).await;
    assert_eq!(
        connection.tools().await.unwrap_err().message,
        "tools/list: error -32602: cursor"
    );
    connection.close().await;
}

#[tokio::test]
async fn m16_only_what_was_offered_is_asked_for() {
    let peer = Peer::start(Script {
        capabilities: json!({}),
        ..Script::default()
    })
    .await;
    let connection = peer.boot().await;
    assert!(connection.tools().await.unwrap().is_empty());
    assert_eq!(connection.resources().await.unwrap().len(), 0);
    assert_eq!(peer.count("tools/list") + peer.count("resources/list"), 0);
    connection.close().await;

    let peer = Peer::start(Script {
        capabilities: json!({"resources": {"subscribe": true}}),
        ..Script::default()
    })
    .await;
    let connection = peer.boot().await;
    assert_eq!(connection.resources().await.unwrap().len(), 2);
    assert_eq!(
        connection.info().capabilities,
        ["resources", "resources.subscribe"]
    );
    connection.close().await;
}

#[tokio::test]
async fn m23_a_digest_covers_the_definition_and_not_its_spelling() {
    let definition = |description: &str, schema: &str, annotations: &str| -> Value {
        let text = format!(
            r#"{{"name":"t","description":"{description}","inputSchema":{schema},"annotations":{annotations}}}"#
        );
        serde_json::from_str(&text).unwrap()
    };
    let schema = r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"}}}"#;
    let same = r#"{ "properties":{"b":{"type":"number"},"a":{"type":"string"}}, "type":"object" }"#;
    let other = r#"{"type":"object","properties":{"a":{"type":"string"}}}"#;
    let hint = r#"{"readOnlyHint":true}"#;
    let peer = Peer::start(Script::default()).await;
    let connection = peer.boot().await;
    let digest_of = async |value: Value| -> Tool {
        peer.script().tools = BTreeMap::from([(String::new(), (vec![value], None))]);
        connection.tools().await.unwrap().remove(0)
    };
    let plain = digest_of(definition("d", schema, hint)).await;
    assert_eq!(plain.digest, digest_of(definition("d", same, hint)).await.digest);
    let changed = [
        definition("another", schema, hint),
        definition("d", other, hint),
        definition("d", schema, r#"{"readOnlyHint":false}"#),
    ];
    let mut digests = BTreeSet::from([plain.digest]);
    for value in changed {
        digests.insert(digest_of(value).await.digest);
    }
    assert_eq!(digests.len(), 4);
    connection.close().await;
}

/// A server that sends pages for ever, each in time.
#[tokio::test]
async fn m33_a_list_as_a_whole_has_a_clock() {
    const CURSORS: [&str; 10] = ["", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let chain: Vec<_> = CURSORS
        .windows(2)
        .map(|pair| (pair[0], &["a"][..], Some(pair[1])))
        .collect();
    let peer = Peer::start(Script {
        tools: pages(&chain),
        page_wait: Duration::from_millis(200),
        ..Script::default()
    })
    .await;
    let connection = open(&peer.hasty(Duration::from_millis(300)), boot()).await;
    let error = connection.tools().await.unwrap_err();
    assert!(
        error.message.starts_with("tools/list took longer than 1.2s"),
        "{error}"
    );
    connection.close().await;
}

/// A server whose definitions are larger than anybody can use.
#[tokio::test]
async fn a_list_as_a_whole_has_a_size() {
    let large = |name: &str| json!({"name": name, "inputSchema": {"type": "object", "description": "x".repeat(3 << 20)}});
    let page = |names: [&str; 2]| names.map(large).to_vec();
    let long = Box::leak("c".repeat(5000).into_boxed_str());
    let peer = Peer::start(Script {
        tools: BTreeMap::from([
            (String::new(), (page(["a", "b"]), Some("1"))),
            ("1".to_owned(), (page(["c", "d"]), Some("2"))),
        ]),
        ..Script::default()
    })
    .await;
    let connection = peer.boot().await;
    assert_eq!(names(&connection).await, ["a", "b"]);
    assert_eq!(peer.count("tools/list"), 2);
    peer.script().tools = pages(&[("", &["a"], Some(long)), (long, &["b"], None)]);
    assert_eq!(
        names(&connection).await,
        ["a"],
        "a cursor of any length is not kept"
    );
    connection.close().await;
}
