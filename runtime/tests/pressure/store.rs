//! The disk takes nothing.

use std::process::Command;

use serde_json::json;

use crate::a2a::answer;
use crate::process::Agentd;
use crate::world::World;

/// A process that is told of a file that would be too large instead of being killed.
const TOLD: &str = r#"trap '' XFSZ; exec "$0" "$@""#;

/// From now on files of this process may have so many bytes.
fn limit(agentd: &Agentd, bytes: &str) {
    let status = Command::new("prlimit")
        .args([
            "--pid",
            &agentd.pid().to_string(),
            &format!("--fsize={bytes}:unlimited"),
        ])
        .status();
    assert!(status.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_store_is_not_ready_refuses_work_and_recovers_by_itself() {
    let mut world = World::new().await;
    let (mut agentd, caller, admin) = world.start(TOLD).await;
    let immediately = || json!({ "returnImmediately": true });
    let task = caller.send("m1", "hold fast", immediately()).await;
    let id = task["id"].as_str().unwrap().to_owned();
    world.model.holds().await;
    assert_eq!(admin.get("/readyz").await.unwrap(), (200, "ok\n".into()));

    limit(&agentd, "0");
    world.model.release();
    agentd.event("store.put.fail").await;
    let cause = "store: the last write failed or hangs; it is tried again until one succeeds\n";
    while admin.get("/readyz").await.unwrap().0 == 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(admin.get("/readyz").await.unwrap(), (503, cause.into()));
    assert_eq!(admin.get("/healthz").await.unwrap().0, 200);
    assert_eq!(caller.task(&id).await["status"]["state"], "TASK_STATE_WORKING");
    let refused = caller.try_send("m2", "hi", immediately()).await.unwrap();
    let details = &refused["error"]["data"];
    assert_eq!(
        (
            &refused["error"]["code"],
            &details[1]["reason"],
            &details[0]["retryDelay"]
        ),
        (&json!(-32603), &json!("STORE_UNAVAILABLE"), &json!("5s")),
        "{refused}"
    );

    limit(&agentd, "unlimited");
    agentd.event("store.recovered").await;
    let ended = caller.ended(&id).await;
    assert_eq!(ended["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(answer(&ended), "you said: fast");
    assert_eq!(admin.get("/readyz").await.unwrap(), (200, "ok\n".into()));
    let again = caller.send("m2", "hi", json!({})).await;
    assert_eq!(answer(&again), "you said: hi");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_id_that_comes_again_with_something_else_is_refused() {
    let world = World::new().await;
    let (_agentd, caller, _) = world.start(TOLD).await;
    let context = || json!({ "contextId": "c" });
    let first = caller.send("m1", "hi", context()).await;
    assert_eq!(caller.send("m1", "hi", context()).await, first);
    for (text, more) in [
        ("something else", context()),
        ("hi", json!({})),
        ("hi", json!({ "contextId": "d" })),
    ] {
        let refused = caller.try_send("m1", text, more).await.unwrap();
        let violation = &refused["error"]["data"][0]["fieldViolations"][0];
        assert_eq!(
            (&refused["error"]["code"], &violation["field"]),
            (&json!(-32602), &json!("message.messageId")),
            "{refused}"
        );
    }
    assert_eq!(world.model.requests().len(), 1);
}
