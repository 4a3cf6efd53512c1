//! Lists of tasks, and tasks that are cancelled.

use serde_json::{Value, json};

use crate::support::*;

fn ids(listed: &Value) -> Vec<&str> {
    let tasks = listed["tasks"].as_array().unwrap();
    tasks.iter().map(|task| task["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn s6_a_caller_lists_its_own_tasks_a_page_at_a_time_and_an_operator_all() {
    let world = World::start().await;
    let (mut alice, mut bob) = (world.as_caller(ALICE).await, world.as_caller(BOB).await);
    for text in ["echo 0", "echo 1", "echo 2"] {
        alice.call("SendMessage", message(text)).await;
    }
    bob.call("SendMessage", message("echo 3")).await;
    let first = alice.call("ListTasks", json!({ "pageSize": 2 })).await.json()["result"].clone();
    assert_eq!(ids(&first), ["task-2", "task-1"]);
    assert_eq!((&first["totalSize"], &first["pageSize"]), (&json!(3), &json!(2)));
    assert_eq!(first["tasks"][0].get("artifacts"), None);
    let next = json!({ "pageSize": 2, "pageToken": first["nextPageToken"], "includeArtifacts": true });
    let second = alice.call("ListTasks", next).await.json()["result"].clone();
    assert_eq!(ids(&second), ["task-0"]);
    assert_eq!(second["nextPageToken"], json!(""));
    assert_eq!(
        second["tasks"][0]["artifacts"][0]["parts"],
        json!([{ "text": "0" }])
    );
    let none = json!({ "status": "TASK_STATE_WORKING", "historyLength": 0 });
    let none = alice.call("ListTasks", none).await.json()["result"].clone();
    assert_eq!(
        none,
        json!({ "tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0 })
    );
    let mut admin = world.as_caller(ADMIN).await;
    let all = admin.call("ListTasks", json!({})).await.json()["result"].clone();
    assert_eq!(ids(&all), ["task-3", "task-2", "task-1", "task-0"]);
}

#[tokio::test]
async fn s7_a_task_is_cancelled_once_and_only_by_who_may_see_it() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let mut waiting = message("hold");
    waiting["configuration"] = json!({ "returnImmediately": true });
    alice.call("SendMessage", waiting).await;
    alice.call("SendMessage", message("echo hi")).await;
    let mut bob = world.as_caller(BOB).await;
    let cancel = |id: &str| json!({ "id": id });
    assert_eq!(
        bob.call("CancelTask", cancel("task-0")).await.error_code(),
        -32001
    );
    for _ in 0..2 {
        let task = alice.call("CancelTask", cancel("task-0")).await.json()["result"].clone();
        assert_eq!(task["status"]["state"], json!("TASK_STATE_CANCELED"));
    }
    let ended = alice.call("CancelTask", cancel("task-1")).await;
    assert_eq!(ended.error_code(), -32002);
    assert_eq!(
        ended.json()["error"]["data"][0]["reason"],
        json!("TASK_NOT_CANCELABLE")
    );
}
