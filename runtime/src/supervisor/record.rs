//! From what is stored to what the wire shows, and the stored form of what a turn brought. Pure.

use agentd_a2a::{SendMessage, wire};
use agentd_agent::Status;
use agentd_state::{Message, Role, Task, TaskState};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::turns::TurnEnd;
use crate::worker::frame::TurnResult;

/// The name of the artifact that is the answer of a turn.
pub const ANSWER: &str = "answer";

/// A new task with the caller's message in it.
pub fn submitted(
    id: String,
    new_context: impl FnOnce() -> String,
    owner: &str,
    request: SendMessage,
    now: Timestamp,
) -> Task {
    Task {
        id,
        context_id: request.context_id.unwrap_or_else(new_context),
        owner: owner.to_owned(),
        state: TaskState::Submitted,
        updated_at: now,
        created_at: now,
        status_message: None,
        asked: None,
        history: vec![Message {
            id: request.message_id,
            role: Role::User,
            parts: serde_json::to_value(request.parts).unwrap_or_default(),
        }],
        artifacts: Vec::new(),
        hops: 0,
        trace: request.trace,
    }
}

/// The text of the caller's message, as the model reads it.
pub fn text_of(task: &Task) -> String {
    let user = task
        .history
        .iter()
        // Others are answers.
        .find(|message| message.role == Role::User);
    let request = SendMessage {
        message_id: String::new(),
        context_id: None,
        task_id: None,
        parts: user
            .map(|message| parts_of(message.parts.clone()))
            .unwrap_or_default(),
        return_immediately: false,
        push: None,
        trace: None,
    };
    request.text()
}

/// The answer of a task that has ended, in text.
pub fn answer_of(task: &Task) -> Option<String> {
    let parts = task
        .artifacts
        .iter()
        .filter_map(|artifact| artifact.get("parts")?.as_array());
    let texts = parts.flatten().filter_map(|part| part.get("text")?.as_str());
    let said = texts.collect::<Vec<_>>().join("\n");
    Some(said)
        .filter(|said| !said.is_empty())
        .or_else(|| task.status_message.clone())
}

