//! Results and events of 1.0 as 0.3 says them. What 0.3 has no member for is left out: the media type and the file name of
//! text and data.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::types::{Artifact, ArtifactUpdate, Content, File, Message, Part, StatusUpdate, Task, TaskStatus};
use crate::wire;

/// The mark of data that is no object and so stands in one, under `value`: the SDKs that speak both versions have it.
pub(super) const WRAPPED: &str = "data_part_compat";

/// A task, as an answer or as an event.
pub(crate) fn task(task: &wire::Task) -> serde_json::Result<Value> {
    serde_json::to_value(Task {
        kind: "task",
        id: &task.id,
        context_id: &task.context_id,
        status: status(&task.status),
        artifacts: task
            .artifacts
            .as_deref()
            .map(|all| all.iter().map(artifact).collect()),
        history: task
            .history
            .as_deref()
            .map(|all| all.iter().map(message).collect()),
        metadata: task.metadata.as_ref(),
    })
}

/// An event of a stream; `is_last` when the stream ends with it.
pub(crate) fn event(event: &wire::StreamResponse, is_last: bool) -> serde_json::Result<Value> {
    match event {
        wire::StreamResponse::Task(one) => task(one),
        wire::StreamResponse::Message(one) => serde_json::to_value(message(one)),
        wire::StreamResponse::StatusUpdate(update) => serde_json::to_value(StatusUpdate {
            kind: "status-update",
            task_id: &update.task_id,
            context_id: &update.context_id,
            status: status(&update.status),
            is_final: is_last,
            metadata: update.metadata.as_ref(),
        }),
        wire::StreamResponse::ArtifactUpdate(update) => serde_json::to_value(ArtifactUpdate {
            kind: "artifact-update",
            task_id: &update.task_id,
            context_id: &update.context_id,
            artifact: artifact(&update.artifact),
            append: update.append,
            last_chunk: update.last_chunk,
            metadata: update.metadata.as_ref(),
        }),
    }
}

/// The end of a stream that has no more than this task: a task cannot say that it is the last event.
pub(crate) fn end(task: &wire::Task) -> serde_json::Result<Value> {
    serde_json::to_value(StatusUpdate {
        kind: "status-update",
        task_id: &task.id,
        context_id: &task.context_id,
        status: status(&task.status),
        is_final: true,
        metadata: None,
    })
}

fn status(status: &wire::TaskStatus) -> TaskStatus<'_> {
    TaskStatus {
        state: state(&status.state),
        message: status.message.as_ref().map(message),
        timestamp: &status.timestamp,
    }
}

const fn state(state: &wire::TaskState) -> &'static str {
    match state {
        wire::TaskState::Submitted => "submitted",
        wire::TaskState::Working => "working",
        wire::TaskState::InputRequired => "input-required",
        wire::TaskState::AuthRequired => "auth-required",
        wire::TaskState::Completed => "completed",
        wire::TaskState::Failed => "failed",
        wire::TaskState::Canceled => "canceled",
        wire::TaskState::Rejected => "rejected",
        wire::TaskState::Unspecified => "unknown",
    }
}

/// Who is not said to be the caller is the agent: 0.3 has no third.
const fn role(role: &wire::Role) -> &'static str {
    match role {
        wire::Role::User => "user",
        wire::Role::Agent | wire::Role::Unspecified => "agent",
    }
}

fn message(message: &wire::Message) -> Message<'_> {
    Message {
        kind: "message",
        message_id: &message.message_id,
        context_id: message.context_id.as_deref(),
        task_id: message.task_id.as_deref(),
        role: role(&message.role),
        parts: message.parts.iter().map(part).collect(),
        metadata: message.metadata.as_ref(),
        extensions: message.extensions.as_deref(),
        reference_task_ids: message.reference_task_ids.as_deref(),
    }
}

fn artifact(artifact: &wire::Artifact) -> Artifact<'_> {
    Artifact {
        artifact_id: &artifact.artifact_id,
        name: artifact.name.as_deref(),
        description: artifact.description.as_deref(),
        parts: artifact.parts.iter().map(part).collect(),
        metadata: artifact.metadata.as_ref(),
        extensions: artifact.extensions.as_deref(),
    }
}

fn part(part: &wire::Part) -> Part<'_> {
    let file = |bytes, uri| Content::File {
        file: File {
            bytes,
            uri,
            mime_type: part.media_type.as_deref(),
            name: part.filename.as_deref(),
        },
    };
    let content = match &part.content {
        wire::PartContent::Text(text) => Content::Text { text },
        wire::PartContent::Raw(bytes) => file(Some(STANDARD.encode(bytes)), None),
        wire::PartContent::Url(url) => file(None, Some(url)),
        wire::PartContent::Data(Value::Object(data)) => Content::Data {
            data: Cow::Borrowed(data),
        },
        wire::PartContent::Data(other) => return wrapped(part, other),
    };
    Part {
        content,
        metadata: part.metadata.as_ref().map(Cow::Borrowed),
    }
}

fn wrapped<'a>(part: &'a wire::Part, value: &Value) -> Part<'a> {
    let mut metadata: HashMap<String, Value> = part.metadata.clone().unwrap_or_default();
    metadata.insert(WRAPPED.to_owned(), Value::Bool(true));
    let data = Map::from_iter([("value".to_owned(), value.clone())]);
    Part {
        content: Content::Data {
            data: Cow::Owned(data),
        },
        metadata: Some(Cow::Owned(metadata)),
    }
}
