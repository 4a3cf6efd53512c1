//! From what is stored to what the wire shows, and the stored form of what a turn brought. Pure.

use agentd_a2a::wire;
use agentd_agent::Status;
use agentd_state::{Message, Role, Task, TaskState};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::worker::frame::TurnResult;

/// The key of a conversation: a context id belongs to its principal, so that two principals who choose the same one
/// neither meet nor learn of each other. A SPIFFE ID has no space.
pub fn conversation_key(owner: &str, context_id: &str) -> String {
    format!("{owner} {context_id}")
}

/// A new task with the caller's message in it.
pub fn submitted(
    id: String,
    context_id: String,
    owner: &str,
    message_id: &str,
    parts: &[wire::Part],
    now: Timestamp,
) -> Task {
    Task {
        id,
        context_id,
        owner: owner.to_owned(),
        state: TaskState::Submitted,
        updated_at: now,
        created_at: now,
        status_message: None,
        history: vec![Message {
            id: message_id.to_owned(),
            role: Role::User,
            parts: serde_json::to_value(parts).unwrap_or_default(),
        }],
        artifacts: Vec::new(),
    }
}

/// The text of the caller's message, as the model reads it.
pub fn text_of(task: &Task) -> String {
    let user = task
        .history
        .iter()
        .rev()
        .find(|message| message.role == Role::User);
    let request = agentd_a2a::SendMessage {
        message_id: String::new(),
        context_id: None,
        task_id: None,
        parts: user.map(|message| parts_of(&message.parts)).unwrap_or_default(),
        return_immediately: false,
    };
    request.text()
}

/// The task after its turn.
pub fn ended(mut task: Task, result: &TurnResult, answer_id: String, now: Timestamp) -> Task {
    let (state, message) = verdict(result);
    task.state = state;
    task.updated_at = now;
    task.status_message = message;
    if !result.text.is_empty() {
        let parts = json!([{ "text": result.text }]);
        task.artifacts = vec![json!({ "artifactId": answer_id, "name": "answer", "parts": parts })];
    }
    task
}

/// The task after a turn without a result.
pub fn failed(mut task: Task, reason: String, now: Timestamp) -> Task {
    task.state = TaskState::Failed;
    task.updated_at = now;
    task.status_message = Some(reason);
    task
}

fn verdict(result: &TurnResult) -> (TaskState, Option<String>) {
    let because = |text: &str| Some(result.reason.clone().unwrap_or_else(|| text.to_owned()));
    match result.status {
        Status::Completed => (TaskState::Completed, None),
        Status::Cancelled => (TaskState::Canceled, because("the turn was cancelled")),
        Status::Refused => (TaskState::Rejected, because("the agent declined the task")),
        Status::Failed => (TaskState::Failed, because("the turn failed")),
        Status::ExhaustedSteps => (
            TaskState::Failed,
            because("the turn used up its steps (limits.run.steps)"),
        ),
        Status::ExhaustedTokens => (
            TaskState::Failed,
            because("the turn used up its tokens (limits.run.tokens)"),
        ),
        Status::Deadline => (
            TaskState::Failed,
            because("the turn used up its time (limits.run.deadline)"),
        ),
        Status::ModelUnavailable => (TaskState::Failed, because("no model endpoint answered")),
    }
}

/// The task as callers see it.
pub fn wire_task(task: &Task) -> wire::Task {
    let message = task.status_message.as_ref().map(|text| wire::Message {
        // Stable, so that a task read twice is the same task.
        message_id: format!("{}-status", task.id),
        context_id: Some(task.context_id.clone()),
        task_id: Some(task.id.clone()),
        ..wire::Message::new(wire::Role::Agent, vec![wire::Part::text(text.clone())])
    });
    wire::Task {
        id: task.id.clone(),
        context_id: task.context_id.clone(),
        status: wire::TaskStatus {
            state: wire_state(task.state),
            message,
            timestamp: wire::timestamp(task.updated_at),
        },
        artifacts: artifacts_of(&task.artifacts),
        history: Some(
            task.history
                .iter()
                .map(|message| wire_message(task, message))
                .collect(),
        ),
        metadata: None,
    }
}

