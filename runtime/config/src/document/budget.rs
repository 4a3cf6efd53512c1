//! What a document says about spending on the language model. Types only.

use agentd_base::time_of_day::TimeOfDay;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `intelligence.budget`: for the whole agent, and kept over restarts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// All of them hold; at most 8.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// Tokens in all, ever. Absent: no such limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub lifetime_tokens: Option<u64>,
    /// What a model call does when a window is used up. Absent: `wait`.
    #[serde(skip_serializing_if = "super::is_default")]
    pub on_exhausted: Exhausted,
    /// Of `slow`.
    #[serde(skip_serializing_if = "super::is_default")]
    pub slow: Slow,
    /// Of `degrade`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degrade: Option<Degrade>,
    /// What a call is taken to need before its usage is known.
    #[serde(skip_serializing_if = "super::is_default")]
    pub reserve: Reserve,
}

/// One entry of `intelligence.budget.windows`: so much in each stretch of the calendar, in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The stretch.
    pub per: Per,
    /// Tokens, both ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens: Option<u64>,
    /// Model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub requests: Option<u64>,
    /// When a day or a week begins: `HH:MMZ`. Absent: midnight; weeks begin on Monday.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<TimeOfDay>,
}

/// `intelligence.budget.windows[].per`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// A week.
    Week,
}

/// `intelligence.budget.on_exhausted`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exhausted {
    /// Waits until the window opens again, within the turn's deadline.
    #[default]
    Wait,
    /// Spreads what is left of the window over its time.
    Slow,
    /// Asks the cheaper model of `degrade`.
    Degrade,
    /// Refuses the turn.
    Refuse,
    /// Fails the turn.
    Fail,
}

/// `intelligence.budget.slow`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Slow {
    /// The share of a window from which on calls are spread, 0.01 to 0.99. Absent: 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.01, max = 0.99))]
    pub factor: Option<f64>,
}

/// `intelligence.budget.reserve`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reserve {
    /// So many tokens for every call. Absent: what the request holds, estimated, and 4096 for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub fixed: Option<u64>,
}

/// `intelligence.budget.degrade`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Degrade {
    /// The model that is asked instead, at the same endpoints.
    pub model: String,
}
