//! The request body of Chat Completions. Pure; the same request gives the same bytes.

use serde_json::{Map, Value, json};

use crate::body::Object;
use crate::message::{Block, Message, Opaque, ToolCall, ToolSpec};
use crate::schema::{self, Profile};
use crate::wire::{Ask, Way, written};

/// The body.
pub(crate) fn request(ask: &Ask<'_>) -> Vec<u8> {
    let mut body = Object::new();
    body.put("model", ask.model);
    body.put("messages", messages(ask));
    if let Some(tools) = ask.tools(tool) {
        body.put_written("tools", &tools);
    }
    if ask.shape(Way::Tool).is_some() && !ask.quirks.no_tool_choice {
        body.put("tool_choice", "required");
    }
    if let Some(shape) = ask.shape(Way::JsonSchema) {
        let schema = Value::Object(shape.schema.clone());
        let strict = schema::is_strict(&schema);
        body.put("response_format", json!({"type": "json_schema", "json_schema": {"name": shape.name, "schema": schema, "strict": strict}}),
        );
    }
    if let Some(most) = ask.request.max_output_tokens {
        let key = if is_reasoning(ask.model) == ask.quirks.other_limit {
            "max_tokens"
        } else {
            "max_completion_tokens"
        };
        body.put(key, most);
    }
    body.put("stream", ask.stream);
    if ask.stream && !ask.quirks.no_stream_options {
        body.put("stream_options", json!({"include_usage": true}));
    }
    body.end()
}

/// OpenAI's reasoning models refuse `max_tokens`, many other servers know nothing else.
fn is_reasoning(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    ["o1", "o3", "o4", "gpt-5"]
        .iter()
        .any(|family| name.starts_with(family))
}

fn messages(ask: &Ask<'_>) -> Value {
    let mut list = Vec::new();
    let system = ask.system();
    if !system.is_empty() {
        list.push(json!({"role": "system", "content": system}));
    }
    for message in &ask.request.messages {
        match message {
            Message::User(text) => list.push(json!({"role": "user", "content": text})),
            Message::Assistant(blocks) => list.extend(assistant(blocks, ask)),
            Message::Results(results) => list.extend(results.iter().map(
                |result| json!({"role": "tool", "tool_call_id": result.call_id, "content": result.content}),
            )),
        }
    }
    Value::Array(list)
}

/// An answer; none where there is neither text nor call.
fn assistant(blocks: &[Block], ask: &Ask<'_>) -> Option<Value> {
    let mut texts = Vec::new();
    let mut calls = Vec::new();
    let mut own = None;
    for block in blocks {
        match block {
            Block::Text(text) => texts.push(text.as_str()),
            Block::ToolCall(wish) => calls.push(call(wish, ask)),
            Block::Opaque(opaque) => own = own.or(ask.takes(opaque).then_some(opaque)),
        }
    }
    // Without text, providers want null beside calls.
    let content = match (texts.is_empty(), calls.is_empty()) {
        (true, true) => return None,
        (true, false) => Value::Null,
        (false, _) => texts.join("\n").into(),
    };
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), content);
    if let Some(Opaque { value, .. }) = own {
        add(&mut message, value.get("message"));
        let of_calls = value.get("calls").and_then(Value::as_array);
        for (call, more) in calls.iter_mut().zip(of_calls.into_iter().flatten()) {
            if let Value::Object(call) = call {
                add(call, Some(more));
            }
        }
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), Value::Array(calls));
    }
    Some(Value::Object(message))
}

/// The server's own fields, beside ours.
fn add(object: &mut Map<String, Value>, more: Option<&Value>) {
    for (name, value) in more.and_then(Value::as_object).into_iter().flatten() {
        object.entry(name.clone()).or_insert_with(|| value.clone());
    }
}

fn call(call: &ToolCall, ask: &Ask<'_>) -> Value {
    let arguments = written(&call.arguments).to_string();
    let name = ask.names.wire(&call.name);
    json!({"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn tool(tool: &ToolSpec, ask: &Ask<'_>, profile: Profile) -> Value {
    let mut function = Map::new();
    function.insert("name".into(), ask.names.wire(&tool.name).into());
    function.insert("parameters".into(), schema::fit(&tool.input_schema, profile));
    if !tool.description.is_empty() {
        function.insert("description".into(), tool.description.clone().into());
    }
    json!({"type": "function", "function": function})
}
