//! The request body of Messages. Pure; the same request gives the same bytes.

use serde_json::{Map, Value, json};

use crate::blocks::{self, Blocks, filled};
use crate::body::Object;
use crate::message::{ToolCall, ToolResult, ToolSpec};
use crate::schema::{self, Profile};
use crate::wire::{Ask, Way, written};

/// The provider wants a bound. Every model that is served takes this one, and an answer of it is 50 pages.
const MOST_TOKENS: u32 = 16_384;
/// Older ones take no more than this.
const FEW_TOKENS: u32 = 4_096;

/// The body.
pub(crate) fn request(ask: &Ask<'_>) -> Vec<u8> {
    let mut body = Object::with_room(ask.shelf.room());
    body.put("model", ask.model);
    let most = ask.request.max_output_tokens.unwrap_or(MOST_TOKENS);
    let most = if ask.quirks.short {
        most.min(FEW_TOKENS)
    } else {
        most
    };
    body.put("max_tokens", most);
    let system = ask.system();
    if !system.trim().is_empty() {
        // What stands up to here is the same in every round, so that it is read from the cache.
        body.put("system", json!([cached(json!({"type": "text", "text": system}))]));
    }
    body.put("messages", messages(ask));
    tools(ask, &mut body);
    if let Some(shape) = ask.shape(Way::JsonSchema) {
        body.put(
            "output_config",
            json!({"format": {"type": "json_schema", "schema": shape.schema}}),
        );
    }
    body.put("stream", ask.stream);
    body.end()
}

fn tools(ask: &Ask<'_>, body: &mut Object) {
    if let Some(tools) = ask.tools(tool) {
        if ask.shape(Way::Tool).is_some() && !ask.quirks.no_tool_choice {
            body.put("tool_choice", json!({"type": "any"}));
        }
        body.put_written("tools", &tools);
        return;
    }
    // A conversation with calls is refused without tools: they are named, and not to be called.
    let bare = |name| json!({"name": name, "input_schema": {"type": "object", "properties": {}}});
    let called: Vec<Value> = ask.called().map(bare).collect();
    if !called.is_empty() {
        body.put("tool_choice", json!({"type": "none"}));
        body.put("tools", called);
    }
}

/// The prefix that ends here is kept by the provider for the next request.
fn cached(mut block: Value) -> Value {
    if let Value::Object(block) = &mut block {
        block.insert("cache_control".into(), json!({"type": "ephemeral"}));
    }
    block
}

fn messages(ask: &Ask<'_>) -> Value {
    let call = |call: &ToolCall| {
        let name = ask.names.wire(&call.name);
        json!({"type": "tool_use", "id": call.id, "name": name, "input": written(&call.arguments)})
    };
    let blocks = Blocks {
        text: |text| json!({"type": "text", "text": text}),
        call: &call,
        result,
    };
    let mut list = blocks.messages(ask);
    if let Some(block) = list.last_mut().and_then(|(_, blocks)| blocks.last_mut()) {
        *block = cached(block.take());
    }
    blocks::written(list)
}

fn result(result: &ToolResult) -> Value {
    let mut block =
        json!({"type": "tool_result", "tool_use_id": result.call_id, "content": filled(&result.content)});
    if let (true, Value::Object(block)) = (result.is_error, &mut block) {
        block.insert("is_error".into(), true.into());
    }
    block
}

fn tool(tool: &ToolSpec, ask: &Ask<'_>, profile: Profile) -> Value {
    let mut spec = Map::new();
    spec.insert("name".into(), ask.names.wire(&tool.name).into());
    if !tool.description.is_empty() {
        spec.insert("description".into(), tool.description.clone().into());
    }
    spec.insert("input_schema".into(), schema::fit(&tool.input_schema, profile));
    Value::Object(spec)
}
