//! The request body of Responses. Pure; the same request gives the same bytes.

use serde_json::{Map, Value, json};

use crate::body::Object;
use crate::message::{Block, Message, ToolSpec};
use crate::schema::{self, Profile};
use crate::wire::{Ask, Way, written_text};

/// The body.
pub(crate) fn request(ask: &Ask<'_>) -> Vec<u8> {
    let mut body = Object::with_room(ask.shelf.room());
    body.put("model", ask.model);
    let system = ask.system();
    if !system.is_empty() {
        body.put("instructions", system);
    }
    body.put("input", input(ask));
    if let Some(tools) = ask.tools(tool) {
        body.put_written("tools", &tools);
    }
    if ask.shape(Way::Tool).is_some() && !ask.quirks.no_tool_choice {
        body.put("tool_choice", "required");
    }
    if let Some(shape) = ask.shape(Way::JsonSchema) {
        let schema = Value::Object(shape.schema.clone());
        let strict = schema::is_strict(&schema);
        body.put("text", json!({"format": {"type": "json_schema", "name": shape.name, "schema": schema, "strict": strict}}),
        );
    }
    if let Some(most) = ask.request.max_output_tokens {
        body.put("max_output_tokens", most);
    }
    body.put("store", false);
    if !ask.quirks.no_encryption {
        body.put("include", json!(["reasoning.encrypted_content"]));
    }
    body.put("stream", ask.stream);
    body.end()
}

fn input(ask: &Ask<'_>) -> Value {
    let mut items = Vec::new();
    for message in ask.request.messages.iter() {
        match message {
            Message::User(text) => items.push(json!({"role": "user", "content": text})),
            Message::Assistant(blocks) => assistant(blocks, ask, &mut items),
            Message::Results(results) => items.extend(results.iter().map(
                |result| json!({"type": "function_call_output", "call_id": result.call_id, "output": result.content}),
            )),
        }
    }
    Value::Array(items)
}

/// The items of an answer in their order. One of the provider's own that nothing follows is left out: it is refused
/// without what it led to.
fn assistant(blocks: &[Block], ask: &Ask<'_>, items: &mut Vec<Value>) {
    let mut own = Vec::new();
    let mut fields = Map::new();
    for block in blocks {
        match block {
            Block::Opaque(opaque) if !ask.takes(opaque) => {}
            Block::Opaque(opaque) if is_message(&opaque.value) => {
                fields = opaque.value.as_object().cloned().unwrap_or_default();
            }
            Block::Opaque(opaque) => own.push(opaque.value.clone()),
            Block::Text(text) => {
                items.append(&mut own);
                let mut message = json!({"role": "assistant", "content": text});
                if let Value::Object(message) = &mut message {
                    for (name, value) in std::mem::take(&mut fields) {
                        message.entry(name).or_insert(value);
                    }
                }
                items.push(message);
            }
            Block::ToolCall(call) => {
                items.append(&mut own);
                let name = ask.names.wire(&call.name);
                let arguments = written_text(&call.arguments);
                items.push(json!({"type": "function_call", "call_id": call.id, "name": name, "arguments": arguments}));
            }
        }
    }
}

/// Fields of the message that follows, rather than an item.
fn is_message(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str) == Some("message")
}

fn tool(tool: &ToolSpec, ask: &Ask<'_>, profile: Profile) -> Value {
    let mut spec = Map::new();
    spec.insert("type".into(), "function".into());
    spec.insert("name".into(), ask.names.wire(&tool.name).into());
    if !tool.description.is_empty() {
        spec.insert("description".into(), tool.description.clone().into());
    }
    spec.insert("parameters".into(), schema::fit(&tool.input_schema, profile));
    // Without it, strict is the default here, and most schemas are not.
    spec.insert("strict".into(), false.into());
    Value::Object(spec)
}