/// The task after its turn.
pub fn ended(mut task: Task, result: &TurnResult, answer_id: String, now: Timestamp) -> Task {
    let (state, message) = verdict(result);
    task.state = state;
    task.updated_at = now;
    task.status_message = message;
    if !result.text.is_empty() {
        let parts = json!([{ "text": result.text }]);
        task.artifacts = vec![json!({ "artifactId": answer_id, "name": ANSWER, "parts": parts })];
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

/// The task that a caller has cancelled.
pub fn canceled(mut task: Task, reason: String, now: Timestamp) -> Task {
    task.state = TaskState::Canceled;
    task.updated_at = now;
    task.status_message = Some(reason);
    task
}

/// Why a task has failed whose turn the end of the process cut short; none when nothing of it was done, so that it may
/// be done by the next.
pub fn cut_short(end: &TurnEnd) -> Option<String> {
    let (calls, is_killed) = match end {
        TurnEnd::Done(result) => (result.tool_calls, false),
        TurnEnd::Broken { began: false, .. } => return None,
        TurnEnd::Broken { tool_calls, .. } => (*tool_calls, true),
    };
    let calls = match calls {
        0 if is_killed => "its worker was killed, and tools may have been called".to_owned(),
        0 => return None,
        1 => "one tool call had been made".to_owned(),
        calls => format!("{calls} tool calls had been made"),
    };
    Some(format!("the agent was stopped before it could answer; {calls}"))
}

fn verdict(result: &TurnResult) -> (TaskState, Option<String>) {
    let state = match result.status {
        Status::Completed => return (TaskState::Completed, None),
        Status::Cancelled | Status::Waiting => TaskState::Canceled,
        Status::Refused => TaskState::Rejected,
        Status::Failed
        | Status::ExhaustedSteps
        | Status::ExhaustedTokens
        | Status::Deadline
        | Status::ModelUnavailable
        | Status::LoopDetected => TaskState::Failed,
    };
    let why = result.reason.as_deref().or(words_of(result.status));
    (state, why.map(str::to_owned))
}

/// What ended a turn, when nobody says more about it; none of one that did what it was asked.
pub const fn words_of(status: Status) -> Option<&'static str> {
    match status {
        Status::Completed => None,
        Status::Cancelled => Some("the turn was cancelled"),
        Status::Refused => Some("the agent declined the task"),
        Status::Failed => Some("the turn failed"),
        Status::ExhaustedSteps => Some("the turn used up its steps (limits.run.steps)"),
        Status::ExhaustedTokens => Some("the turn used up its tokens (limits.run.tokens)"),
        Status::Deadline => Some("the turn used up its time (limits.run.deadline)"),
        Status::ModelUnavailable => Some("no model endpoint answered"),
        Status::LoopDetected => Some("the turn got nowhere"),
        Status::Waiting => Some("it was cancelled while it waited for an answer"),
    }
}

/// The task as callers see it.
pub fn wire_task(task: Task) -> wire::Task {
    let own = |message_id: String, role, parts| wire::Message {
        message_id,
        context_id: Some(task.context_id.clone()),
        task_id: Some(task.id.clone()),
        ..wire::Message::new(role, parts)
    };
    let asked = task.asked.filter(|_| task.state.is_interrupted());
    let asked = asked.map(|message| own(message.id, wire_role(message.role), parts_of(message.parts)));
    let said = task.status_message.map(|text| {
        // Stable, so that a task read twice is the same task.
        let id = format!("{}-status", task.id);
        own(id, wire::Role::Agent, vec![wire::Part::text(text)])
    });
    let history = task
        .history
        .into_iter()
        .map(|message| own(message.id, wire_role(message.role), parts_of(message.parts)))
        .collect();
    wire::Task {
        status: wire::TaskStatus {
            state: wire_state(task.state),
            message: asked.or(said),
            timestamp: wire::timestamp(task.updated_at),
        },
        artifacts: artifacts_of(task.artifacts),
        history: Some(history),
        metadata: None,
        id: task.id,
        context_id: task.context_id,
    }
}

fn wire_role(role: Role) -> wire::Role {
    match role {
        Role::User => wire::Role::User,
        Role::Agent => wire::Role::Agent,
    }
}

fn parts_of(parts: Value) -> Vec<wire::Part> {
    // Written by us from the same type.
    serde_json::from_value(parts).unwrap_or_default()
}

fn artifacts_of(artifacts: Vec<Value>) -> Option<Vec<wire::Artifact>> {
    let artifacts: Vec<wire::Artifact> = artifacts
        .into_iter()
        .filter_map(|artifact| serde_json::from_value(artifact).ok())
        .collect();
    (!artifacts.is_empty()).then_some(artifacts)
}

fn wire_state(state: TaskState) -> wire::TaskState {
    match state {
        TaskState::Submitted => wire::TaskState::Submitted,
        TaskState::Working => wire::TaskState::Working,
        TaskState::InputRequired => wire::TaskState::InputRequired,
        TaskState::AuthRequired => wire::TaskState::AuthRequired,
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
        let request = SendMessage {
            message_id: "m1".into(),
            context_id: None,
            task_id: None,
            parts: vec![wire::Part::text("hello"), wire::Part::data(json!({ "n": 1 }))],
            return_immediately: false,
            push: None,
            trace: None,
        };
        submitted("t1".into(), || "c1".into(), "spiffe://td/a", request, now())
    }

    fn result(status: Status, text: &str, reason: Option<&str>) -> TurnResult {
        TurnResult {
            run_id: "t1".into(),
            status,
            text: text.into(),
            reason: reason.map(str::to_owned),
            plain: None,
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
        let wire = serde_json::to_value(wire_task(stored)).unwrap();
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
        let wire = serde_json::to_value(wire_task(done)).unwrap();
        assert_eq!(wire["status"]["state"], "TASK_STATE_COMPLETED");
        assert_eq!(
            wire["artifacts"],
            json!([{ "artifactId": "a1", "name": "answer", "parts": [{ "text": "hi" }] }])
        );

        let late = ended(task(), &result(Status::Deadline, "", None), "a1".into(), now());
        let wire = serde_json::to_value(wire_task(late)).unwrap();
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
            wire_task(broken).status.message.unwrap().text(),
            Some("the worker process was killed by SIGKILL")
        );
    }

    #[test]
    fn what_a_drain_cut_short_is_done_again_only_if_nothing_of_it_was_done() {
        let done = |tool_calls| {
            TurnEnd::Done(Box::new(TurnResult {
                tool_calls,
                ..result(Status::Cancelled, "", None)
            }))
        };
        let broken = |began, tool_calls| TurnEnd::Broken {
            reason: "killed".into(),
            began,
            tool_calls,
        };
        for (end, says) in [
            (done(0), None),
            (done(1), Some("one tool call had been made")),
            (done(2), Some("2 tool calls had been made")),
            (broken(false, 0), None),
            (broken(true, 0), Some("tools may have been called")),
            (broken(true, 3), Some("3 tool calls had been made")),
        ] {
            let said = cut_short(&end);
            let fits = match (&said, says) {
                (Some(said), Some(says)) => said.ends_with(says),
                (said, says) => said.is_none() && says.is_none(),
            };
            assert!(fits, "{end:?}: {said:?}");
        }
    }

    #[test]
    fn an_empty_answer_is_a_valid_one() {
        let done = ended(task(), &result(Status::Completed, "", None), "a1".into(), now());
        assert_eq!((done.state, done.artifacts.len()), (TaskState::Completed, 0));
    }
}
