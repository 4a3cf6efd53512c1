//! What 0.3 answers, member by member. Each borrows what 1.0 has.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

pub(super) type Metadata = HashMap<String, Value>;

/// `Task`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task<'a> {
    pub(super) kind: &'static str,
    pub(super) id: &'a str,
    pub(super) context_id: &'a str,
    pub(super) status: TaskStatus<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) artifacts: Option<Vec<Artifact<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) history: Option<Vec<Message<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<&'a Metadata>,
}

/// `TaskStatus`.
#[derive(Serialize)]
pub(super) struct TaskStatus<'a> {
    pub(super) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timestamp: &'a Option<chrono::DateTime<chrono::Utc>>,
}

/// `Message`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message<'a> {
    pub(super) kind: &'static str,
    pub(super) message_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) context_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task_id: Option<&'a str>,
    pub(super) role: &'static str,
    pub(super) parts: Vec<Part<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extensions: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reference_task_ids: Option<&'a [String]>,
}

/// `TextPart`, `FilePart` or `DataPart`.
#[derive(Serialize)]
pub(super) struct Part<'a> {
    #[serde(flatten)]
    pub(super) content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Cow<'a, Metadata>>,
}

/// What a part holds.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Content<'a> {
    Text {
        text: &'a str,
    },
    File {
        file: File<'a>,
    },
    Data {
        data: Cow<'a, serde_json::Map<String, Value>>,
    },
}

/// `FileWithBytes` or `FileWithUri`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
}

/// `Artifact`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Artifact<'a> {
    pub(super) artifact_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
    pub(super) parts: Vec<Part<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extensions: Option<&'a [String]>,
}

/// `TaskStatusUpdateEvent`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusUpdate<'a> {
    pub(super) kind: &'static str,
    pub(super) task_id: &'a str,
    pub(super) context_id: &'a str,
    pub(super) status: TaskStatus<'a>,
    /// Whether nothing comes after it in this stream.
    #[serde(rename = "final")]
    pub(super) is_final: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<&'a Metadata>,
}

/// `TaskArtifactUpdateEvent`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArtifactUpdate<'a> {
    pub(super) kind: &'static str,
    pub(super) task_id: &'a str,
    pub(super) context_id: &'a str,
    pub(super) artifact: Artifact<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) append: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_chunk: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<&'a Metadata>,
}
