//! The request body of Messages. Pure; the same request gives the same bytes.

use serde_json::{Map, Value, json};

use crate::message::{Block, Message, ToolResult, ToolSpec};
use crate::schema::{self, Profile};
use crate::wire::{Ask, Way, written};

/// The provider wants a bound. Every model that is served takes this one, and an answer of it is 50 pages.
const MOST_TOKENS: u32 = 16_384;
/// Older ones take no more than this.
const FEW_TOKENS: u32 = 4_096;
/// Stands where a text is needed and there is none: blank ones are refused.
const EMPTY: &str = "(empty)";

/// The body.
pub(crate) fn request(ask: &Ask<'_>) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".into(), ask.model.into());
    let most = ask.request.max_output_tokens.unwrap_or(MOST_TOKENS);
    let most = if ask.quirks.short {
        most.min(FEW_TOKENS)
    } else {
        most
    };
    body.insert("max_tokens".into(), most.into());
    let system = ask.system();
    if !system.trim().is_empty() {
        // What stands up to here is the same in every round, so that it is read from the cache.
        body.insert(
            "system".into(),
            json!([cached(json!({"type": "text", "text": system}))]),
        );
    }
    body.insert("messages".into(), messages(ask));
    tools(ask, &mut body);
    if let Some(shape) = ask.shape(Way::JsonSchema) {
        body.insert(
            "output_config".into(),
            json!({"format": {"type": "json_schema", "schema": shape.schema}}),
        );
    }
    body.insert("stream".into(), ask.stream.into());
    Value::Object(body).to_string().into_bytes()
}

fn tools(ask: &Ask<'_>, body: &mut Map<String, Value>) {
    let answer = ask.answer_tool();
    let mut tools: Vec<Value> = ask
        .request
        .tools
        .iter()
        .chain(&answer)
        .map(|spec| tool(spec, ask))
        .collect();
    if tools.is_empty() {
        // A conversation with calls is refused without tools: they are named, and not to be called.
        tools = ask
            .called()
            .map(|name| json!({"name": name, "input_schema": {"type": "object", "properties": {}}}))
            .collect();
        if !tools.is_empty() {
            body.insert("tool_choice".into(), json!({"type": "none"}));
        }
    } else if answer.is_some() && !ask.quirks.no_tool_choice {
        body.insert("tool_choice".into(), json!({"type": "any"}));
    }
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
    }
}

/// The prefix that ends here is kept by the provider for the next request.
fn cached(mut block: Value) -> Value {
    if let Value::Object(block) = &mut block {
        block.insert("cache_control".into(), json!({"type": "ephemeral"}));
    }
    block
}

/// Roles alternate; results come before the caller's next words.
fn messages(ask: &Ask<'_>) -> Value {
    let mut list: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &ask.request.messages {
        let (role, blocks) = match message {
            Message::User(text) => ("user", vec![json!({"type": "text", "text": filled(text)})]),
            Message::Assistant(blocks) => ("assistant", assistant(blocks, ask)),
            Message::Results(results) => ("user", results.iter().map(result).collect()),
        };
        match list.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, before)) if *last == role => before.extend(blocks),
            _ => list.push((role, blocks)),
        }
    }
    if let Some(block) = list.last_mut().and_then(|(_, blocks)| blocks.last_mut()) {
        *block = cached(block.take());
    }
    list.into_iter()
        .map(|(role, content)| json!({"role": role, "content": content}))
        .collect()
}

fn filled(text: &str) -> &str {
    if text.trim().is_empty() { EMPTY } else { text }
}

/// An answer's blocks. Thinking that nothing follows is left out: an answer may not end with it.
fn assistant(blocks: &[Block], ask: &Ask<'_>) -> Vec<Value> {
    let (mut list, mut own) = (Vec::new(), Vec::new());
    for block in blocks {
        let written = match block {
            Block::Opaque(opaque) => {
                own.extend(ask.takes(opaque).then(|| opaque.value.clone()));
                continue;
            }
            Block::Text(text) if text.trim().is_empty() => continue,
            Block::Text(text) => json!({"type": "text", "text": text}),
            Block::ToolCall(call) => {
                let name = ask.names.wire(&call.name);
                json!({"type": "tool_use", "id": call.id, "name": name, "input": written(&call.arguments)})
            }
        };
        list.append(&mut own);
        list.push(written);
    }
    list
}

fn result(result: &ToolResult) -> Value {
    let mut block =
        json!({"type": "tool_result", "tool_use_id": result.call_id, "content": filled(&result.content)});
    if let (true, Value::Object(block)) = (result.is_error, &mut block) {
        block.insert("is_error".into(), true.into());
    }
    block
}

fn tool(tool: &ToolSpec, ask: &Ask<'_>) -> Value {
    let mut spec = Map::new();
    spec.insert("name".into(), ask.names.wire(&tool.name).into());
    if !tool.description.is_empty() {
        spec.insert("description".into(), tool.description.clone().into());
    }
    let profile = Profile::of(ask.dialect, ask.model);
    spec.insert("input_schema".into(), schema::fit(&tool.input_schema, profile));
    Value::Object(spec)
}
