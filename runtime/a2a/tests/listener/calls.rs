//! What is asked and what is answered.

use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn a_message_is_answered_and_its_task_can_be_read() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    for (path, number) in [("/", 0), ("/agents/helper", 1), ("/agents/helper/", 2)] {
        let sent = alice
            .try_call(path, "SendMessage", message("echo hi"))
            .await
            .unwrap();
        assert_eq!((sent.status, sent.header("cache-control")), (200, "no-store"));
        let task = &sent.json()["result"]["task"];
        assert_eq!(task["id"], json!(format!("task-{number}")));
        assert_eq!(task["status"]["state"], json!("TASK_STATE_COMPLETED"));
        assert_eq!(task["artifacts"][0]["parts"], json!([{ "text": "hi" }]));
        let got = alice.call("GetTask", json!({ "id": task["id"] })).await;
        assert_eq!(got.json()["result"], *task);
    }
    let mut waiting = message("hold");
    waiting["configuration"] = json!({ "returnImmediately": true, "historyLength": 0 });
    let accepted = alice.call("SendMessage", waiting).await.json();
    assert_eq!(
        accepted["result"]["task"]["status"]["state"],
        json!("TASK_STATE_SUBMITTED")
    );
    assert_eq!(accepted["result"]["task"].get("history"), None);
    let one = alice
        .call("GetTask", json!({ "id": "task-3", "historyLength": 1 }))
        .await
        .json();
    assert_eq!(one["result"]["history"].as_array().unwrap().len(), 1);
    assert_eq!(one["result"]["history"][0]["messageId"], json!("reply"));
    // By the names of the proto, which who reads proto3 JSON takes too.
    let proto = json!({ "id": "task-3", "history_length": 1 });
    assert_eq!(alice.call("GetTask", proto).await.json()["result"], one["result"]);
}

#[tokio::test]
async fn what_a_caller_began_goes_on_without_it() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let sending = tokio::spawn(async move { alice.try_call("/", "SendMessage", message("hold")).await });
    world.agent.wait_for_arrival().await;
    sending.abort();
    let _ = sending.await;
    world.agent.release();
    world.agent.wait_for_arrival().await;
    let mut again = world.as_caller(ALICE).await;
    let task = again.call("GetTask", json!({ "id": "task-0" })).await.json();
    assert_eq!(task["result"]["status"]["state"], json!("TASK_STATE_COMPLETED"));
}

#[tokio::test]
async fn http2_serves_many_calls_on_one_connection() {
    let world = World::start().await;
    let shown = svid(&world.authority, ALICE, &[]);
    let peer = Peer::connect_http2(world.address, world.showing(Some(&shown))).await;
    let Peer::Two(sender) = peer else { unreachable!() };
    let held = tokio::spawn({
        let sender = sender.clone();
        async move { Peer::Two(sender).call("SendMessage", message("hold")).await }
    });
    world.agent.wait_for_arrival().await;
    let quick = Peer::Two(sender.clone())
        .call("SendMessage", message("echo quick"))
        .await;
    assert_eq!(
        quick.json()["result"]["task"]["artifacts"][0]["parts"][0]["text"],
        json!("quick")
    );
    world.agent.release();
    assert_eq!(held.await.unwrap().status, 200);
    assert_eq!(
        Peer::Two(sender).get("/.well-known/agent-card.json").await.status,
        200
    );
}

#[tokio::test]
async fn s3_versions_types_and_methods() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let with = |path: &str, version: Option<&str>, content_type: &str| {
        let mut request = rpc(path, "GetTask", json!({ "id": "x" }));
        request.headers_mut().remove("a2a-version");
        if let Some(version) = version {
            request
                .headers_mut()
                .insert("a2a-version", version.parse().unwrap());
        }
        request
            .headers_mut()
            .insert("content-type", content_type.parse().unwrap());
        request
    };
    let json = "application/json";
    for (request, code) in [
        (with("/", None, json), -32601),
        (with("/", Some("0.3"), json), -32601),
        (with("/", Some("9.9"), json), -32009),
        (with("/", Some("1.0.7"), json), -32001),
        (with("/?A2A-Version=1.0", None, json), -32001),
        (with("/?A2A-Version=9.9", None, json), -32009),
        (with("/?A2A-Version=1.0", Some("9.9"), json), -32009),
        (with("/", Some("1.0"), "text/plain"), -32005),
        (rpc("/", "tasks/get", json!({})), -32601),
        (rpc("/", "ListTasks", json!({ "pageSize": 0 })), -32602),
        (rpc("/", "ListTasks", json!({ "pageToken": "x" })), -32602),
        (rpc("/", "CancelTask", json!({ "id": "x" })), -32001),
        (rpc("/", "CancelTask", json!({})), -32602),
        (rpc("/", "SendStreamingMessage", message("away")), -32603),
        (rpc("/", "SubscribeToTask", json!({ "id": "x" })), -32001),
        (rpc("/", "CreateTaskPushNotificationConfig", json!({})), -32003),
        (rpc("/", "SendMessage", json!({})), -32602),
        (rpc("/", "SendMessage", message("away")), -32603),
    ] {
        let shown = format!("{request:?}");
        let answer = alice.send(request).await.unwrap();
        assert_eq!((answer.status, answer.error_code()), (200, code), "{shown}");
        assert!(!answer.json().to_string().contains("/secret/path"), "{shown}");
        let data = answer.json()["error"]["data"].clone();
        let info = data.as_array().unwrap().last().unwrap().clone();
        let domain = if code == -32603 {
            "agentd.io"
        } else {
            "a2a-protocol.org"
        };
        assert_eq!(info["domain"], json!(domain), "{shown}");
    }
    let get = alice.get("/").await;
    assert_eq!((get.status, get.header("allow")), (405, "POST"));
    assert_eq!(alice.get("/nowhere").await.status, 404);
}

#[tokio::test]
async fn a_fault_of_the_agent_is_an_internal_error_and_nobody_else_notices() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    assert_eq!(
        alice.call("SendMessage", message("break")).await.error_code(),
        -32603
    );
    assert_eq!(alice.call("SendMessage", message("echo hi")).await.status, 200);
}
