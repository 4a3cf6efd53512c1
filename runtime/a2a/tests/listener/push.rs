//! Configurations of push notifications on the wire: the same in each binding and version.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn s9_configurations_are_the_same_in_each_binding_and_version() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    alice.rest("POST", "/message:send", message("echo hi")).await;
    world.agent.pushes.store(true, Ordering::SeqCst);
    let path = "/tasks/task-0/pushNotificationConfigs";
    let shown = |id: &str, url: &str| json!({ "id": id, "taskId": "task-0", "url": url });

    // What is given in one is there in the others. Without an id it has that of the task.
    let made = alice
        .rest("POST", path, json!({ "url": "https://x/1", "token": "hush" }))
        .await;
    assert_eq!((made.status, made.json()), (200, shown("task-0", "https://x/1")));
    let params = json!({ "task_id": "task-0", "id": "b", "url": "https://x/2" });
    let made = alice
        .call("CreateTaskPushNotificationConfig", params)
        .await
        .json();
    assert_eq!(made["result"], shown("b", "https://x/2"));
    let mut before = async |method: &str, params: Value| {
        let mut request = rpc("/", method, params);
        request.headers_mut().remove("a2a-version");
        let answer = alice.send(request).await.unwrap().json();
        answer
            .get("result")
            .cloned()
            .unwrap_or_else(|| panic!("{answer}"))
    };
    let old = |id: &str, url: &str| json!({ "taskId": "task-0", "pushNotificationConfig": { "id": id, "url": url } });
    let made = before("tasks/pushNotificationConfig/set", old("c", "https://x/3")).await;
    assert_eq!(made, old("c", "https://x/3"));
    let got = before("tasks/pushNotificationConfig/get", json!({ "id": "task-0" })).await;
    assert_eq!(got, old("task-0", "https://x/1"));
    let all = before("tasks/pushNotificationConfig/list", json!({ "id": "task-0" })).await;
    let three = json!([
        old("b", "https://x/2"),
        old("c", "https://x/3"),
        old("task-0", "https://x/1")
    ]);
    assert_eq!(all, three);
    let named = json!({ "id": "task-0", "pushNotificationConfigId": "b" });
    for _ in 0..2 {
        assert_eq!(
            before("tasks/pushNotificationConfig/delete", named.clone()).await,
            Value::Null
        );
    }

    let listed = alice.rest("GET", path, json!(null)).await.json();
    let two = json!({ "configs": [shown("c", "https://x/3"), shown("task-0", "https://x/1")] });
    assert_eq!(listed, two);
    let params = json!({ "taskId": "task-0" });
    let listed = alice.call("ListTaskPushNotificationConfigs", params).await.json();
    assert_eq!(listed["result"], two);
    let deleted = alice.rest("DELETE", &format!("{path}/c"), json!(null)).await;
    assert_eq!((deleted.status, deleted.json()), (200, json!({})));
    let gone = alice.rest("GET", &format!("{path}/c"), json!(null)).await;
    assert_eq!(
        (gone.status, gone.json()["error"]["status"].clone()),
        (404, json!("NOT_FOUND"))
    );

    // Each fault by its field.
    let wrong = alice
        .rest("POST", path, json!({ "id": 7, "authentication": {} }))
        .await;
    let fields = wrong.json()["error"]["details"][0]["fieldViolations"].clone();
    let fields: Vec<&str> = fields
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["field"].as_str().unwrap())
        .collect();
    assert_eq!(
        (wrong.status, fields),
        (400, vec!["id", "url", "authentication.scheme"])
    );
}
