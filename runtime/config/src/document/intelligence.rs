//! What a document says about the language model. Types only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::connection::Connection;

/// `intelligence`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Intelligence {
    /// In order of preference: the next is used when one is away. In env and flags a comma-separated list of URLs.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "endpoints")]
    pub endpoints: Vec<ModelEndpoint>,
    /// The model's name, as the endpoint knows it. There is no default model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The family of the endpoints' wire. Absent: `openai`.
    #[serde(skip_serializing_if = "super::is_default")]
    pub dialect: Dialect,
    /// How an answer of a given shape is asked for. Absent: `auto`.
    #[serde(skip_serializing_if = "super::is_default")]
    pub structured_output: StructuredOutput,
    /// What the whole agent may spend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

/// `intelligence.dialect`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// OpenAI Chat Completions: `/chat/completions`.
    #[default]
    Openai,
    /// OpenAI Responses: `/responses`.
    OpenaiResponses,
    /// Anthropic Messages: `/messages`.
    Anthropic,
    /// Amazon Bedrock Converse: `/model/<model>/converse`.
    Bedrock,
}

/// `intelligence.structured_output`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// The best that the dialect has.
    #[default]
    Auto,
    /// The provider's own JSON schema mode.
    JsonSchema,
    /// A tool that takes the answer.
    Tool,
    /// Words in the prompt.
    Prompt,
}

/// One entry of `intelligence.endpoints`; a bare string is its `url`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelEndpoint {
    /// A name for logs and metrics. Absent: the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The base, such as `https://gw.example/v1`; `/chat/completions` is appended.
    pub url: String,
    /// An in-cluster model server may be spoken to over plain `http://`.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub allow_plaintext: bool,
    /// Headers, credentials, TLS, clocks.
    #[serde(flatten)]
    pub connection: Connection,
}

/// A list whose entries may be bare URLs.
fn endpoints<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<ModelEndpoint>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Entry {
        Url(String),
        Full(Box<ModelEndpoint>),
    }
    let entries = Vec::<Entry>::deserialize(deserializer)?;
    Ok(entries
        .into_iter()
        .map(|entry| match entry {
            Entry::Url(url) => ModelEndpoint {
                url,
                ..ModelEndpoint::default()
            },
            Entry::Full(endpoint) => *endpoint,
        })
        .collect())
}
