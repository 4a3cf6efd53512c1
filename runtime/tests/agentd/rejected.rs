//! A task that is refused is rejected, whoever refuses it, and says why; what fails otherwise has failed.

use serde_json::json;

use crate::a2a::{Caller, said};
use crate::a2a_tasks::{Events, agent, state};
use crate::model::Model;

#[tokio::test(flavor = "multi_thread")]
async fn what_the_agent_its_model_or_its_budget_refuses_is_rejected() {
    let model = Model::start().await;
    let budget = [
        "--intelligence.budget.lifetime_tokens",
        "60",
        "--intelligence.budget.reserve.fixed",
        "10",
        "--intelligence.budget.on_exhausted",
        "refuse",
    ];
    let (_agentd, address, _folder) = agent(&model.url(), &budget).await;
    let caller = Caller::new(&address);
    let finish = |status: &str| {
        let calls = json!([["finish", { "status": status, "reason": "not my work" }]]);
        format!("calls {calls}")
    };
    let mut rejected = Vec::new();
    // Each asks the model once, for 10 tokens.
    for (id, text, expected, why) in [
        ("m1", finish("refused"), "TASK_STATE_REJECTED", "not my work"),
        ("m2", finish("failed"), "TASK_STATE_FAILED", "not my work"),
        ("m3", finish("cancelled"), "TASK_STATE_CANCELED", "not my work"),
        (
            "m4",
            "refuse".to_owned(),
            "TASK_STATE_REJECTED",
            "the model refused",
        ),
    ] {
        let task = caller.send(id, &text, json!({})).await;
        assert_eq!((state(&task), said(&task)), (expected, why), "{task}");
        if expected == "TASK_STATE_REJECTED" {
            rejected.push(task["id"].clone());
        }
    }
    // A refusal ends a stream, and nobody goes on with what was refused.
    let parts = json!([{ "text": finish("refused") }]);
    let message = json!({ "message": { "messageId": "m5", "role": "ROLE_USER", "parts": parts } });
    let mut events = Events::of(&address, "SendStreamingMessage", message).await;
    let id = events.next().await["task"]["id"].clone();
    let told = events.rest().await;
    assert_eq!(
        told.last().map(String::as_str),
        Some("TASK_STATE_REJECTED"),
        "{told:?}"
    );
    rejected.push(id.clone());
    let again = json!({ "taskId": id });
    let more = caller.try_send("m6", "do it", again).await.unwrap();
    assert_eq!(more["error"]["code"], -32004, "{more}");
    let cancel = caller.call("CancelTask", json!({ "id": id })).await.unwrap();
    assert_eq!(cancel["error"]["code"], -32002, "{cancel}");
    // One more is within the budget, and the next is not.
    let last = caller.send("m7", "hi", json!({})).await;
    assert_eq!(state(&last), "TASK_STATE_COMPLETED", "{last}");
    let spent = caller.send("m8", "hi", json!({})).await;
    assert_eq!(state(&spent), "TASK_STATE_REJECTED", "{spent}");
    assert!(said(&spent).contains("intelligence.budget"), "{spent}");
    rejected.push(spent["id"].clone());
    let listed = caller
        .call("ListTasks", json!({ "status": "TASK_STATE_REJECTED" }))
        .await
        .unwrap();
    let listed = listed["result"]["tasks"].as_array().unwrap().clone();
    let listed: Vec<_> = listed.iter().rev().map(|task| task["id"].clone()).collect();
    assert_eq!(listed, rejected);
}
