//! `memory.*`: what the agent remembers for the principal whose conversation it is in, beyond the conversation.

use serde_json::json;

use super::supervised::Supervised;
use super::{duration, object, text};
use crate::internal::Internal;

const KEY_CHARS: usize = 256;

pub(super) fn tools() -> Vec<Internal> {
    let key = || text(KEY_CHARS, "The key.");
    vec![
        Internal::new(
            "memory.get",
            "Reads a value that was remembered.",
            object([("key*", key())]),
            object([
                ("key*", json!({})),
                ("found*", json!({"type": "boolean"})),
                ("value", json!({})),
                ("expires_at", json!({})),
            ]),
            &Supervised,
        ),
        Internal::new(
            "memory.set",
            "Remembers a value under a key, in the place of what was there. It outlives this conversation.",
            object([
                ("key*", key()),
                ("value*", json!({"description": "Any JSON."})),
                ("ttl", duration("How long; absent: for ever.")),
            ]),
            object([
                ("key*", json!({})),
                ("bytes*", json!({"type": "integer"})),
                ("expires_at", json!({})),
            ]),
            &Supervised,
        ),
        Internal::new(
            "memory.list",
            "Lists the keys that are remembered.",
            listed(),
            object([
                ("keys*", json!({"type": "array", "items": {"type": "object"}})),
                ("more*", json!({"type": "boolean"})),
            ]),
            &Supervised,
        ),
        Internal::new(
            "memory.delete",
            "Forgets the value under a key.",
            object([("key*", key())]),
            object([("key*", json!({})), ("deleted*", json!({"type": "boolean"}))]),
            &Supervised,
        ),
        Internal::new(
            "memory.push",
            "Adds a value to the end of the list that is remembered under a key; without one it begins.",
            object([("key*", key()), ("value*", json!({"description": "Any JSON."}))]),
            object([("key*", json!({})), ("length*", json!({"type": "integer"}))]),
            &Supervised,
        ),
        Internal::new(
            "memory.pop",
            "Takes the last value out of the list that is remembered under a key.",
            object([("key*", key())]),
            taken(),
            &Supervised,
        ),
        Internal::new(
            "memory.shift",
            "Takes the first value out of the list that is remembered under a key.",
            object([("key*", key())]),
            taken(),
            &Supervised,
        ),
    ]
}

/// What was taken out of a list.
fn taken() -> serde_json::Value {
    object([
        ("key*", json!({})),
        ("found*", json!({"type": "boolean"})),
        ("value", json!({})),
        ("length*", json!({"type": "integer"})),
    ])
}

/// The arguments of a list.
pub(super) fn listed() -> serde_json::Value {
    object([
        (
            "prefix",
            json!({"type": "string", "maxLength": KEY_CHARS, "description": "What the names begin with."}),
        ),
        (
            "limit",
            json!({"type": "integer", "minimum": 1, "maximum": 1000, "description": "How many at most."}),
        ),
    ])
}
