//! The reply body of Chat Completions, as lenient as real servers are sloppy: unknown fields are ignored, whatever may
//! be null or missing is. Pure; works on untrusted bytes.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::{Arguments, Block, ModelReply, Stop, ToolCall, Usage};

/// Without a count from the provider, a token is about this many characters (contract/runtime.md section 0).
const CHARACTERS_PER_TOKEN: usize = 4;
/// More calls in one answer than anybody means; the rest is not carried out.
const CALLS: usize = 128;

/// What an answer cannot be without has a type; everything else is whatever came, so that none of it costs an answer
/// that is paid for.
#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    #[serde(default)]
    finish_reason: Value,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Value,
    #[serde(default)]
    refusal: Value,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: Value,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    /// As it came: however deep it is nested, it is no fault of the reply.
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
}

/// The reply in a body; `sent` is the request, for an estimate where the provider does not count.
pub(super) fn reply(body: &[u8], sent: &[u8]) -> Result<ModelReply, String> {
    let reply: Reply = serde_json::from_slice(body).map_err(|error| format!("{error}"))?;
    let Some(choice) = reply.choices.into_iter().flatten().next() else {
        return Err(error_message(body).unwrap_or_else(|| "it holds no choice".to_owned()));
    };
    let mut blocks = Vec::new();
    let text = text(&choice.message.content);
    if !text.is_empty() {
        blocks.push(Block::Text(text));
    }
    let refusal = choice
        .message
        .refusal
        .as_str()
        .filter(|refusal| !refusal.is_empty());
    let refused = refusal.is_some();
    blocks.extend(refusal.map(|refusal| Block::Text(refusal.to_owned())));
    let calls = choice.message.tool_calls.into_iter().flatten().take(CALLS);
    blocks.extend(calls.map(|call| {
        Block::ToolCall(ToolCall {
            id: id(call.id),
            name: call.function.name,
            arguments: arguments(call.function.arguments.as_deref()),
        })
    }));
    let stop = match (choice.finish_reason.as_str(), choice.finish_reason.is_null()) {
        _ if refused => Stop::Refused,
        (_, true) | (Some("stop" | "tool_calls" | "function_call"), _) => Stop::End,
        (Some("length"), _) => Stop::Length,
        (Some("content_filter"), _) => Stop::Refused,
        _ => Stop::Other,
    };
    let usage = usage(&reply.usage, sent, body);
    Ok(ModelReply { blocks, stop, usage })
}

/// `error.message`, `error` or `message` of a body.
pub(super) fn error_message(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let places = ["/error/message", "/error", "/message", "/detail"];
    places
        .iter()
        .find_map(|place| value.pointer(place)?.as_str())
        .map(str::to_owned)
}

/// Text, or the texts of a list of parts.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// A text; some servers count their calls.
fn id(value: Value) -> String {
    match value {
        Value::String(id) => id,
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// A text of JSON, or (from some servers) the JSON itself.
fn arguments(wire: Option<&RawValue>) -> Arguments {
    let wire = wire.map(RawValue::get).unwrap_or_default();
    match serde_json::from_str::<String>(wire) {
        Ok(text) => Arguments::parse(&text),
        Err(_) => Arguments::parse(wire),
    }
}

fn usage(counts: &Value, sent: &[u8], received: &[u8]) -> Usage {
    let count = |key, text| {
        let counted = counts.get(key).and_then(Value::as_u64);
        counted.unwrap_or_else(|| estimate(text))
    };
    Usage {
        input: count("prompt_tokens", sent),
        output: count("completion_tokens", received),
        cached: 0,
    }
}

/// The tokens of a text in UTF-8: every byte but a continuation begins a character.
fn estimate(text: &[u8]) -> u64 {
    let characters = text.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
    u64::try_from(characters.div_ceil(CHARACTERS_PER_TOKEN)).unwrap_or(u64::MAX)
}
