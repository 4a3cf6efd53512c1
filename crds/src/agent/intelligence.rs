//! `spec.intelligence`: the language model, and what may be spent on it.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::{Destination, Opaque};

/// The language model. Exactly one of endpoints, ref.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.endpoints) != has(self.ref)").message("exactly one of endpoints, ref"))]
pub struct Intelligence {
    /// In order of preference: the next is used when one is away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub endpoints: Vec<ModelEndpoint>,
    /// Reserved.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<Opaque>,
    /// The model's name, as the endpoints know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub model: Option<String>,
    /// The wire family of the endpoints.
    #[serde(default)]
    pub dialect: Dialect,
    /// Tokens over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

/// Wire families.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum Dialect {
    #[default]
    Openai,
    OpenaiResponses,
    Anthropic,
    Bedrock,
}

/// One model endpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelEndpoint {
    /// A name for logs and messages.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The base of the API over https, such as https://gw.example/v1.
    #[schemars(length(max = 2048))]
    pub url: String,
    /// Lets url be http:// for a model server inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_plaintext: Option<bool>,
    /// Headers, credentials, TLS, clocks.
    #[serde(flatten)]
    pub destination: Destination,
}

/// Tokens over time, of the whole agent, and kept over restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.degrade) == (has(self.onExhausted) && self.onExhausted == 'degrade')")
    .message("onExhausted degrade needs degrade.model, the cheaper model; without it remove degrade"))]
pub struct Budget {
    /// Every window holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub windows: Vec<BudgetWindow>,
    /// For the life of the Agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub lifetime_tokens: Option<i64>,
    /// What a model call does when a budget is spent. Absent: wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exhausted: Option<OnExhausted>,
    /// The model of onExhausted degrade.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degrade: Option<Degrade>,
}

/// Another model for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Degrade {
    /// Its name, at the same endpoints.
    #[schemars(length(min = 1, max = 256))]
    pub model: String,
}

/// One window of a budget: so much in each stretch of the calendar, in UTC. At least one of tokens, requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.tokens) || has(self.requests)").message("at least one of tokens, requests"))]
pub struct BudgetWindow {
    /// second, minute, hour, day or week.
    pub per: BudgetPeriod,
    /// Tokens in it, both ways.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens: Option<i64>,
    /// Model calls in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub requests: Option<i64>,
    /// When a day or a week begins, as HH:MMZ. Absent: midnight; weeks begin on Monday.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 6), regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]Z$"))]
    pub reset: Option<String>,
}

/// The length of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum BudgetPeriod {
    Second,
    Minute,
    Hour,
    Day,
    Week,
}

/// What happens when a budget is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum OnExhausted {
    Wait,
    Slow,
    Degrade,
    Refuse,
    Fail,
}
