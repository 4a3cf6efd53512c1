//! `message.send`: a message into one of the instance's own conversations.

use serde_json::json;

use super::supervised::Supervised;
use super::{object, text};
use crate::internal::Internal;

pub(super) fn tools() -> Vec<Internal> {
    vec![Internal::new(
        "message.send",
        "Sends a message into another conversation of this agent with the same person or agent. It becomes a turn there.",
        object([
            (
                "to*",
                text(
                    256,
                    "The context id of the conversation, root for the first one, new for a new one.",
                ),
            ),
            ("text", text(100_000, "What it says.")),
            (
                "parts",
                json!({"type": "array", "minItems": 1, "maxItems": 32, "items": part(), "description": "In the place of text: what it says, in parts."}),
            ),
            (
                "wait",
                json!({"type": "boolean", "description": "Waits for the answer."}),
            ),
        ]),
        object([
            ("task*", json!({"type": "string"})),
            ("context*", json!({"type": "string"})),
            ("state*", json!({"type": "string"})),
            ("answer", json!({"type": "string"})),
        ]),
        &Supervised,
    )]
}

/// Words, or JSON.
fn part() -> serde_json::Value {
    let data = json!({"description": "Any JSON."});
    let either = [
        object([("text*", text(100_000, "Words."))]),
        object([("data*", data)]),
    ];
    json!({"anyOf": either})
}
