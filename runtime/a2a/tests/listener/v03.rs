//! Callers of 0.3, who name no version.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::support::*;

fn before(method: &str, params: Value) -> Request<Full<Bytes>> {
    let mut request = rpc("/", method, params);
    request.headers_mut().remove("a2a-version");
    request
}

fn said(text: &str) -> Value {
    json!({ "message": { "kind": "message", "messageId": "m-1", "role": "user", "parts": [{ "kind": "text", "text": text }] } })
}

#[tokio::test]
async fn a_message_is_answered_with_a_task_of_0_3() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let sent = alice.send(before("message/send", said("echo hi"))).await.unwrap();
    let task = sent.json()["result"].clone();
    let part = json!({ "kind": "text", "text": "hi" });
    assert_eq!((&task["kind"], &task["id"]), (&json!("task"), &json!("task-0")));
    assert_eq!(task["status"]["state"], "completed");
    assert_eq!(task["artifacts"][0]["parts"], json!([part]));
    assert_eq!(task["history"][0]["role"], "user");
    assert_eq!(task["history"][1]["kind"], "message");
    let asked = json!({ "id": "task-0" });
    let mut named = before("tasks/get", asked.clone());
    named
        .headers_mut()
        .insert("a2a-version", "0.3.0".parse().unwrap());
    assert_eq!(alice.send(named).await.unwrap().json()["result"], task);
    // It is the same task in 1.0.
    let newer = alice.call("GetTask", asked).await.json();
    assert_eq!(newer["result"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn a_stream_of_0_3_ends_with_the_event_that_says_so() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let streamed = before("message/stream", said("watched hi"));
    let events = Events::of(alice.open(streamed).await.unwrap()).all().await;
    let results: Vec<&Value> = events.iter().map(|event| &event["result"]).collect();
    let kinds: Vec<&Value> = results.iter().map(|result| &result["kind"]).collect();
    assert_eq!(
        kinds,
        ["task", "artifact-update", "artifact-update", "status-update"]
    );
    assert_eq!(results[2]["append"], true);
    let last = results[3];
    assert_eq!(
        (&last["status"]["state"], &last["final"]),
        (&json!("completed"), &json!(true))
    );
    let again = alice
        .send(before("tasks/resubscribe", json!({ "id": "task-0" })))
        .await;
    assert_eq!(again.unwrap().error_code(), -32004);
}

#[tokio::test]
async fn whoever_reads_events_alone_is_told_of_a_fault_by_one() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    for (method, params, code) in [
        ("tasks/resubscribe", json!({ "id": "x" }), -32001),
        ("message/stream", json!({}), -32602),
        ("message/stream", said("away"), -32603),
        ("x", json!({}), -32601),
    ] {
        let mut request = before(method, params.clone());
        let accept = "text/event-stream".parse().unwrap();
        request.headers_mut().insert("accept", accept);
        let events = Events::of(alice.open(request).await.unwrap()).all().await;
        let told: Vec<&Value> = events.iter().map(|event| &event["error"]["code"]).collect();
        assert_eq!(told, [&json!(code)], "{method}");
        // Others read JSON, and so do all of 1.0.
        for accept in ["*/*", "application/json, text/event-stream"] {
            let mut request = before(method, params.clone());
            request.headers_mut().insert("accept", accept.parse().unwrap());
            let answer = alice.send(request).await.unwrap();
            assert_eq!(answer.header("content-type"), "application/json");
            assert_eq!(answer.error_code(), code);
        }
    }
    let mut newer = rpc("/", "SubscribeToTask", json!({ "id": "x" }));
    newer
        .headers_mut()
        .insert("accept", "text/event-stream".parse().unwrap());
    let answer = alice.send(newer).await.unwrap();
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn errors_are_those_of_0_3() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let nobody = json!({ "id": "x" });
    let mut agent = said("hi");
    agent["message"]["role"] = json!("agent");
    for (method, params, code) in [
        ("tasks/get", nobody.clone(), -32001),
        ("tasks/cancel", nobody.clone(), -32001),
        ("tasks/resubscribe", nobody.clone(), -32001),
        ("tasks/get", json!({}), -32602),
        ("message/send", agent, -32602),
        ("message/send", message("hi"), -32602),
        ("tasks/pushNotificationConfig/get", nobody, -32003),
        ("tasks/list", json!({}), -32601),
    ] {
        let answer = alice.send(before(method, params)).await.unwrap();
        assert_eq!((answer.status, answer.error_code()), (200, code), "{method}");
    }
    assert!(world.agent.tasks.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_caller_of_0_3_is_matched_like_any_other() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    alice.send(before("message/send", said("echo hi"))).await.unwrap();
    let mut bob = world.as_caller(BOB).await;
    let asked = before("tasks/get", json!({ "id": "task-0" }));
    assert_eq!(bob.send(asked).await.unwrap().error_code(), -32001);
    for mut stranger in [world.as_nobody().await, world.as_caller(MALLORY).await] {
        let sent = stranger
            .send(before("message/send", said("echo hi")))
            .await
            .unwrap();
        assert!(matches!(sent.status, 401 | 403), "{}", sent.status);
    }
}

#[tokio::test]
async fn one_that_names_two_versions_or_none_by_path_is_refused() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let mut two = rpc("/", "GetTask", json!({ "id": "task-0" }));
    two.headers_mut().append("a2a-version", "9.9".parse().unwrap());
    assert_eq!(alice.send(two).await.unwrap().error_code(), -32009);
    // By path there is no 0.3, whatever the caller reads.
    let mut none = rest("POST", "/message:stream", said("echo hi"));
    none.headers_mut().remove("a2a-version");
    none.headers_mut()
        .insert("accept", "text/event-stream".parse().unwrap());
    let answer = alice.send(none).await.unwrap();
    assert_eq!(
        (answer.status, answer.reason().as_str()),
        (400, "VERSION_NOT_SUPPORTED")
    );
}
