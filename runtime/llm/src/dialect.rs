//! The families of wire that are spoken.

use serde::{Deserialize, Serialize};

/// A family of wire. Serialised as in the document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// OpenAI Chat Completions, and the many servers that speak it.
    #[default]
    Openai,
    /// OpenAI Responses, without state at the provider.
    OpenaiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Amazon Bedrock Converse.
    Bedrock,
}

/// How an answer of a given shape is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StructuredOutput {
    /// The best that the dialect has, and that the endpoint takes.
    #[default]
    Auto,
    /// The provider's own mode.
    JsonSchema,
    /// A tool that takes the answer.
    Tool,
    /// Words in the prompt.
    Prompt,
}
