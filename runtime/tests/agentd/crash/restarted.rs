//! What must be true of an agent that is started again after its death, however it died.

use std::sync::Arc;

use serde_json::json;

use super::kept::{Kept, is_live};
use super::{Ledger, World, assert_answered};
use crate::a2a::Caller;
use crate::process::Agentd;

/// Starts it: what it kept is there, what was open is ended, and whoever asks again is answered.
pub async fn restarted(
    world: &Arc<World>,
    before: &Kept,
    ledger: &Ledger,
    tag: &str,
    at: &str,
) -> (Agentd, Caller) {
    let (agentd, caller) = world.start().await;
    assert!(world.settled().await);
    let after = world.kept().await;
    for task in before.tasks() {
        let now = after
            .task(task.id())
            .unwrap_or_else(|| panic!("{at}: lost {task:#?}"));
        match task.state() {
            "submitted" => assert_answered(&now),
            "working" => {
                assert_eq!(now.state(), "failed", "{at}");
                assert!(now.reason().contains("restarted"), "{at}: {now:#?}");
            }
            _ => assert_eq!(now, task, "{at}"),
        }
    }
    for (handle, record) in before.subagents() {
        let now = &after.subagents()[&handle];
        if is_live(&record) {
            assert!(
                now["reason"].as_str().unwrap().contains("restarted"),
                "{at}: {now:#}"
            );
        } else {
            assert_eq!(*now, record, "{at}");
        }
    }
    assert_eq!(after.marks(), 0, "{at}");

    // Whoever was not answered asks again.
    for said in &ledger.sent {
        let again = said.say(&caller, json!({})).await.unwrap();
        let acknowledged = ledger.acknowledged.get(&said.id);
        assert!(
            acknowledged.is_none_or(|id| again["id"] == id.as_str()),
            "{at}: {said:?} {again:#}"
        );
    }
    assert!(world.settled().await);
    let after = world.kept().await;
    for said in &ledger.sent {
        let stored = before.task_of(&said.id);
        let is_acknowledged = ledger.acknowledged.contains_key(&said.id);
        assert!(!is_acknowledged || stored.is_some(), "{at}: lost {said:?}");
        let task = after.task_of(&said.id).unwrap();
        match stored {
            Some(stored) => assert_eq!(stored.id(), task.id(), "{at}"),
            None => assert_answered(&task),
        }
    }
    let calls = world.calls(tag);
    assert!(calls.values().all(|count| *count == 1), "{at}: {calls:?}");
    (agentd, caller)
}
