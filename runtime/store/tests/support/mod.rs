//! Records for the tests.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use agentd_state::{Conversation, Message, Role, Task, TaskState, Write};
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
        history: vec![Message {
            id: "m".into(),
            role: Role::User,
            parts: json!([{ "text": "hi" }]),
        }],
        artifacts: vec![json!({ "artifactId": "a", "parts": [{ "text": "hello" }] })],
    }
}

pub fn note(owner: &str, message_id: &str, task_id: &str) -> Write {
    Write::MessageId {
        owner: owner.into(),
        message_id: message_id.into(),
        task_id: task_id.into(),
    }
}
