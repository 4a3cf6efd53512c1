//! The request body of Converse. Pure; the same request gives the same bytes.

use serde_json::{Map, Value, json};

use crate::blocks::{self, Blocks, filled};
use crate::message::{ToolCall, ToolResult, ToolSpec};
use crate::schema::{self, Profile};
use crate::wire::{Ask, Way, written};

/// The body. The model is in the path.
pub(crate) fn request(ask: &Ask<'_>) -> Vec<u8> {
    let mut body = Map::new();
    let system = ask.system();
    if !system.trim().is_empty() {
        body.insert("system".into(), json!([{"text": system}]));
    }
    body.insert("messages".into(), messages(ask));
    tools(ask, &mut body);
    if let Some(most) = ask.request.max_output_tokens {
        body.insert("inferenceConfig".into(), json!({"maxTokens": most}));
    }
    if let Some(shape) = ask.shape(Way::JsonSchema) {
        let schema = Value::Object(shape.schema.clone()).to_string();
        body.insert(
            "outputConfig".into(),
            json!({"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"name": shape.name, "schema": schema}}}}),
        );
    }
    Value::Object(body).to_string().into_bytes()
}

fn tools(ask: &Ask<'_>, body: &mut Map<String, Value>) {
    let mut tools = ask.tools(tool);
    if tools.is_empty() {
        // A conversation with calls is refused without tools.
        let bare = |name| json!({"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object", "properties": {}}}}});
        tools = ask.called().map(bare).collect();
    }
    if tools.is_empty() {
        return;
    }
    let mut config = Map::new();
    config.insert("tools".into(), Value::Array(tools));
    if ask.shape(Way::Tool).is_some() && !ask.quirks.no_tool_choice {
        config.insert("toolChoice".into(), json!({"any": {}}));
    }
    body.insert("toolConfig".into(), Value::Object(config));
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

fn tool(tool: &ToolSpec, ask: &Ask<'_>) -> Value {
    let mut spec = Map::new();
    spec.insert("name".into(), ask.names.wire(&tool.name).into());
    if !tool.description.is_empty() {
        spec.insert("description".into(), tool.description.clone().into());
    }
    let profile = Profile::of(ask.dialect, ask.model);
    spec.insert(
        "inputSchema".into(),
        json!({"json": schema::fit(&tool.input_schema, profile)}),
    );
    json!({"toolSpec": spec})
}
