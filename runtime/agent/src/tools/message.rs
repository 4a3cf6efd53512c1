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
            ("text*", text(100_000, "What it says.")),
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
