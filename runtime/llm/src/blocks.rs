//! Conversations as Anthropic and Bedrock take them: roles alternate, and each message is a list of content blocks. How
//! one block is written is the dialect's.

use serde_json::{Value, json};

use crate::message::{Block, Message, ToolCall, ToolResult};
use crate::wire::Ask;

/// Stands where a text is needed and there is none: blank ones are refused.
const EMPTY: &str = "(empty)";

/// How a dialect writes its blocks.
pub(crate) struct Blocks<'a> {
    pub(crate) text: fn(&str) -> Value,
    pub(crate) call: &'a dyn Fn(&ToolCall) -> Value,
    pub(crate) result: fn(&ToolResult) -> Value,
}

impl Blocks<'_> {
    /// Roles alternate; results come before the caller's next words.
    pub(crate) fn messages(&self, ask: &Ask<'_>) -> Vec<(&'static str, Vec<Value>)> {
        let mut list: Vec<(&str, Vec<Value>)> = Vec::new();
        for message in ask.request.messages.iter() {
            let (role, blocks) = match message {
                Message::User(text) => ("user", vec![(self.text)(filled(text))]),
                Message::Assistant(blocks) => ("assistant", self.assistant(blocks, ask)),
                Message::Results(results) => ("user", results.iter().map(self.result).collect()),
            };
            match list.last_mut() {
                _ if blocks.is_empty() => {}
                Some((last, before)) if *last == role => before.extend(blocks),
                _ => list.push((role, blocks)),
            }
        }
        list
    }

    /// An answer's blocks. Thinking that nothing follows is left out: an answer may not end with it.
    fn assistant(&self, blocks: &[Block], ask: &Ask<'_>) -> Vec<Value> {
        let (mut list, mut own) = (Vec::new(), Vec::new());
        for block in blocks {
            let written = match block {
                Block::Opaque(opaque) => {
                    own.extend(ask.takes(opaque).then(|| opaque.value.clone()));
                    continue;
                }
                Block::Text(text) if text.trim().is_empty() => continue,
                Block::Text(text) => (self.text)(text),
                Block::ToolCall(call) => (self.call)(call),
            };
            list.append(&mut own);
            list.push(written);
        }
        list
    }
}

/// The messages as both write them.
pub(crate) fn written(messages: Vec<(&'static str, Vec<Value>)>) -> Value {
    messages
        .into_iter()
        .map(|(role, content)| json!({"role": role, "content": content}))
        .collect()
}

/// A text that is not refused for being blank.
pub(crate) fn filled(text: &str) -> &str {
    if text.trim().is_empty() { EMPTY } else { text }
}
