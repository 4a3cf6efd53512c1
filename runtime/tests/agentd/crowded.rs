//! Subagents of which there are as many as may be.

use serde_json::json;

use crate::tree::{World, calls, results};

/// One that only waits for a message is in nobody's way.
#[tokio::test(flavor = "multi_thread")]
async fn m2_a_warm_subagent_that_waits_makes_room_for_one_that_works() {
    let world = World::new().await;
    let limits = json!({ "limits": { "subagents": { "total": 1 } } });
    let (mut agentd, caller) = world.start(limits).await;
    let warm = calls(json!([["subagent_run", { "instruction": "hi", "mode": "warm" }]]));
    caller.send("m1", &warm, json!({ "contextId": "c" })).await;
    let handle = results(&world)[0]["handle"].as_str().unwrap().to_owned();
    let work = calls(json!([["subagent_run", { "instruction": "hi" }]]));
    caller.send("m2", &work, json!({ "contextId": "d" })).await;
    let told = results(&world);
    assert_eq!(told[0]["status"], "completed", "{told:#?}");
    assert_eq!(agentd.event("subagent.given_up").await["subagent"], handle);
    let ask = calls(json!([["subagent_await", { "handle": handle }]]));
    caller.send("m3", &ask, json!({ "contextId": "c" })).await;
    let told = results(&world);
    assert_eq!(told.last().unwrap()["status"], "cancelled", "{told:#?}");
}
