//! Records for the tests.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

pub mod kv;
pub mod server;

use agentd_state::{Conversation, Message, Noted, OpenTask, Retention, Role, Store, Task, TaskState, Write};
use serde_json::json;

pub const ALICE: &str = "spiffe://td/ns/a/sa/alice";

pub fn conversation(id: &str) -> Conversation {
    Conversation {
        id: id.into(),
        owner: ALICE.into(),
        created_at: "2026-12-01T10:00:00.123456789Z".parse().unwrap(),
        transcript: json!({ "version": 1, "turns": [{ "text": "ä\n\"", "n": 1.5, "deep": [[[null, true]]] }] }),
    }
}

/// A task of this age, in microseconds.
pub fn task(id: &str, state: TaskState, age: i64) -> Task {
    let at = jiff::Timestamp::from_microsecond(1_800_000_000_000_000 + age).unwrap();
    Task {
        id: id.into(),
        context_id: "c".into(),
        owner: ALICE.into(),
        state,
        updated_at: at,
        created_at: at,
        status_message: None,
        asked: None,
        history: vec![Message {
            id: "m".into(),
            role: Role::User,
            parts: json!([{ "text": "hi" }]),
        }],
        artifacts: vec![json!({ "artifactId": "a", "parts": [{ "text": "hello" }] })],
        hops: 2,
        trace: Some(agentd_base::trace::TraceContext::of_run(id, None)),
    }
}

pub fn note(owner: &str, message_id: &str, task_id: &str) -> Write {
    Write::MessageId {
        owner: owner.into(),
        message_id: message_id.into(),
        task_id: task_id.into(),
        digest: format!("digest of {task_id}"),
    }
}

/// The task of a message, with the digest that was noted with it.
pub async fn task_of(store: &dyn Store, owner: &str, message_id: &str) -> Option<String> {
    let noted = store.message(owner, message_id).await.unwrap()?;
    let Noted { task_id, digest } = noted;
    assert_eq!(digest, format!("digest of {task_id}"));
    Some(task_id)
}

/// The ids of the open tasks, each of which is what its record says.
pub async fn open(store: &dyn Store) -> Vec<String> {
    let open = store.open_tasks().await.unwrap();
    for found in &open {
        let task = store.task(&found.id).await.unwrap().unwrap();
        let expected = OpenTask {
            bytes: agentd_state::store::size(&task),
            id: task.id,
            owner: task.owner,
            context_id: task.context_id,
            state: task.state,
        };
        assert_eq!(*found, expected);
    }
    open.into_iter().map(|task| task.id).collect()
}

/// Keeps everything.
pub const ALL: Retention = Retention {
    age: std::time::Duration::MAX,
    bytes: u64::MAX,
    entries: u64::MAX,
};
