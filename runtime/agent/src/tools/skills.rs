//! `skills.*`: texts of servers that are put into the prompt when they are needed, and out of it again.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{object, text};
use crate::internal::{Call, Came, Handler, Internal};
use crate::skills;

struct List;
struct Load;
struct Unload;

pub(super) fn tools() -> Vec<Internal> {
    let name = || text(256, "The skill's name.");
    let one = object([
        ("name*", json!({"type": "string"})),
        ("server*", json!({"type": "string"})),
        ("description", json!({"type": "string"})),
        ("loaded*", json!({"type": "boolean"})),
    ]);
    vec![
        Internal::new(
            "skills.list",
            "Lists the skills that can be loaded.",
            object([]),
            object([
                ("skills*", json!({"type": "array", "items": one})),
                (
                    "unavailable",
                    json!({"type": "array", "items": {"type": "string"}}),
                ),
            ]),
            &List,
        ),
        Internal::new(
            "skills.load",
            "Puts the text of a skill into your prompt, until it is unloaded.",
            object([
                ("name*", name()),
                (
                    "version",
                    text(64, "Its version. Skills of MCP servers have none."),
                ),
                (
                    "arguments",
                    json!({"type": "object", "maxProperties": 32, "additionalProperties": {"type": "string", "maxLength": 8192}, "description": "What its text is made with."}),
                ),
            ]),
            object([
                ("name*", json!({"type": "string"})),
                ("server*", json!({"type": "string"})),
                ("bytes*", json!({"type": "integer"})),
            ]),
            &Load,
        ),
        Internal::new(
            "skills.unload",
            "Takes a skill's text out of your prompt.",
            object([("name*", name())]),
            object([
                ("name*", json!({"type": "string"})),
                ("unloaded*", json!({"type": "boolean"})),
            ]),
            &Unload,
        ),
    ]
}

fn name<'a>(call: &'a Call<'_>) -> &'a str {
    call.arguments
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[async_trait]
impl Handler for List {
    async fn call(&self, call: Call<'_>) -> Came {
        let listed: Vec<Value> = skills::available(call.desk)
            .into_iter()
            .map(|skill| {
                let mut told = json!({
                    "name": skill.name,
                    "server": skill.server,
                    "loaded": call.desk.skills.is_loaded(&skill.name),
                });
                if let (Some(label), Some(told)) = (skill.label, told.as_object_mut()) {
                    told.insert("description".to_owned(), label.into());
                }
                told
            })
            .collect();
        let mut told = json!({"skills": listed});
        let missing = skills::missing(call.desk);
        if let (false, Some(told)) = (missing.is_empty(), told.as_object_mut()) {
            told.insert("unavailable".to_owned(), missing.into());
        }
        Came::Value(told)
    }
}

#[async_trait]
impl Handler for Load {
    async fn call(&self, call: Call<'_>) -> Came {
        if call.arguments.contains_key("version") {
            return Came::error("skills of MCP servers have no versions; leave version out");
        }
        let arguments = call.arguments.get("arguments").and_then(Value::as_object);
        let arguments = arguments.cloned().unwrap_or_default();
        match skills::load(call.desk, name(&call), arguments, call.ordinal).await {
            Ok(skill) => Came::Value(json!({
                "name": skill.name, "server": skill.server, "bytes": skill.text.len(),
            })),
            Err(why) => Came::error(why),
        }
    }
}

#[async_trait]
impl Handler for Unload {
    async fn call(&self, call: Call<'_>) -> Came {
        let name = name(&call);
        let unloaded = call.desk.skills.unload(name);
        Came::Value(json!({"name": name, "unloaded": unloaded}))
    }
}
