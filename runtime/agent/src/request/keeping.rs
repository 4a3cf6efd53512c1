//! What a turn asks to be kept: the memory, artifacts, the plan of its conversation.

use agentd_base::duration::Duration;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One key of the memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The key.
    pub key: String,
}

/// A value to keep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemorySet {
    /// The key.
    pub key: String,
    /// Any JSON.
    pub value: Value,
    /// How long; none for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
}

/// A value for the end of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryPush {
    /// The key of the list.
    pub key: String,
    /// Any JSON.
    pub value: Value,
}

/// A page of names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// What they begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// How many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// One artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Id {
    /// Its id.
    pub id: String,
}

/// A document to keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactCreate {
    /// What it is called.
    pub name: String,
    /// Its media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// Its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The step of a workflow whose output it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<String>,
    /// Its name stands in no log and no list.
    #[serde(default)]
    pub sensitive: bool,
}

/// A plan to write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanCreate {
    /// What it is for.
    pub goal: String,
    /// Titles, or items.
    pub items: Vec<PlanItem>,
}

/// An item of a new plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PlanItem {
    /// Its title.
    Title(String),
    /// All of it.
    Item {
        /// Its title.
        title: String,
        /// More of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
}

/// Where an item of a plan stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Done.
    Done,
    /// Waits for something.
    Blocked,
    /// Given up.
    Cancelled,
}

/// A change of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanUpdate {
    /// The item's number, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// Where it stands now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ItemStatus>,
    /// What there is to say of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Another title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// More of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The work that moves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind: Option<Bind>,
    /// New items, after `item`, or at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insert: Option<Vec<PlanItem>>,
    /// All numbers in their new order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Vec<u32>>,
}

/// Work that an item of a plan follows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    /// A run of a workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// A subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    /// A task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}
