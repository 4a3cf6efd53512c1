//! Commands: as an extension that a call names, to whom they are there, and that they make no task.

use agentd_a2a::command::URI;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::support::*;

fn command(command: Value) -> Value {
    json!({ "message": { "messageId": "m-1", "role": "ROLE_USER", "parts": [{ "data": { "agentd": command } }] } })
}

fn naming(mut request: Request<Full<bytes::Bytes>>, header: &'static str) -> Request<Full<bytes::Bytes>> {
    request.headers_mut().insert(header, URI.parse().unwrap());
    request
}

/// By both bindings: the message, or the error.
async fn both(peer: &mut Peer, params: &Value) -> [Value; 2] {
    let call = naming(rpc("/", "SendMessage", params.clone()), "a2a-extensions");
    let by_call = peer.send(call).await.unwrap();
    let call = naming(rest("POST", "/message:send", params.clone()), "a2a-extensions");
    let by_path = peer.send(call).await.unwrap();
    for answer in [&by_call, &by_path] {
        if answer.json().get("error").is_none() {
            assert_eq!(answer.header("a2a-extensions"), URI);
        }
    }
    let by_call = by_call.json();
    let by_call = by_call.get("result").unwrap_or(&by_call).clone();
    [by_call, by_path.json()]
}

#[tokio::test]
async fn s11_a_command_is_answered_with_a_message_and_makes_no_task() {
    let world = World::start().await;
    let mut bob = world.as_caller(BOB).await;
    for answered in both(&mut bob, &command(json!({ "op": "status" }))).await {
        let message = &answered["message"];
        assert_eq!(message["role"], "ROLE_AGENT", "{answered}");
        assert_eq!(message["extensions"], json!([URI]));
        let told = &message["parts"][0]["data"]["agentd"];
        assert_eq!(
            *told,
            json!({ "op": "status", "result": { "by": BOB, "command": "Status" } })
        );
    }
    let call = naming(
        rpc("/", "SendStreamingMessage", command(json!({ "op": "status" }))),
        "a2a-extensions",
    );
    let events = Events::of(bob.open(call).await.unwrap()).all().await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0]["result"]["message"].is_object(), "{events:?}");
    let mut before = rpc(
        "/",
        "message/send",
        json!({ "message": { "kind": "message", "messageId": "m", "role": "user",
            "parts": [{ "kind": "data", "data": { "agentd": { "op": "status" } } }] } }),
    );
    before.headers_mut().remove("a2a-version");
    let before = bob.send(naming(before, "x-a2a-extensions")).await.unwrap();
    assert_eq!(before.header("x-a2a-extensions"), URI);
    assert_eq!(
        before.json()["result"]["parts"][0]["data"]["agentd"]["op"],
        "status"
    );
    assert!(world.agent.tasks.lock().unwrap().is_empty());
    // A call that does not name the extension has a message to the model.
    let sent = bob
        .call("SendMessage", command(json!({ "op": "status" })))
        .await
        .json();
    assert!(sent["result"]["task"].is_object(), "{sent}");
}

#[tokio::test]
async fn s10_a_command_below_the_role_is_refused_as_one_that_there_is_not() {
    let world = World::start().await;
    for (own, ops) in [
        (BOB, "status, workflow.run, workflow.status"),
        (
            ALICE,
            "status, run.get, conversation.get, plan.get, subagent.status, workflow.run, workflow.status, \
             workflow.cancel",
        ),
    ] {
        let mut caller = world.as_caller(own).await;
        let mut refused = Vec::new();
        for op in ["config", "workflow.signal", "no.such"] {
            refused.push(both(&mut caller, &command(json!({ "op": op, "name": "x" }))).await);
        }
        assert!(refused.iter().all(|one| *one == refused[0]), "{refused:#?}");
        let details = &refused[0][0]["error"]["data"][0]["fieldViolations"];
        assert_eq!(
            *details,
            json!([{ "field": "message.parts[0].data.agentd.op",
                     "description": format!("is required and must be one of: {ops}") }])
        );
        assert_eq!(refused[0][1]["error"]["code"], 400);
    }
    let mut admin = world.as_caller(ADMIN).await;
    for answered in both(&mut admin, &command(json!({ "op": "config" }))).await {
        assert!(answered["message"].is_object(), "{answered}");
    }
    assert!(world.agent.tasks.lock().unwrap().is_empty());
}

#[tokio::test]
async fn s15_the_faults_of_a_command_are_named_by_field_in_both_bindings() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let wrong = command(json!({ "op": "conversation.get", "pageSize": 1000, "owner": ADMIN, "x": 1 }));
    let [by_call, by_path] = both(&mut alice, &wrong).await;
    assert_eq!(by_call["error"]["code"], -32602);
    let fields = |violations: &Value| -> Vec<String> {
        let all = violations.as_array().unwrap().iter();
        all.map(|one| {
            one["field"]
                .as_str()
                .unwrap()
                .rsplit('.')
                .next()
                .unwrap()
                .to_owned()
        })
        .collect()
    };
    let expected = ["contextId", "pageSize", "owner", "x"];
    assert_eq!(fields(&by_call["error"]["data"][0]["fieldViolations"]), expected);
    assert_eq!(
        fields(&by_path["error"]["details"][0]["fieldViolations"]),
        expected
    );
}

#[tokio::test]
async fn the_extended_card_tells_each_caller_of_its_commands_and_the_public_card_of_none() {
    let world = World::start().await;
    let mut nobody = world.as_nobody().await;
    let public = nobody.get("/.well-known/agent-card.json").await.json();
    assert_eq!(public["capabilities"].get("extensions"), None);
    for (own, count) in [(BOB, 3), (ALICE, 8), (ADMIN, 10)] {
        let mut caller = world.as_caller(own).await;
        let card = caller.call("GetExtendedAgentCard", json!({})).await.json();
        let extensions = &card["result"]["capabilities"]["extensions"];
        assert_eq!(extensions[0]["uri"], URI);
        assert_eq!(extensions[0].get("required"), None);
        assert_eq!(extensions[0]["params"]["ops"].as_array().unwrap().len(), count);
    }
}
