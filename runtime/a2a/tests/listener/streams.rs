//! Streams: the state first, then what happens, the same for everybody, to the end.

use serde_json::{Value, json};

use crate::support::*;

/// What an event is, in a word or two.
fn kind(event: &Value) -> String {
    let event = event.get("result").unwrap_or(event);
    match (
        event.get("task"),
        event.get("statusUpdate"),
        event.get("artifactUpdate"),
    ) {
        (Some(task), ..) => format!("task {}", task["status"]["state"].as_str().unwrap()),
        (_, Some(update), _) => format!("status {}", update["status"]["state"].as_str().unwrap()),
        (.., Some(update)) => format!(
            "text {}",
            update["artifact"]["parts"][0]["text"].as_str().unwrap()
        ),
        _ => event.to_string(),
    }
}

fn kinds(events: &[Value]) -> Vec<String> {
    events.iter().map(kind).collect()
}

#[tokio::test]
async fn a_message_is_streamed_on_both_bindings() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let whole = [
        "task TASK_STATE_SUBMITTED",
        "text hi",
        "text !",
        "status TASK_STATE_COMPLETED",
    ];
    let streamed = rpc("/", "SendStreamingMessage", message("watched hi"));
    let events = Events::of(alice.open(streamed).await.unwrap()).all().await;
    assert_eq!(kinds(&events), whole);
    assert!(
        events
            .iter()
            .all(|event| event["jsonrpc"] == "2.0" && event["id"] == 1)
    );
    world.agent.followers.send_replace(0);
    let streamed = rest("POST", "/message:stream", message("watched hi"));
    let events = Events::of(alice.open(streamed).await.unwrap()).all().await;
    assert_eq!(kinds(&events), whole);
    assert_eq!(events[0]["task"]["id"], json!("task-1"));
    // A message that was answered before: its task, and nothing happens any more.
    let again = rest("GET", "/tasks/task-1:subscribe", Value::Null);
    assert_eq!(alice.send(again).await.unwrap().status, 400);
}

#[tokio::test]
async fn s8_those_who_follow_a_task_see_the_same_and_one_that_goes_leaves_the_others() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let begun = alice
        .open(rpc("/", "SendStreamingMessage", message("hold")))
        .await;
    let mut begun = Events::of(begun.unwrap());
    assert_eq!(kind(&begun.next().await.unwrap()), "task TASK_STATE_SUBMITTED");
    let (mut one, mut other, mut gone) = (
        world.as_caller(ALICE).await,
        world.as_caller(ADMIN).await,
        world.as_caller(ALICE).await,
    );
    let subscribe = json!({ "id": "task-0" });
    let first = one.open(rpc("/", "SubscribeToTask", subscribe.clone())).await;
    let second = other
        .open(rest("POST", "/tasks/task-0:subscribe", Value::Null))
        .await;
    let third = gone
        .open(rest("GET", "/tasks/task-0:subscribe", Value::Null))
        .await;
    let (first, second, mut third) = (
        Events::of(first.unwrap()),
        Events::of(second.unwrap()),
        Events::of(third.unwrap()),
    );
    assert_eq!(kind(&third.next().await.unwrap()), "task TASK_STATE_SUBMITTED");
    drop((third, gone));
    world.agent.piece("task-0", "a", false);
    world.agent.piece("task-0", "b", true);
    world.agent.release();
    let after = ["text a", "text b", "status TASK_STATE_COMPLETED"];
    assert_eq!(kinds(&begun.all().await), after);
    for events in [first, second] {
        let events = kinds(&events.all().await);
        assert_eq!(events[0], "task TASK_STATE_SUBMITTED");
        assert_eq!(events[1..], after);
    }
    // Whose it is not does not learn that it is there.
    let mut bob = world.as_caller(BOB).await;
    let refused = bob.call("SubscribeToTask", subscribe).await;
    assert_eq!(refused.error_code(), -32001);
}

#[tokio::test]
async fn one_that_does_not_keep_up_is_let_go_and_may_come_back() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let begun = alice
        .open(rpc("/", "SendStreamingMessage", message("hold")))
        .await;
    let begun = Events::of(begun.unwrap());
    let large = "x".repeat(1024 * 1024);
    for _ in 0..24 {
        world.agent.piece("task-0", &large, true);
    }
    let events = kinds(&begun.all().await);
    assert!(!events.contains(&"status TASK_STATE_COMPLETED".to_owned()));
    let again = alice
        .open(rpc("/", "SubscribeToTask", json!({ "id": "task-0" })))
        .await;
    let again = Events::of(again.unwrap());
    world.agent.release();
    assert_eq!(
        kinds(&again.all().await),
        ["task TASK_STATE_SUBMITTED", "status TASK_STATE_COMPLETED"]
    );
}

#[tokio::test]
async fn what_is_answered_with_a_message_has_no_task_and_streams_it_alone() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let answer = alice.call("SendMessage", message("say")).await.json();
    let said = json!({ "text": "said" });
    assert_eq!(answer["result"]["message"]["parts"][0], said);
    assert_eq!(answer["result"]["message"]["role"], "ROLE_AGENT");
    assert_eq!(answer["result"]["task"], Value::Null);
    let answer = alice.rest("POST", "/message:send", message("say")).await.json();
    assert_eq!(answer["message"]["parts"][0], said);
    let streamed = rpc("/", "SendStreamingMessage", message("say"));
    let events = Events::of(alice.open(streamed).await.unwrap()).all().await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["result"]["message"]["parts"][0], said);
    assert_eq!(
        alice.call("ListTasks", json!({})).await.json()["result"]["totalSize"],
        0
    );
}
