//! `ask_human`: a question to whoever can be asked. The turn waits for the answer.

use async_trait::async_trait;
use serde_json::json;

use super::supervised::came;
use super::{duration, object, text};
use crate::internal::{Call, Came, Handler, Internal};
use crate::request::Request;

/// The tool's name.
pub(crate) const ASK: &str = "ask_human";

struct Asking;

#[async_trait]
impl Handler for Asking {
    async fn call(&self, call: Call<'_>) -> Came {
        let mut request = match Request::of_tool(call.tool, call.arguments) {
            Ok(request) => request,
            Err(fault) => return Came::error(format!("the arguments of {} do not fit: {fault}", call.tool)),
        };
        if let Request::AskHuman(asked) = &mut request {
            asked.so_far = call.desk.so_far().map(Box::new);
        }
        came(call.desk.supervisor.request(request).await)
    }
}

pub(super) fn tools() -> Vec<Internal> {
    vec![Internal::new(
        ASK,
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
        &Asking,
    )]
}
