//! The reply body of Messages. Blocks that are no text and no call are kept for the provider. Pure; works on untrusted
//! bytes.

use serde_json::Value;

use crate::dialect::Dialect;
use crate::message::{Block, Stop};
use crate::wire::{self, Counts, Fault, Heard};

/// The reply in a body.
pub(crate) fn reply(body: &[u8]) -> Result<Heard, Fault> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| Fault::unreadable("it is no JSON", &error))?;
    if wire::text(&value, "type") == "error" {
        return Err(failure(&value));
    }
    let Some(content) = value.get("content").and_then(Value::as_array) else {
        return Err(Fault::without("it holds no content", &value));
    };
    Ok(Heard {
        blocks: wire::bounded(content.iter().filter_map(block)),
        stop: stop(wire::text(&value, "stop_reason")),
        counts: counts(value.get("usage").unwrap_or(&Value::Null)),
    })
}

fn block(block: &Value) -> Option<Block> {
    match wire::text(block, "type") {
        "text" => {
            let text = wire::text(block, "text");
            (!text.is_empty()).then(|| Block::Text(text.to_owned()))
        }
        "tool_use" => {
            let arguments = wire::arguments(block.get("input").unwrap_or(&Value::Null));
            Some(wire::call(
                wire::text(block, "id").to_owned(),
                wire::text(block, "name").to_owned(),
                arguments,
            ))
        }
        "" => None,
        _ => Some(wire::opaque(Dialect::Anthropic, block.clone())),
    }
}

pub(super) fn stop(reason: &str) -> Stop {
    match reason {
        "" | "end_turn" | "tool_use" | "stop_sequence" => Stop::End,
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "refusal" => Stop::Refused,
        _ => Stop::Other,
    }
}

/// What was read from a cache or written into it is not in `input_tokens`.
pub(super) fn counts(usage: &Value) -> Counts {
    let cached = wire::count(usage, "/cache_read_input_tokens").unwrap_or(0);
    let kept = wire::count(usage, "/cache_creation_input_tokens").unwrap_or(0);
    Counts {
        input: wire::count(usage, "/input_tokens")
            .map(|input| input.saturating_add(cached).saturating_add(kept)),
        output: wire::count(usage, "/output_tokens"),
        cached,
    }
}

/// An error of the provider, in a body or an event.
pub(super) fn failure(value: &Value) -> Fault {
    let (message, _) =
        wire::error_words(value).unwrap_or_else(|| ("an error without words".to_owned(), String::new()));
    let kind = value
        .pointer("/error/type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    Fault::Status(super::status(kind), wire::with_code(message, kind))
}
