//! The neutral types: what every provider family is translated from and to. Serialised as they are stored.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::conversation::Conversation;
use crate::dialect::Dialect;

/// What a model is asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelRequest {
    /// Standing instructions; empty for none.
    pub system: String,
    /// The conversation. Every call of an assistant message has its result in the next message.
    pub messages: Conversation,
    /// What it may call.
    pub tools: Arc<[ToolSpec]>,
    /// The shape of the answer: its text is then JSON that should be of this schema. Whoever asks checks it.
    pub output_schema: Option<OutputSchema>,
    /// The longest answer. None: the provider's own bound.
    pub max_output_tokens: Option<u32>,
    /// Another model at the same endpoints than theirs.
    pub model: Option<String>,
}

/// The shape of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputSchema {
    /// For the provider: `^[a-zA-Z0-9_-]{1,64}$`.
    pub name: String,
    /// JSON Schema of the answer.
    pub schema: Map<String, Value>,
}

impl OutputSchema {
    /// Whether the answer is an object, as far as the schema says so at its top.
    pub(crate) fn is_object(&self) -> bool {
        self.schema.get("type").and_then(Value::as_str) == Some("object")
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// From the caller.
    User(String),
    /// From the model.
    Assistant(Vec<Block>),
    /// The results of the calls of the assistant message before it, in their order.
    Results(Vec<ToolResult>),
}

/// A piece of what a model said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text(String),
    /// A wish to call a tool.
    ToolCall(ToolCall),
    /// Something of the provider's own, such as its thinking: kept in its place and sent back as it was.
    Opaque(Opaque),
}

/// A block that only the provider understands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opaque {
    /// Whose form `value` has.
    pub dialect: Dialect,
    /// The endpoint and model that it came from. Others refuse it (signatures, encryption), so they are not sent it.
    pub origin: String,
    /// In the form of the dialect.
    pub value: Value,
}

/// A wish to call a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id; may be empty or used twice.
    pub id: String,
    /// The provider-safe name.
    pub name: String,
    /// The arguments.
    pub arguments: Arguments,
}

/// Arguments that nest deeper are no arguments: a transcript holds them some levels down, and what reads it, here and
/// at servers, ends at 128. No tool's schema comes near.
pub const ARGUMENT_LEVELS: usize = 64;

/// The arguments of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// An object, as tools take it.
    Object(Map<String, Value>),
    /// Not a JSON object of at most [`ARGUMENT_LEVELS`]: the text as it came.
    Invalid(String),
}

impl Arguments {
    /// From the text a model wrote. Nothing, blanks and `null` are no arguments.
    pub fn parse(text: &str) -> Self {
        match text.trim() {
            "" | "null" => Self::Object(Map::new()),
            trimmed => match serde_json::from_str(trimmed) {
                Ok(Value::Object(object))
                    if object
                        .values()
                        .all(|value| agentd_base::json::fits(value, ARGUMENT_LEVELS - 1)) =>
                {
                    Self::Object(object)
                }
                _ => Self::Invalid(text.to_owned()),
            },
        }
    }
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's id.
    pub call_id: String,
    /// For the model.
    pub content: String,
    /// It failed.
    pub is_error: bool,
}

/// A tool as it is offered to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// `^[a-zA-Z0-9_-]{1,64}$`.
    pub name: String,
    /// Empty for none.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Map<String, Value>,
}

/// What a model answered. No block at all is a valid answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelReply {
    /// In the order of the wire.
    pub blocks: Vec<Block>,
    /// Why it stopped.
    pub stop: Stop,
    /// What it cost.
    pub usage: Usage,
}

impl ModelReply {
    /// The texts, with a line break between them.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            Block::ToolCall(_) | Block::Opaque(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// Why a model stopped. Calls are carried out whatever it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It was done, or wants its calls carried out.
    End,
    /// It ran into a length limit.
    Length,
    /// It, or a filter, refused.
    Refused,
    /// Anything else.
    Other,
}

/// Tokens of one or more requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Read, whether from a cache or not.
    pub input: u64,
    /// Written, thinking included.
    pub output: u64,
    /// Those of `input` that came from the provider's cache.
    #[serde(default)]
    pub cached: u64,
}

impl Usage {
    /// Both ways.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached: self.cached.saturating_add(other.cached),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_an_object_or_kept_as_they_came() {
        for text in ["", "  ", "null", "{}", " {} "] {
            assert_eq!(Arguments::parse(text), Arguments::Object(Map::new()), "{text:?}");
        }
        let object = Arguments::parse(r#"{"a": 1}"#);
        assert_eq!(
            object,
            Arguments::Object(serde_json::from_str(r#"{"a": 1}"#).unwrap())
        );
        for text in ["{\"a\": 1", "[1]", "\"x\"", "7", "{} {}", "{'a': 1}"] {
            assert_eq!(
                Arguments::parse(text),
                Arguments::Invalid(text.into()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn arguments_that_nest_deeper_than_anything_reads_are_kept_as_they_came() {
        for (levels, is_object) in [
            (1, true),
            (64, true),
            (65, false),
            (119, false),
            (125, false),
            (100_000, false),
        ] {
            for (open, close) in [("[", "]"), ("{\"b\":", "}")] {
                let inner = levels - 1;
                let text = format!("{{\"a\":{}0{}}}", open.repeat(inner), close.repeat(inner));
                match Arguments::parse(&text) {
                    Arguments::Object(_) => assert!(is_object, "{levels}"),
                    Arguments::Invalid(kept) => assert!(!is_object && kept == text, "{levels}"),
                }
            }
        }
    }

    #[test]
    fn usage_never_overflows() {
        let most = Usage {
            input: u64::MAX,
            output: 1,
            cached: 3,
        };
        assert_eq!(most.total(), u64::MAX);
        assert_eq!(
            most.plus(most),
            Usage {
                input: u64::MAX,
                output: 2,
                cached: 6
            }
        );
    }
}
