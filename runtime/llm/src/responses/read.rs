//! The reply body of Responses: a list of items. Those that are no text and no call of ours are kept for the provider.
//! Pure; works on untrusted bytes.

use serde_json::{Map, Value};

use crate::dialect::Dialect;
use crate::message::{Block, Stop};
use crate::openai;
use crate::wire::{self, Counts, Fault, Heard};

/// Fields of a message that are ours, or of one exchange only.
const MESSAGE_FIELDS: [&str; 5] = ["type", "id", "role", "status", "content"];

/// The reply in a body.
pub(crate) fn reply(body: &[u8]) -> Result<Heard, Fault> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| Fault::unreadable("it is no JSON", &error))?;
    response(&value, &[])
}

/// The reply in a response object; `items` are those that came before it, for servers that leave them out of it.
pub(super) fn response(value: &Value, items: &[Value]) -> Result<Heard, Fault> {
    if value.get("error").is_some_and(|error| !error.is_null()) || wire::text(value, "status") == "failed" {
        return Err(failure(value));
    }
    let output = value.get("output").and_then(Value::as_array).map(Vec::as_slice);
    let output = match output {
        Some([]) | None if !items.is_empty() => items,
        Some(output) => output,
        None => return Err(Fault::malformed("it holds no output")),
    };
    let mut blocks = Vec::new();
    let mut has_refused = false;
    for item in output {
        has_refused |= take(item, &mut blocks);
    }
    let stop = match (wire::text(value, "status"), reason(value)) {
        _ if has_refused => Stop::Refused,
        ("incomplete", "max_output_tokens") => Stop::Length,
        ("incomplete", "content_filter") => Stop::Refused,
        ("incomplete" | "cancelled", _) => Stop::Other,
        _ => Stop::End,
    };
    let usage = value.get("usage").unwrap_or(&Value::Null);
    Ok(Heard {
        blocks: wire::bounded(blocks.into_iter()),
        stop,
        counts: Counts {
            input: wire::count(usage, "/input_tokens"),
            output: wire::count(usage, "/output_tokens"),
            cached: wire::count(usage, "/input_tokens_details/cached_tokens").unwrap_or(0),
        },
    })
}

fn reason(value: &Value) -> &str {
    let reason = value
        .pointer("/incomplete_details/reason")
        .and_then(Value::as_str);
    reason.unwrap_or_default()
}

/// Takes up an item; whether it is a refusal.
fn take(item: &Value, blocks: &mut Vec<Block>) -> bool {
    match wire::text(item, "type") {
        "message" => message(item, blocks),
        "function_call" => {
            let id = ["call_id", "id"]
                .iter()
                .map(|field| wire::text(item, field))
                .find(|id| !id.is_empty());
            let arguments = wire::arguments(item.get("arguments").unwrap_or(&Value::Null));
            let name = wire::text(item, "name").to_owned();
            blocks.push(wire::call(id.unwrap_or_default().to_owned(), name, arguments));
            false
        }
        "reasoning" => {
            // Without its encrypted content it is a reference to something that was not stored.
            if !wire::text(item, "encrypted_content").is_empty() {
                blocks.push(wire::opaque(Dialect::OpenaiResponses, without_status(item)));
            }
            false
        }
        "" => false,
        _ => {
            blocks.push(wire::opaque(Dialect::OpenaiResponses, without_status(item)));
            false
        }
    }
}

fn without_status(item: &Value) -> Value {
    let mut item = item.clone();
    if let Value::Object(object) = &mut item {
        object.remove("status");
    }
    item
}

fn message(item: &Value, blocks: &mut Vec<Block>) -> bool {
    let mut texts = Vec::new();
    let mut has_refused = false;
    match item.get("content") {
        Some(Value::String(text)) => texts.push(text.as_str()),
        Some(Value::Array(parts)) => {
            for part in parts {
                let refusal = wire::text(part, "refusal");
                has_refused |= !refusal.is_empty();
                texts.extend([wire::text(part, "text"), refusal]);
            }
        }
        _ => {}
    }
    texts.retain(|text| !text.is_empty());
    let fields = item.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, value)| !MESSAGE_FIELDS.contains(&name.as_str()) && !value.is_null());
    let mut own: Map<String, Value> = fields
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !own.is_empty() && !texts.is_empty() {
        own.insert("type".into(), "message".into());
        blocks.push(wire::opaque(Dialect::OpenaiResponses, Value::Object(own)));
    }
    blocks.extend(texts.into_iter().map(|text| Block::Text(text.to_owned())));
    has_refused
}

/// An error of the provider, in a response or an event.
pub(super) fn failure(value: &Value) -> Fault {
    let (message, code) =
        wire::error_words(value).unwrap_or_else(|| ("it failed without words".to_owned(), String::new()));
    let status = openai::status(&code).unwrap_or(500);
    Fault::Status(status, wire::with_code(message, &code))
}
