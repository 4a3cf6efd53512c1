//! Turns that the end of the process cuts short: what had been done by then is said, and is not done again.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::a2a::answer;
use crate::process::stop;
use crate::tree::{World, calls};

/// A worker that does not end when it is asked to is killed.
#[tokio::test(flavor = "multi_thread")]
async fn field_c05_what_a_killed_turn_had_done_is_not_done_again() {
    let mut world = World::new().await;
    // Enough to ask, to wait and to kill.
    let lifecycle = json!({ "lifecycle": { "drain_timeout": "18s" } });
    let (agentd, caller) = world.start(lifecycle.clone()).await;
    let task = calls(json!([
        ["memory_set", { "key": "a", "value": 1 }],
        ["subagent_run", { "instruction": "hold" }],
    ]));
    let sent = caller
        .send(
            "m1",
            &task,
            json!({ "contextId": "c", "returnImmediately": true }),
        )
        .await;
    world.model.holds().await;
    // The conversation's worker was the first.
    stop(agentd.workers().into_iter().min().unwrap());
    agentd.signal(Signal::SIGTERM);
    let (status, _, lines) = agentd.end().await;
    assert_eq!(status.code(), Some(0), "{lines:#?}");
    let (_agentd, caller) = world.start(lifecycle).await;
    let task = caller.task(sent["id"].as_str().unwrap()).await;
    assert_eq!(task["status"]["state"], "TASK_STATE_FAILED", "{task:#}");
    let said = task["status"]["message"]["parts"][0]["text"].as_str().unwrap();
    assert!(said.ends_with("2 tool calls had been made"), "{said}");
    // The conversation goes on.
    let next = caller.send("m2", "hi", json!({ "contextId": "c" })).await;
    assert_eq!(answer(&next), "you said: hi");
}
