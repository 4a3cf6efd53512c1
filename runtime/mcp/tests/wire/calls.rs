//! Calls: what goes with them, what comes back, and what an error is.

use std::time::Duration;

use agentd_base::class::{Class, Classified as _};
use agentd_mcp::{CallError, Connection, ToolOutcome};
use serde_json::{Map, Value, json};

use crate::peer::{Peer, boot, meta, open};
use crate::script::Script;

fn arguments(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

async fn call(connection: &Connection) -> Result<ToolOutcome, CallError> {
    connection.call("echo", Map::new(), &meta()).await
}

#[tokio::test]
async fn m20_the_run_the_instance_and_the_trace_go_in_params_meta() {
    let peer = Peer::start(Script::default()).await;
    let connection = peer.boot().await;
    let outcome = connection
        .call("echo", arguments(json!({"text": "hi"})), &meta())
        .await
        .unwrap();
    assert_eq!(
        outcome,
        ToolOutcome {
            text: "hello".into(),
            is_error: false,
            structured: None,
            links: Vec::new(),
        }
    );
    let seen = peer.seen("tools/call").await;
    let mut params = seen.body["params"].clone();
    let mut sent = params["_meta"].take();
    sent.as_object_mut().unwrap().remove("progressToken");
    assert_eq!(
        sent,
        json!({
            "agent/run_id": "run-1",
            "agent/instance": "agent-0",
            "agent/idempotency_key": "key-1",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        })
    );
    assert_eq!(params["name"], "echo");
    assert_eq!(params["arguments"], json!({"text": "hi"}));
    connection.close().await;
}

#[tokio::test]
async fn m21_a_tool_that_failed_is_an_outcome_and_an_error_of_the_protocol_is_not() {
    let failed =
        json!({"result": {"content": [{"type": "text", "text": "file not found"}], "isError": true}});
    let peer = Peer::start(Script {
        call: failed,
        ..Script::default()
    })
    .await;
    let connection = peer.boot().await;
    let outcome = call(&connection).await.unwrap();
    assert_eq!(
        outcome,
        ToolOutcome {
            text: "file not found".into(),
            is_error: true,
            structured: None,
            links: Vec::new(),
        }
    );
    peer.script().call = json!({"error": {"code": -32602, "message": "no such tool\u{1b}[31m"}});
    let error = call(&connection).await.unwrap_err();
    assert_eq!(
        error,
        CallError::Protocol {
            code: -32602,
            message: "no such tool [31m".into()
        }
    );
    assert_eq!(error.class(), Class::Invalid);
    peer.script().call = json!({"result": {"nonsense": 1}});
    let error = call(&connection).await.unwrap_err();
    assert_eq!(
        error,
        CallError::Unavailable("the server's answer does not fit the question".into())
    );
    connection.close().await;
}

#[tokio::test]
async fn every_kind_of_content_becomes_text() {
    let content = json!([
        {"type": "text", "text": "one\ttwo\u{0}\nthree"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "AAAAAAAA", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "body"}},
        {"type": "resource", "resource": {"uri": "file:///c", "blob": "AAAA", "mimeType": "x/y"}},
    ]);
    let peer = Peer::start(Script {
        call: json!({"result": {"content": content}}),
        ..Script::default()
    })
    .await;
    let connection = peer.boot().await;
    let outcome = call(&connection).await.unwrap();
    assert_eq!(outcome.links, ["file:///a"]);
    assert_eq!(
        outcome.text,
        "one\ttwo\nthree\n[image, image/png, 3 bytes, not shown]\n[audio, audio/wav, 6 bytes, not shown]\n\
         [resource file:///a: a]\n[resource file:///b]\nbody\n[resource file:///c]\n[data, x/y, 3 bytes, not shown]"
    );
    let long = "x".repeat(256 * 1024 + 5);
    peer.script().call = json!({"result": {"content": [{"type": "text", "text": long}]}});
    assert!(
        call(&connection)
            .await
            .unwrap()
            .text
            .ends_with("x\n[5 characters cut]")
    );
    connection.close().await;
}

#[tokio::test]
async fn m22_structured_content_counts_from_the_revision_that_has_it() {
    let result = json!({"result": {"content": [], "structuredContent": {"temperature": 22.5}}});
    for (version, structured) in [("2025-11-25", true), ("2025-06-18", true), ("2025-03-26", false)] {
        let peer = Peer::start(Script {
            version,
            call: result.clone(),
            ..Script::default()
        })
        .await;
        let connection = peer.boot().await;
        let outcome = call(&connection).await.unwrap();
        assert_eq!(
            outcome.structured,
            structured.then(|| json!({"temperature": 22.5})),
            "{version}"
        );
        assert_eq!(
            outcome.text,
            if structured { r#"{"temperature":22.5}"# } else { "" },
            "{version}"
        );
        connection.close().await;
    }
}

#[tokio::test]
async fn m34_a_call_that_takes_too_long_is_cancelled_at_the_server_and_harms_no_other() {
    let peer = Peer::start(Script {
        call: Value::Null,
        ..Script::default()
    })
    .await;
    let limit = Duration::from_millis(200);
    let connection = open(&peer.hasty(limit), boot()).await;
    let error = call(&connection).await.unwrap_err();
    assert_eq!(error, CallError::Timeout(limit));
    assert_eq!(error.class(), Class::Unavailable);
    let cancelled = peer.seen("notifications/cancelled").await;
    assert_eq!(
        cancelled.body["params"]["requestId"],
        peer.seen("tools/call").await.body["id"]
    );
    peer.script().call = Script::default().call;
    assert_eq!(call(&connection).await.unwrap().text, "hello");
    connection.close().await;
}

#[tokio::test]
async fn calls_run_at_the_same_time() {
    // Each stream answers only after the ping of the other call was answered too: two in a row would never end.
    let ping = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let before_answer = vec![ping(1), ping(2)];
    let peer = Peer::start(Script {
        before_answer,
        ..Script::default()
    })
    .await;
    let connection = peer.boot().await;
    let (one, two) = tokio::join!(call(&connection), call(&connection));
    assert_eq!(
        (one.unwrap().text, two.unwrap().text),
        ("hello".into(), "hello".into())
    );
    connection.close().await;
}

#[tokio::test]
async fn an_answer_without_end_is_refused() {
    let long = "x".repeat(17 * 1024 * 1024);
    let call_result = json!({"result": {"content": [{"type": "text", "text": long}]}});
    let peer = Peer::start(Script {
        call: call_result,
        ..Script::default()
    })
    .await;
    let connection = peer.boot().await;
    let error = call(&connection).await.unwrap_err().to_string();
    assert!(error.contains("sent more than 16777216 bytes of body"), "{error}");
    connection.close().await;
}
