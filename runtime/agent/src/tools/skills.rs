//! `skills.*`: instructions that are loaded when they are needed. This agent has no source of skills: the list is empty.

use async_trait::async_trait;
use serde_json::json;

use super::{object, text};
use crate::internal::{Call, Came, Handler, Internal};

struct Skills;

pub(super) fn tools() -> Vec<Internal> {
    let name = || text(256, "The skill's name.");
    vec![
        Internal::new(
            "skills.list",
            "Lists the skills that can be loaded.",
            object([]),
            object([("skills*", json!({"type": "array"}))]),
            &Skills,
        ),
        Internal::new(
            "skills.load",
            "Loads a skill.",
            object([
                ("name*", name()),
                ("version", text(64, "Its version.")),
                ("arguments", json!({"type": "object"})),
            ]),
            json!(null),
            &Skills,
        ),
        Internal::new(
            "skills.unload",
            "Puts a skill away.",
            object([("name*", name())]),
            json!(null),
            &Skills,
        ),
    ]
}

#[async_trait]
impl Handler for Skills {
    async fn call(&self, call: Call<'_>) -> Came {
        match call.tool {
            "skills.list" => Came::Value(json!({"skills": []})),
            _ => Came::error("there is no skill of this name"),
        }
    }
}
