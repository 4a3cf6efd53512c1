//! `finish`, `context.compact`, `status`, `instruction.*`: the turn itself and the instance.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::supervised::Supervised;
use super::{object, text};
use crate::internal::{Call, Came, Handler, Internal};
use crate::observation::{Effect, Observation};
use crate::status::Status;

struct Finish;
struct Compact;
struct ReadInstruction;

pub(super) fn tools() -> Vec<Internal> {
    vec![
        Internal::new(
            "finish",
            "Ends this turn, after the other calls of this answer.",
            object([
                (
                    "status*",
                    json!({"enum": ["completed", "failed", "refused", "cancelled"]}),
                ),
                (
                    "output",
                    json!({"description": "The answer: text, or JSON where that was asked for."}),
                ),
                ("reason", text(2000, "Why, in one line.")),
            ]),
            json!(null),
            &Finish,
        ),
        Internal::new(
            "context.compact",
            "Summarises what was said before, after the other calls of this answer, so that there is room to go on.",
            object([
                (
                    "target_tokens",
                    json!({"type": "integer", "minimum": 1, "description": "How small it should become. A wish."}),
                ),
                (
                    "keep_last",
                    json!({"type": "integer", "minimum": 0, "maximum": 1000, "description": "Messages that stay as they are."}),
                ),
            ]),
            json!(null),
            &Compact,
        ),
        Internal::new(
            "status",
            "How this agent is: its model, servers, limits, and what runs.",
            object([]),
            json!({"type": "object", "required": ["instance", "servers"]}),
            &Supervised,
        ),
        Internal::new(
            "instruction.read",
            "Reads the standing instruction of this agent.",
            object([]),
            object([
                ("text*", json!({"type": "string"})),
                ("source*", json!({"enum": ["static", "resource"]})),
                ("uri", json!({"type": "string"})),
                ("version*", json!({"type": "string"})),
            ]),
            &ReadInstruction,
        ),
        Internal::new(
            "instruction.subscribe",
            "Reads and follows the resource that the standing instruction is: it anew, or another one of its server. It \
             counts from the next turn on, in all conversations.",
            object([("uri", text(8192, "Another resource. Absent: the same."))]),
            object([
                ("uri*", json!({"type": "string"})),
                ("version*", json!({"type": "string"})),
            ]),
            &Supervised,
        ),
    ]
}

#[async_trait]
impl Handler for Finish {
    async fn call(&self, call: Call<'_>) -> Came {
        let said = |name: &str| call.arguments.get(name);
        let status = match said("status").and_then(Value::as_str) {
            Some("failed") => Status::Failed,
            Some("refused") => Status::Refused,
            Some("cancelled") => Status::Cancelled,
            _ => Status::Completed,
        };
        let text = match said("output") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => Some(other.to_string()),
        };
        let reason = said("reason").and_then(Value::as_str).map(str::to_owned);
        let effect = Effect::Finish { status, text, reason };
        Came::Seen(Observation::result("the turn ends").with_effect(effect))
    }
}

#[async_trait]
impl Handler for Compact {
    async fn call(&self, call: Call<'_>) -> Came {
        let keep_last = call.arguments.get("keep_last").and_then(Value::as_u64);
        let effect = Effect::Compact {
            keep_last: keep_last.and_then(|keep| u32::try_from(keep).ok()),
        };
        let told = "what was said before is summarised before the next answer";
        Came::Seen(Observation::result(told).with_effect(effect))
    }
}

#[async_trait]
impl Handler for ReadInstruction {
    async fn call(&self, call: Call<'_>) -> Came {
        let instruction = &call.desk.context.instruction;
        let (text, version) = (&instruction.text, instruction.version());
        Came::Value(match &instruction.uri {
            None => json!({"text": text, "source": "static", "version": version}),
            Some(uri) => json!({"text": text, "source": "resource", "uri": uri, "version": version}),
        })
    }
}
