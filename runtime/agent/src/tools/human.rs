//! `ask_human`: a question to whoever can be asked. The turn waits for the answer.

use serde_json::json;

use super::supervised::Supervised;
use super::{duration, object, text};
use crate::internal::Internal;

pub(super) fn tools() -> Vec<Internal> {
    vec![Internal::new(
        "ask_human",
        "Asks a person and waits for the answer. Fails when nobody can be asked.",
        object([
            (
                "question*",
                text(10_000, "The question, in words that a person understands."),
            ),
            (
                "schema",
                json!({"type": "object", "description": "JSON Schema of the answer: a flat object. Absent: text."}),
            ),
            (
                "recommend",
                text(
                    2000,
                    "What you would answer yourself; it is shown with the question.",
                ),
            ),
            ("to", text(256, "Who is asked; absent: whoever is there.")),
            (
                "timeout",
                duration("How long to wait; absent: as long as the turn may take."),
            ),
        ]),
        object([
            ("reply", json!({})),
            ("timed_out*", json!({"type": "boolean"})),
            ("declined", json!({"type": "boolean"})),
        ]),
        &Supervised,
    )]
}
