//! `sleep` and `await`: the turn waits, by a timer of the worker or for the supervisor's word, and costs nothing
//! meanwhile. Both end with the turn.

use std::str::FromStr as _;

use agentd_base::duration::Duration;
use async_trait::async_trait;
use serde_json::{Value, json};

use super::supervised::Supervised;
use super::{duration, object, text};
use crate::internal::{Call, Came, Handler, Internal};
use crate::observation::{Effect, Observation};

struct Sleep;

pub(super) fn tools() -> Vec<Internal> {
    vec![
        Internal::new(
            "sleep",
            "Waits for a time.",
            object([("duration*", duration("How long."))]),
            object([("slept*", json!({"type": "string"}))]),
            &Sleep,
        ),
        Internal::new(
            "await",
            "Waits until one of some subagents has ended.",
            object([
                (
                    "on",
                    json!({"type": "array", "minItems": 1, "maxItems": 64, "items": text(128, "A subagent's handle.")}),
                ),
                (
                    "condition",
                    text(
                        10_000,
                        "An expression. Not available here: name what to wait for with on.",
                    ),
                ),
                ("timeout", duration("How long at most.")),
            ]),
            object([("satisfied*", json!({"type": "boolean"})), ("value", json!({}))]),
            &Supervised,
        ),
    ]
}

#[async_trait]
impl Handler for Sleep {
    async fn call(&self, call: Call<'_>) -> Came {
        let time = match call.arguments.get("duration") {
            Some(Value::String(text)) => Duration::from_str(text).ok(),
            Some(Value::Number(seconds)) => seconds.as_u64().map(Duration::secs),
            _ => None,
        };
        let Some(time) = time else {
            return Came::error("this is no duration");
        };
        tokio::time::sleep(time.0).await;
        let slept = json!({"slept": time.to_string()}).to_string();
        // To ask again after a while is no loop.
        Came::Seen(Observation::result(slept).with_effect(Effect::Waited))
    }
}
