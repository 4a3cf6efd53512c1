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

/// Tokens over time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
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
    /// What happens when a budget is spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exhausted: Option<OnExhausted>,
}

/// One window of a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetWindow {
    /// second, minute, hour, day or week.
    pub per: BudgetPeriod,
    /// Tokens in it, both ways.
    #[schemars(range(min = 1))]
    pub tokens: i64,
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
