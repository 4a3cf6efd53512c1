//! The reply body of Chat Completions, as lenient as real servers are sloppy: unknown fields are ignored, whatever may
//! be null or missing is. Pure; works on untrusted bytes.

use serde::Deserialize;
use serde_json::Value;

use crate::message::{Arguments, Block, ModelReply, Stop, ToolCall, Usage};

/// Without a count from the provider, a token is about this many bytes (contract/runtime.md section 0).
const BYTES_PER_TOKEN: usize = 4;
/// More calls in one answer than anybody means; the rest is not carried out.
const CALLS: usize = 128;

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<Counts>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Value,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: Value,
}

#[derive(Deserialize)]
struct Counts {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
}

/// The reply in a body; `sent` is the size of the request, for an estimate where the provider does not count.
pub(super) fn reply(body: &[u8], sent: usize) -> Result<ModelReply, String> {
    let reply: Reply = serde_json::from_slice(body).map_err(|error| format!("{error}"))?;
    let Some(choice) = reply.choices.into_iter().flatten().next() else {
        return Err(error_message(body).unwrap_or_else(|| "it holds no choice".to_owned()));
    };
    let mut blocks = Vec::new();
    let text = text(&choice.message.content);
    if !text.is_empty() {
        blocks.push(Block::Text(text));
    }
    let refusal = choice.message.refusal.filter(|refusal| !refusal.is_empty());
    let refused = refusal.is_some();
    blocks.extend(refusal.map(Block::Text));
    let calls = choice.message.tool_calls.into_iter().flatten().take(CALLS);
    blocks.extend(calls.map(|call| {
        Block::ToolCall(ToolCall {
            id: call.id.unwrap_or_default(),
            name: call.function.name,
            arguments: arguments(call.function.arguments),
        })
    }));
    let stop = match choice.finish_reason.as_deref() {
        _ if refused => Stop::Refused,
        None | Some("stop" | "tool_calls" | "function_call") => Stop::End,
        Some("length") => Stop::Length,
        Some("content_filter") => Stop::Refused,
        Some(_) => Stop::Other,
    };
    let usage = usage(reply.usage, sent, body.len());
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

/// A text of JSON, or (from some servers) the JSON itself.
fn arguments(value: Value) -> Arguments {
    match value {
        Value::String(text) => Arguments::parse(&text),
        Value::Object(object) => Arguments::Object(object),
        Value::Null => Arguments::Object(serde_json::Map::new()),
        other => Arguments::Invalid(other.to_string()),
    }
}

fn usage(counts: Option<Counts>, sent: usize, received: usize) -> Usage {
    let estimate = |bytes: usize| u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX);
    let (input, output) = counts.map_or((None, None), |counts| {
        (counts.prompt_tokens, counts.completion_tokens)
    });
    Usage {
        input: input.unwrap_or_else(|| estimate(sent)),
        output: output.unwrap_or_else(|| estimate(received)),
    }
}
