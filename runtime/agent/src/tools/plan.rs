//! `plan.*`: the plan of a conversation.

use serde_json::{Value, json};

use super::supervised::Supervised;
use super::{object, text};
use crate::internal::Internal;

const TITLE_CHARS: usize = 300;
const DETAIL_CHARS: usize = 4000;

pub(super) fn tools() -> Vec<Internal> {
    vec![
        Internal::new(
            "plan.create",
            "Writes the plan of this conversation, in the place of the one before.",
            object([
                ("goal*", text(1000, "What the plan is for.")),
                ("items*", items()),
            ]),
            plan(),
            &Supervised,
        ),
        Internal::new(
            "plan.get",
            "Reads the plan of this conversation.",
            object([]),
            plan(),
            &Supervised,
        ),
        Internal::new(
            "plan.update",
            "Changes an item of the plan, inserts items, or puts them into another order.",
            object([
                (
                    "item",
                    json!({"type": "integer", "minimum": 1, "description": "The item's number."}),
                ),
                (
                    "status",
                    json!({"enum": ["pending", "in_progress", "done", "blocked", "cancelled"]}),
                ),
                ("note", text(DETAIL_CHARS, "What there is to say of it.")),
                ("title", text(TITLE_CHARS, "Another title.")),
                ("detail", text(DETAIL_CHARS, "More of it.")),
                ("bind", bind()),
                ("insert", items()),
                (
                    "reorder",
                    json!({"type": "array", "items": {"type": "integer", "minimum": 1}, "description": "All numbers in their new order."}),
                ),
            ]),
            plan(),
            &Supervised,
        ),
        Internal::new(
            "plan.clear",
            "Drops the plan of this conversation.",
            object([]),
            object([("cleared*", json!({"type": "boolean"}))]),
            &Supervised,
        ),
    ]
}

fn items() -> Value {
    let item = object([
        ("title*", text(TITLE_CHARS, "Its title.")),
        ("detail", text(DETAIL_CHARS, "More of it.")),
    ]);
    json!({
        "type": "array", "minItems": 1, "maxItems": 1000,
        "items": {"anyOf": [text(TITLE_CHARS, "Its title."), item]},
    })
}

fn bind() -> Value {
    let mut bind = object([
        ("subagent", text(128, "A subagent's handle.")),
        ("run", text(128, "A run of a workflow.")),
        ("task", text(128, "A task.")),
    ]);
    if let Some(bind) = bind.as_object_mut() {
        let what =
            "The work that moves the item: it is in progress while that runs, and done when it ends well.";
        bind.insert("description".to_owned(), what.into());
    }
    bind
}

fn plan() -> Value {
    let item = object([
        ("number*", json!({"type": "integer"})),
        ("title*", json!({"type": "string"})),
        ("status*", json!({"type": "string"})),
        ("detail", json!({"type": "string"})),
        ("note", json!({"type": "string"})),
        ("bind", json!({"type": "object"})),
    ]);
    object([
        ("exists*", json!({"type": "boolean"})),
        ("goal", json!({"type": "string"})),
        ("items", json!({"type": "array", "items": item})),
    ])
}
