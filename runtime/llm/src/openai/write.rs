//! The request body of Chat Completions. Pure; the same request gives the same bytes.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::body::{Object, item};
use crate::message::{Block, Message, Opaque, ToolCall, ToolSpec};
use crate::schema::{self, Profile};
use crate::wire::{Ask, Way, written_text};

/// The body.
pub(crate) fn request(ask: &Ask<'_>) -> Vec<u8> {
    let mut body = Object::with_room(ask.shelf.room());
    body.put("model", ask.model);
    body.put_list("messages", |list| {
        let system = ask.system();
        if !system.is_empty() {
            let (role, content) = ("system", system.as_ref());
            item(list, &Said::Words { role, content });
        }
        ask.request
            .messages
            .write(ask, list, |message, list| say(message, ask, list));
    });
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

/// One message on the wire.
#[derive(Serialize)]
#[serde(untagged)]
enum Said<'a> {
    Words {
        role: &'static str,
        content: &'a str,
    },
    Answer {
        role: &'static str,
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Result {
        role: &'static str,
        tool_call_id: &'a str,
        content: &'a str,
    },
    /// With fields of the server's own.
    Own(Value),
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    /// A text of JSON.
    arguments: String,
}

/// Adds a message of ours, without a value of it between: the conversation is all of the request that grows.
fn say(message: &Message, ask: &Ask<'_>, list: &mut Vec<u8>) {
    match message {
        Message::User(content) => {
            let role = "user";
            item(list, &Said::Words { role, content });
        }
        Message::Assistant(blocks) => {
            if let Some(said) = assistant(blocks, ask) {
                item(list, &said);
            }
        }
        Message::Results(results) => {
            for result in results {
                let said = Said::Result {
                    role: "tool",
                    tool_call_id: &result.call_id,
                    content: &result.content,
                };
                item(list, &said);
            }
        }
    }
}

/// An answer; none where there is neither text nor call.
fn assistant<'a>(blocks: &'a [Block], ask: &'a Ask<'_>) -> Option<Said<'a>> {
    let mut content: Option<Cow<'_, str>> = None;
    let mut tool_calls = Vec::new();
    let mut own = None;
    for block in blocks {
        match block {
            Block::Text(text) => match &mut content {
                None => content = Some(text.into()),
                Some(before) => {
                    let before = before.to_mut();
                    before.push('\n');
                    before.push_str(text);
                }
            },
            Block::ToolCall(wish) => tool_calls.push(call(wish, ask)),
            Block::Opaque(opaque) => own = own.or(ask.takes(opaque).then_some(opaque)),
        }
    }
    let role = "assistant";
    // Without text, providers want null beside calls.
    if content.is_none() && tool_calls.is_empty() {
        return None;
    }
    match own {
        None => Some(Said::Answer {
            role,
            content,
            tool_calls,
        }),
        Some(own) => Some(Said::Own(with(own, role, content, &tool_calls))),
    }
}

/// An answer with the server's own fields.
fn with(own: &Opaque, role: &str, content: Option<Cow<'_, str>>, calls: &[Call<'_>]) -> Value {
    let mut message = Map::new();
    message.insert("role".into(), role.into());
    message.insert("content".into(), content.map_or(Value::Null, Value::from));
    add(&mut message, own.value.get("message"));
    let of_calls = own.value.get("calls").and_then(Value::as_array);
    let mut more = of_calls.into_iter().flatten();
    let calls: Vec<Value> = calls
        .iter()
        .map(|call| {
            let mut call = json!(call);
            if let Value::Object(call) = &mut call {
                add(call, more.next());
            }
            call
        })
        .collect();
    if !calls.is_empty() {
        message.insert("tool_calls".into(), Value::Array(calls));
    }
    Value::Object(message)
}

/// The server's own fields, beside ours.
fn add(object: &mut Map<String, Value>, more: Option<&Value>) {
    for (name, value) in more.and_then(Value::as_object).into_iter().flatten() {
        object.entry(name.clone()).or_insert_with(|| value.clone());
    }
}

fn call<'a>(call: &'a ToolCall, ask: &'a Ask<'_>) -> Call<'a> {
    Call {
        id: &call.id,
        r#type: "function",
        function: Function {
            name: ask.names.wire(&call.name),
            arguments: written_text(&call.arguments),
        },
    }
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
