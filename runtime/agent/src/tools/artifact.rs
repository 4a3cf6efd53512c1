//! `artifact.*`: documents that a turn makes and keeps.

use serde_json::{Value, json};

use super::memory::listed;
use super::supervised::Supervised;
use super::{object, text};
use crate::internal::Internal;

/// The content of one: what goes into a frame and a record with room to spare.
const CONTENT_CHARS: usize = 1024 * 1024;

pub(super) fn tools() -> Vec<Internal> {
    let id = || text(64, "The artifact's id.");
    vec![
        Internal::new(
            "artifact.create",
            "Keeps a document, and gives its id, size and SHA-256.",
            object([
                ("name*", text(256, "What it is called.")),
                ("mime", text(128, "Its media type; text/plain when absent.")),
                (
                    "content",
                    json!({"type": "string", "maxLength": CONTENT_CHARS, "description": "Its text."}),
                ),
                (
                    "from_step",
                    text(
                        256,
                        "In place of content: the step of a workflow whose output it is.",
                    ),
                ),
                (
                    "sensitive",
                    json!({"type": "boolean", "description": "Its name is shown in no list and no log."}),
                ),
            ]),
            described([]),
            &Supervised,
        ),
        Internal::new(
            "artifact.get",
            "Reads a document that is kept.",
            object([("id*", id())]),
            described([("content*", json!({"type": "string"}))]),
            &Supervised,
        ),
        Internal::new(
            "artifact.list",
            "Lists the documents that are kept, without their content.",
            listed(),
            object([
                ("artifacts*", json!({"type": "array", "items": described([])})),
                ("more*", json!({"type": "boolean"})),
            ]),
            &Supervised,
        ),
        Internal::new(
            "artifact.delete",
            "Drops a document.",
            object([("id*", id())]),
            object([("id*", json!({})), ("deleted*", json!({"type": "boolean"}))]),
            &Supervised,
        ),
    ]
}

/// What is said of every artifact.
fn described<const N: usize>(more: [(&str, Value); N]) -> Value {
    let mut schema = object([
        ("id*", json!({"type": "string"})),
        ("name*", json!({"type": "string"})),
        ("mime*", json!({"type": "string"})),
        ("size*", json!({"type": "integer"})),
        ("sha256*", json!({"type": "string"})),
        ("sensitive*", json!({"type": "boolean"})),
        ("created_at*", json!({"type": "string"})),
    ]);
    let more = object(more);
    for part in ["properties", "required"] {
        match (schema.get_mut(part), more.get(part)) {
            (Some(Value::Object(own)), Some(Value::Object(other))) => own.extend(other.clone()),
            (Some(Value::Array(own)), Some(Value::Array(other))) => own.extend(other.iter().cloned()),
            _ => {}
        }
    }
    schema
}
