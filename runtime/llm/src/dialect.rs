//! The families of wire that are spoken.

use serde::{Deserialize, Serialize};

/// A family of wire. Serialised as in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// OpenAI Chat Completions, and the many servers that speak it.
    Openai,
    /// OpenAI Responses, without state at the provider.
    OpenaiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Amazon Bedrock Converse.
    Bedrock,
}
