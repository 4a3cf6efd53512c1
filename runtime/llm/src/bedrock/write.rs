//! The request body of Converse. Pure; the same request gives the same bytes.

use serde_json::{Map, Value, json};

use crate::blocks::{self, Blocks, filled};
use crate::body::Object;
use crate::message::{ToolCall, ToolResult, ToolSpec};
use crate::schema::{self, Profile};
use crate::wire::{Ask, Way, written};

/// The body. The model is in the path.
pub(crate) fn request(ask: &Ask<'_>) -> Vec<u8> {
    let mut body = Object::with_room(ask.shelf.room());
    let system = ask.system();
    if !system.trim().is_empty() {
        body.put("system", json!([{"text": system}]));
    }
    body.put("messages", messages(ask));
    tools(ask, &mut body);
    if let Some(most) = ask.request.max_output_tokens {
        body.put("inferenceConfig", json!({"maxTokens": most}));
    }
    if let Some(shape) = ask.shape(Way::JsonSchema) {
        let schema = Value::Object(shape.schema.clone()).to_string();
        body.put("outputConfig", json!({"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"name": shape.name, "schema": schema}}}}),
        );
    }
    body.end()
}

fn tools(ask: &Ask<'_>, body: &mut Object) {
    let mut config = Object::new();
    if let Some(tools) = ask.tools(tool) {
        config.put_written("tools", &tools);
    } else {
        // A conversation with calls is refused without tools.
        let bare = |name| json!({"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object", "properties": {}}}}});
        let called: Vec<Value> = ask.called().map(bare).collect();
        if called.is_empty() {
            return;
        }
        config.put("tools", called);
    }
    if ask.shape(Way::Tool).is_some() && !ask.quirks.no_tool_choice {
        config.put("toolChoice", json!({"any": {}}));
    }
    body.put_written("toolConfig", &config.end());
}

/// Roles alternate; results come before the caller's next words.
fn messages(ask: &Ask<'_>) -> Value {
    let call = |call: &ToolCall| {
        let name = ask.names.wire(&call.name);
        json!({"toolUse": {"toolUseId": call.id, "name": name, "input": written(&call.arguments)}})
    };
    let blocks = Blocks {
        text: |text| json!({"text": text}),
        call: &call,
        result,
    };
    blocks::written(blocks.messages(ask))
}

fn result(result: &ToolResult) -> Value {
    let status = if result.is_error { "error" } else { "success" };
    json!({"toolResult": {"toolUseId": result.call_id, "content": [{"text": filled(&result.content)}], "status": status}})
}

fn tool(tool: &ToolSpec, ask: &Ask<'_>, profile: Profile) -> Value {
    let mut spec = Map::new();
    spec.insert("name".into(), ask.names.wire(&tool.name).into());
    if !tool.description.is_empty() {
        spec.insert("description".into(), tool.description.clone().into());
    }
    spec.insert(
        "inputSchema".into(),
        json!({"json": schema::fit(&tool.input_schema, profile)}),
    );
    json!({"toolSpec": spec})
}
