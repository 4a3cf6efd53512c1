//! What a server asks of us: a ping is answered, what was declared is handled, everything else is dropped unanswered.

use agentd_mcp::{CallMeta, Connection, Era, Kind};
use serde_json::{Map, Value, json};

use crate::peer::{Peer, boot, open};
use crate::script::{Get, Script};

fn request(id: Value, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {
        "message": "name?", "requestedSchema": {"type": "object", "properties": {}},
        "messages": [], "maxTokens": 5,
    }})
}

fn unwanted() -> Vec<Value> {
    vec![
        request(json!(101), "roots/list"),
        request(json!("102"), "sampling/createMessage"),
        request(json!(103), "elicitation/create"),
        request(json!(104), "tasks/get"),
        json!({"jsonrpc": "2.0", "id": 105, "method": "ping"}),
    ]
}

async fn answers(peer: &Peer, connection: &Connection) -> Vec<Value> {
    assert_eq!(
        connection
            .call("echo", Map::new(), &CallMeta::default())
            .await
            .unwrap()
            .text,
        "hello"
    );
    // The call's answer came after the ping's, so whatever was to be answered before it has been.
    peer.log()
        .into_iter()
        .filter(|seen| seen.what() == "answer")
        .map(|seen| seen.body)
        .collect()
}

#[tokio::test]
async fn field_m17_a_boot_connection_answers_pings_alone() {
    let peer = Peer::start(Script {
        before_answer: unwanted(),
        ..Script::default()
    })
    .await;
    let connection = open(&peer.server("s"), boot()).await;
    assert_eq!(
        answers(&peer, &connection).await,
        [json!({"jsonrpc": "2.0", "id": 105, "result": {}})]
    );
    connection.close().await;
}

#[tokio::test]
async fn m13_a_worker_cancels_an_elicitation_that_nobody_can_answer() {
    let mut before_answer = unwanted();
    // A second ping: the scripted server waits for as many answers as it sent pings.
    before_answer.push(json!({"jsonrpc": "2.0", "id": 106, "method": "ping"}));
    before_answer.push(json!({"jsonrpc": "2.0", "id": 107, "method": "ping"}));
    let peer = Peer::start(Script {
        before_answer,
        ..Script::default()
    })
    .await;
    let connection = open(
        &peer.server("s"),
        Kind::Worker {
            era: Some(Era::Legacy),
        },
    )
    .await;
    answers(&peer, &connection).await;
    peer.seen_times("answer", 4).await;
    let mut ids: Vec<_> = peer
        .log()
        .iter()
        .filter(|seen| seen.what() == "answer")
        .map(|seen| seen.body["id"].clone())
        .collect();
    ids.sort_by_key(Value::as_u64);
    assert_eq!(ids, [103, 105, 106, 107]);
    let elicited = peer
        .log()
        .into_iter()
        .find(|seen| seen.body["id"] == 103)
        .unwrap();
    assert_eq!(elicited.body["result"], json!({"action": "cancel"}));
    connection.close().await;
}

#[tokio::test]
async fn m14_the_notification_stream_is_screened_too() {
    let peer = Peer::start(Script {
        get: Get::Held,
        ..Script::default()
    })
    .await;
    let connection = open(&peer.server("s"), boot()).await;
    peer.seen("GET").await;
    for message in unwanted() {
        peer.push(&message);
    }
    peer.push(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let answer = peer.seen("answer").await;
    assert_eq!(answer.body, json!({"jsonrpc": "2.0", "id": 105, "result": {}}));
    assert_eq!(connection.tools().await.unwrap().len(), 1);
    assert_eq!(peer.count("answer"), 1);
    connection.close().await;
}
