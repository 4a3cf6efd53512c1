//! Lists: every page, within bounds, only where they are offered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agentd_mcp::{Connection, Tool};
use serde_json::{Value, json};

use crate::peer::{Peer, Script, boot, open, tool};

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
async fn every_page_is_read_and_a_circle_ends() {
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
async fn only_what_was_offered_is_asked_for() {
    let peer = Peer::start(Script {
        capabilities: json!({}),
        ..Script::default()
    })
    .await;
    let connection = peer.boot().await;
    assert!(connection.tools().await.unwrap().is_empty());
    assert_eq!(connection.resource_count().await.unwrap(), 0);
    assert_eq!(peer.count("tools/list") + peer.count("resources/list"), 0);
    connection.close().await;

    let peer = Peer::start(Script {
        capabilities: json!({"resources": {"subscribe": true}}),
        ..Script::default()
    })
    .await;
    let connection = peer.boot().await;
    assert_eq!(connection.resource_count().await.unwrap(), 2);
    assert_eq!(
        connection.info().capabilities,
        ["resources", "resources.subscribe"]
    );
    connection.close().await;
}

#[tokio::test]
async fn a_digest_covers_the_definition_and_not_its_spelling() {
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
