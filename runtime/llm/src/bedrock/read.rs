//! The reply body of Converse. Blocks that are no text and no call are kept for the provider. Pure; works on untrusted
//! bytes.

use serde_json::Value;

use crate::dialect::Dialect;
use crate::message::{Block, Stop};
use crate::wire::{self, Counts, Fault, Heard};

/// The reply in a body.
pub(crate) fn reply(body: &[u8]) -> Result<Heard, Fault> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| Fault::unreadable("it is no JSON", &error))?;
    let Some(content) = value.pointer("/output/message/content").and_then(Value::as_array) else {
        return Err(Fault::without("it holds no message", &value));
    };
    Ok(Heard {
        blocks: wire::bounded(content.iter().filter_map(block)),
        stop: stop(wire::text(&value, "stopReason")),
        counts: counts(value.get("usage").unwrap_or(&Value::Null)),
    })
}

fn block(block: &Value) -> Option<Block> {
    if let Some(text) = block.get("text").and_then(Value::as_str) {
        return (!text.is_empty()).then(|| Block::Text(text.to_owned()));
    }
    if let Some(call) = block.get("toolUse") {
        let arguments = wire::arguments(call.get("input").unwrap_or(&Value::Null));
        let (id, name) = (wire::text(call, "toolUseId"), wire::text(call, "name"));
        return Some(wire::call(id.to_owned(), name.to_owned(), arguments));
    }
    let is_something = block.as_object().is_some_and(|block| !block.is_empty());
    is_something.then(|| wire::opaque(Dialect::Bedrock, block.clone()))
}

pub(super) fn stop(reason: &str) -> Stop {
    match reason {
        "" | "end_turn" | "tool_use" | "stop_sequence" => Stop::End,
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "content_filtered" | "guardrail_intervened" | "refusal" => Stop::Refused,
        _ => Stop::Other,
    }
}

/// What was read from a cache or written into it is not in `inputTokens`.
pub(super) fn counts(usage: &Value) -> Counts {
    let cached = wire::count(usage, "/cacheReadInputTokens").unwrap_or(0);
    let kept = wire::count(usage, "/cacheWriteInputTokens").unwrap_or(0);
    Counts {
        input: wire::count(usage, "/inputTokens")
            .map(|input| input.saturating_add(cached).saturating_add(kept)),
        output: wire::count(usage, "/outputTokens"),
        cached,
    }
}
