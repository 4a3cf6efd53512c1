//! What A2A 1.0 says of tasks and their conversations, against the process.

use serde_json::{Value, json};

use crate::a2a::{Caller, answer};
use crate::a2a_tasks::{agent, state};
use crate::model::Model;

fn error(answer: &Value) -> (&Value, &Value) {
    let error = &answer["error"];
    (&error["code"], &error["data"][0]["fieldViolations"][0]["field"])
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_a_task_has_an_id_of_ours_and_belongs_to_the_conversation_of_its_message() {
    let model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &[]).await;
    let caller = Caller::new(&address);
    let kept = caller.send("m1", "hello", json!({ "contextId": "mine" })).await;
    let made = caller.send("m2", "hello", json!({})).await;
    let more = caller
        .send("m3", "hello", json!({ "contextId": made["contextId"] }))
        .await;
    assert_eq!(kept["contextId"], "mine");
    assert_eq!(more["contextId"], made["contextId"]);
    let ids = [&kept["id"], &made["id"], &more["id"], &made["contextId"]];
    for (at, id) in ids.iter().enumerate() {
        assert!(id.as_str().is_some_and(|id| id.len() >= 16), "{id}");
        assert!(!ids[..at].contains(id), "{ids:?}");
    }
    // A task that the caller makes up is none; nothing comes of its message.
    let unknown = caller
        .try_send("m4", "hello", json!({ "taskId": "mine" }))
        .await
        .unwrap();
    assert_eq!(error(&unknown).0, &json!(-32001), "{unknown}");
    let listed = caller.call("ListTasks", json!({})).await.unwrap();
    assert_eq!(listed["result"]["totalSize"], 3);

    // The conversation is that of the task, and another one is refused.
    let asks = r#"calls [["ask_human", {"question": "Which colour?"}]]"#;
    let open = caller.send("m5", asks, json!({ "contextId": "asked" })).await;
    assert_eq!(state(&open), "TASK_STATE_INPUT_REQUIRED", "{open}");
    let elsewhere = json!({ "taskId": open["id"], "contextId": "mine" });
    let refused = caller.try_send("m6", "blue", elsewhere).await.unwrap();
    assert_eq!(
        error(&refused),
        (&json!(-32602), &json!("message.contextId")),
        "{refused}"
    );
    let inferred = caller.send("m7", "blue", json!({ "taskId": open["id"] })).await;
    assert_eq!(
        (&inferred["id"], &inferred["contextId"], state(&inferred)),
        (&open["id"], &json!("asked"), "TASK_STATE_COMPLETED"),
        "{inferred}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_an_answer_comes_at_the_end_or_at_once_as_asked_and_what_has_ended_takes_no_message() {
    let mut model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &[]).await;
    let caller = Caller::new(&address);
    let at_once = caller
        .send("m1", "hold one", json!({ "returnImmediately": true }))
        .await;
    assert!(
        ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state(&at_once)),
        "{at_once}"
    );
    model.holds().await;
    let waits = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.send("m2", "hold two", json!({})).await })
    };
    assert_eq!(model.holds().await, "hold two");
    assert!(!waits.is_finished());
    model.release();
    model.release();
    let whole = waits.await.unwrap();
    assert_eq!(state(&whole), "TASK_STATE_COMPLETED");
    assert!(answer(&whole).ends_with("two"), "{whole}");
    let id = at_once["id"].as_str().unwrap();
    assert_eq!(state(&caller.ended(id).await), "TASK_STATE_COMPLETED");

    let over = caller
        .try_send("m3", "more", json!({ "taskId": id }))
        .await
        .unwrap();
    assert_eq!(error(&over).0, &json!(-32004), "{over}");
    assert_eq!(over["error"]["data"][0]["reason"], "UNSUPPORTED_OPERATION");
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_a_task_has_as_much_of_its_history_as_was_asked_for() {
    let model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &[]).await;
    let caller = Caller::new(&address);
    let task = caller.send("m1", "hello", json!({})).await;
    let whole = task["history"].as_array().unwrap();
    assert_eq!(whole[0]["messageId"], "m1");
    let of = async |length: u64| {
        let params = json!({ "id": task["id"], "historyLength": length });
        caller.call("GetTask", params).await.unwrap()["result"]["history"].clone()
    };
    assert_eq!(of(0).await, Value::Null);
    assert_eq!(of(1).await, json!([whole[whole.len() - 1]]));
    assert_eq!(of(1000).await, task["history"]);

    // A list leaves the artifacts out and always has its token.
    let list = async |params: Value| caller.call("ListTasks", params).await.unwrap();
    let listed = list(json!({ "historyLength": 0 })).await["result"].clone();
    assert_eq!(listed["nextPageToken"], "");
    let one = listed["tasks"][0].as_object().unwrap();
    assert_eq!(one["id"], task["id"]);
    assert!(
        !one.contains_key("artifacts") && !one.contains_key("history"),
        "{one:?}"
    );
    let refused = list(json!({ "pageToken": "made up" })).await;
    assert_eq!(
        error(&refused),
        (&json!(-32602), &json!("pageToken")),
        "{refused}"
    );
}
