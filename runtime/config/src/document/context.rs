//! What a document says about how much of a conversation the model is shown. Types only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `context`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Context {
    /// The share of the model's window at which what was said before is summarised, 0.05 to 1. Absent: 0.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.05, max = 1.0))]
    pub compact_at: Option<f64>,
    /// Messages that stay as they are. Absent: 12.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub keep_last: Option<u32>,
    /// Tokens that the model takes. Absent: by the model's name, else 128 000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1024))]
    pub model_window: Option<u64>,
    /// The plan of a conversation.
    #[serde(skip_serializing_if = "super::is_default")]
    pub plan: Plan,
}

/// `context.plan`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// Absent: 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_items: Option<u32>,
}
