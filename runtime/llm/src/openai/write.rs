//! The request body of Chat Completions. Pure; the same request gives the same bytes.

use serde_json::{Map, Value, json};

use crate::message::{Arguments, Block, Message, ModelRequest, ToolCall, ToolSpec};

/// The body.
pub(super) fn request(model: &str, request: &ModelRequest) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".into(), model.into());
    body.insert("messages".into(), messages(request));
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(tool).collect());
    }
    body.insert("stream".into(), false.into());
    Value::Object(body).to_string().into_bytes()
}

fn messages(request: &ModelRequest) -> Value {
    let mut list = Vec::new();
    if !request.system.is_empty() {
        list.push(json!({"role": "system", "content": request.system}));
    }
    for message in &request.messages {
        match message {
            Message::User(text) => list.push(json!({"role": "user", "content": text})),
            Message::Assistant(blocks) => list.push(assistant(blocks)),
            Message::Results(results) => list.extend(results.iter().map(
                |result| json!({"role": "tool", "tool_call_id": result.call_id, "content": result.content}),
            )),
        }
    }
    Value::Array(list)
}

fn assistant(blocks: &[Block]) -> Value {
    let mut texts = Vec::new();
    let mut calls = Vec::new();
    for block in blocks {
        match block {
            Block::Text(text) => texts.push(text.as_str()),
            Block::ToolCall(wish) => calls.push(call(wish)),
            Block::Opaque(_) => {}
        }
    }
    // Without text, providers want null beside calls and refuse it without.
    let content = if texts.is_empty() && !calls.is_empty() {
        Value::Null
    } else {
        texts.join("\n").into()
    };
    let mut message = json!({"role": "assistant", "content": content});
    if let (false, Some(object)) = (calls.is_empty(), message.as_object_mut()) {
        object.insert("tool_calls".into(), Value::Array(calls));
    }
    message
}

fn call(call: &ToolCall) -> Value {
    // Some servers parse the arguments of old calls and fail on those that are no JSON; the result says what was wrong.
    let arguments = match &call.arguments {
        Arguments::Object(object) => Value::Object(object.clone()).to_string(),
        Arguments::Invalid(_) => "{}".to_owned(),
    };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

fn tool(tool: &ToolSpec) -> Value {
    let mut function = json!({"name": tool.name, "parameters": parameters(&tool.input_schema)});
    if let (false, Some(object)) = (tool.description.is_empty(), function.as_object_mut()) {
        object.insert("description".into(), tool.description.clone().into());
    }
    json!({"type": "function", "function": function})
}

/// A schema of an object, which is what every provider wants; servers of tools without arguments leave parts out.
fn parameters(schema: &Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    schema.entry("type").or_insert_with(|| "object".into());
    schema
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    Value::Object(schema)
}
