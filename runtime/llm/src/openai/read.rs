//! The reply body of Chat Completions, as lenient as real servers are sloppy: whatever may be null or missing is, and
//! fields that nobody knows are kept for the server that sent them. Pure; works on untrusted bytes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::dialect::Dialect;
use crate::message::{Arguments, Block, Stop};
use crate::wire::{self, Counts, Fault, Heard};

/// Fields of a message that are ours, or that servers send and do not take back.
const MESSAGE_FIELDS: [&str; 8] = [
    "role",
    "content",
    "tool_calls",
    "refusal",
    "function_call",
    "annotations",
    "audio",
    "name",
];
/// Fields of a call that are ours.
const CALL_FIELDS: [&str; 4] = ["index", "id", "type", "function"];

/// What an answer cannot be without has a type; everything else is whatever came, so that none of it costs an answer
/// that is paid for.
#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(default, borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: Members<'a>,
    #[serde(default)]
    finish_reason: Value,
}

/// An object, what is in it as it came: some is ours to read, and the rest is the server's.
type Members<'a> = BTreeMap<String, &'a RawValue>;

#[derive(Deserialize)]
struct Function<'a> {
    name: String,
    /// As it came: however deep it is nested, it is no fault of the reply.
    #[serde(default, borrow)]
    arguments: Option<&'a RawValue>,
}

/// A member; what stands for nothing where there is none.
fn member<'a, T: Deserialize<'a> + Default>(of: &Members<'a>, name: &str) -> serde_json::Result<T> {
    of.get(name)
        .map_or_else(|| Ok(T::default()), |raw| serde_json::from_str(raw.get()))
}

/// What is not ours. One that is nested too deeply is left out.
fn others(of: &Members<'_>, ours: &[&str]) -> Value {
    let others = of.iter().filter(|(name, _)| !ours.contains(&name.as_str()));
    let read = others.filter_map(|(name, raw)| Some((name.clone(), serde_json::from_str(raw.get()).ok()?)));
    Value::Object(read.collect())
}

/// The reply in a body.
pub(crate) fn reply(body: &[u8]) -> Result<Heard, Fault> {
    let unreadable = |error: serde_json::Error| Fault::unreadable("it is no JSON", &error);
    let reply: Reply<'_> = serde_json::from_slice(body).map_err(unreadable)?;
    let Some(choice) = reply.choices.into_iter().flatten().next() else {
        let value = serde_json::from_slice(body).unwrap_or(Value::Null);
        return Err(Fault::without("it holds no choice", &value));
    };
    let message = choice.message;
    let calls: Option<Vec<Members<'_>>> = member(&message, "tool_calls").map_err(unreadable)?;
    let calls = calls.unwrap_or_default();
    let mut own = Own::default();
    own.message(&others(&message, &MESSAGE_FIELDS));
    for (nth, call) in calls.iter().enumerate() {
        own.call(nth, &others(call, &CALL_FIELDS));
    }
    let mut blocks: Vec<Block> = own.block().into_iter().collect();
    let text = text(&member(&message, "content").map_err(unreadable)?);
    if !text.is_empty() {
        blocks.push(Block::Text(text));
    }
    let refusal: Value = member(&message, "refusal").map_err(unreadable)?;
    let refusal = refusal.as_str().filter(|refusal| !refusal.is_empty());
    let refused = refusal.is_some();
    blocks.extend(refusal.map(|refusal| Block::Text(refusal.to_owned())));
    for call in &calls {
        let function: Option<Function<'_>> = member(call, "function").map_err(unreadable)?;
        let function = function.ok_or_else(|| unreadable(serde::de::Error::missing_field("function")))?;
        let arguments = Arguments::parse(&arguments(function.arguments));
        let id = id(&member(call, "id").map_err(unreadable)?);
        blocks.push(wire::call(id, function.name, arguments));
    }
    Ok(Heard {
        blocks: wire::bounded(blocks.into_iter()),
        stop: if refused {
            Stop::Refused
        } else {
            stop(&choice.finish_reason)
        },
        counts: counts(&reply.usage),
    })
}

/// What a server sent of its own: fields of the message, and of each call.
#[derive(Debug, Default)]
pub(super) struct Own {
    message: Map<String, Value>,
    calls: Vec<Map<String, Value>>,
}

impl Own {
    /// Of a message or a piece of one; the bytes that are kept of it.
    pub(super) fn message(&mut self, message: &Value) -> usize {
        add(&mut self.message, message, &MESSAGE_FIELDS)
    }

    /// Of a call or a piece of one; the bytes that are kept of it.
    pub(super) fn call(&mut self, nth: usize, call: &Value) -> usize {
        if nth >= wire::CALLS {
            return 0;
        }
        while self.calls.len() <= nth {
            self.calls.push(Map::new());
        }
        self.calls
            .get_mut(nth)
            .map_or(0, |own| add(own, call, &CALL_FIELDS))
    }

    /// As a block; none where there is nothing.
    pub(super) fn block(mut self) -> Option<Block> {
        while self.calls.last().is_some_and(Map::is_empty) {
            self.calls.pop();
        }
        let mut value = Map::new();
        if !self.message.is_empty() {
            value.insert("message".into(), Value::Object(self.message));
        }
        if !self.calls.is_empty() {
            value.insert(
                "calls".into(),
                self.calls.into_iter().map(Value::Object).collect(),
            );
        }
        (!value.is_empty()).then(|| wire::opaque(Dialect::Openai, Value::Object(value)))
    }
}

/// Takes up the fields that are not ours: texts and lists go on, everything else is replaced.
fn add(own: &mut Map<String, Value>, piece: &Value, ours: &[&str]) -> usize {
    let mut bytes = 0;
    for (name, value) in piece.as_object().into_iter().flatten() {
        let is_nothing = match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        if is_nothing || ours.contains(&name.as_str()) {
            continue;
        }
        bytes += name.len() + value.to_string().len();
        match (own.get_mut(name), value) {
            (Some(Value::String(before)), Value::String(more)) => before.push_str(more),
            (Some(Value::Array(before)), Value::Array(more)) => before.extend(more.iter().cloned()),
            _ => {
                own.insert(name.clone(), value.clone());
            }
        }
    }
    bytes
}

/// Text, or the texts of a list of parts.
pub(super) fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// A text; some servers count their calls.
pub(super) fn id(value: &Value) -> String {
    match value {
        Value::String(id) => id.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// The text of arguments, which are a text of JSON or (from some servers) the JSON itself.
pub(super) fn arguments(wire: Option<&RawValue>) -> String {
    let wire = wire.map(RawValue::get).unwrap_or_default();
    match serde_json::from_str::<String>(wire) {
        Ok(text) => text,
        Err(_) if wire.trim() == "null" => String::new(),
        Err(_) => wire.to_owned(),
    }
}

pub(super) fn stop(reason: &Value) -> Stop {
    match (reason.as_str(), reason.is_null()) {
        (_, true) | (Some("stop" | "tool_calls" | "function_call"), _) => Stop::End,
        (Some("length"), _) => Stop::Length,
        (Some("content_filter"), _) => Stop::Refused,
        _ => Stop::Other,
    }
}

pub(super) fn counts(usage: &Value) -> Counts {
    let cached = wire::count(usage, "/prompt_tokens_details/cached_tokens");
    Counts {
        input: wire::count(usage, "/prompt_tokens"),
        output: wire::count(usage, "/completion_tokens"),
        // DeepSeek counts them elsewhere.
        cached: cached
            .or_else(|| wire::count(usage, "/prompt_cache_hit_tokens"))
            .unwrap_or(0),
    }
}