fn wire_message(task: &Task, message: &Message) -> wire::Message {
    let role = match message.role {
        Role::User => wire::Role::User,
        Role::Agent => wire::Role::Agent,
    };
    wire::Message {
        message_id: message.id.clone(),
        context_id: Some(task.context_id.clone()),
        task_id: Some(task.id.clone()),
        ..wire::Message::new(role, parts_of(&message.parts))
    }
}

fn parts_of(parts: &Value) -> Vec<wire::Part> {
    // Written by us from the same type.
    serde_json::from_value(parts.clone()).unwrap_or_default()
}

fn artifacts_of(artifacts: &[Value]) -> Option<Vec<wire::Artifact>> {
    let artifacts: Vec<wire::Artifact> = artifacts
        .iter()
        .filter_map(|artifact| serde_json::from_value(artifact.clone()).ok())
        .collect();
    (!artifacts.is_empty()).then_some(artifacts)
}

fn wire_state(state: TaskState) -> wire::TaskState {
    match state {
        TaskState::Submitted => wire::TaskState::Submitted,
        TaskState::Working => wire::TaskState::Working,
        TaskState::Completed => wire::TaskState::Completed,
        TaskState::Failed => wire::TaskState::Failed,
        TaskState::Canceled => wire::TaskState::Canceled,
        TaskState::Rejected => wire::TaskState::Rejected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-12-01T10:00:00Z".parse().unwrap()
    }

    fn task() -> Task {
        let parts = [wire::Part::text("hello"), wire::Part::data(json!({ "n": 1 }))];
        submitted("t1".into(), "c1".into(), "spiffe://td/a", "m1", &parts, now())
    }

    fn result(status: Status, text: &str, reason: Option<&str>) -> TurnResult {
        TurnResult {
            run_id: "t1".into(),
            status,
            text: text.into(),
            reason: reason.map(str::to_owned),
            transcript: Value::Null,
            steps: 1,
            tokens: 10,
            tool_calls: 0,
        }
    }

    #[test]
    fn a_message_survives_the_store_and_comes_back_as_it_was() {
        let stored: Task = serde_json::from_value(serde_json::to_value(task()).unwrap()).unwrap();
        assert_eq!(text_of(&stored), "hello\n\n{\"n\":1}");
        let wire = serde_json::to_value(wire_task(&stored)).unwrap();
        assert_eq!(
            wire,
            json!({
                "id": "t1", "contextId": "c1",
                "status": { "state": "TASK_STATE_SUBMITTED", "timestamp": "2026-12-01T10:00:00Z" },
                "history": [{
                    "messageId": "m1", "contextId": "c1", "taskId": "t1", "role": "ROLE_USER",
                    "parts": [{ "text": "hello" }, { "data": { "n": 1 } }],
                }],
            })
        );
    }

    #[test]
    fn an_answer_is_an_artifact_and_a_failure_says_why() {
        let done = ended(task(), &result(Status::Completed, "hi", None), "a1".into(), now());
        let wire = serde_json::to_value(wire_task(&done)).unwrap();
        assert_eq!(wire["status"]["state"], "TASK_STATE_COMPLETED");
        assert_eq!(
            wire["artifacts"],
            json!([{ "artifactId": "a1", "name": "answer", "parts": [{ "text": "hi" }] }])
        );

        let late = ended(task(), &result(Status::Deadline, "", None), "a1".into(), now());
        let wire = serde_json::to_value(wire_task(&late)).unwrap();
        assert_eq!(wire["status"]["state"], "TASK_STATE_FAILED");
        assert!(
            wire["status"]["message"]["parts"][0]["text"]
                .as_str()
                .unwrap()
                .contains("limits.run.deadline")
        );
        assert!(wire.get("artifacts").is_none());

        let broken = failed(task(), "the worker process was killed by SIGKILL".into(), now());
        assert_eq!(
            wire_task(&broken).status.message.unwrap().text(),
            Some("the worker process was killed by SIGKILL")
        );
    }

    #[test]
    fn an_empty_answer_is_a_valid_one() {
        let done = ended(task(), &result(Status::Completed, "", None), "a1".into(), now());
        assert_eq!((done.state, done.artifacts.len()), (TaskState::Completed, 0));
    }

    #[test]
    fn principals_who_choose_the_same_context_do_not_meet() {
        assert_ne!(
            conversation_key("spiffe://td/a", "c"),
            conversation_key("spiffe://td/b", "c")
        );
    }
}
