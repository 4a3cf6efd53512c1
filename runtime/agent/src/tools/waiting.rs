//! `sleep` and `await`: the turn waits, by a timer of the worker or for the supervisor's word, and costs nothing
//! meanwhile. Both end with the turn. A condition is evaluated here whenever the supervisor says that what it names has
//! changed: nothing is asked again and again.

use std::str::FromStr as _;
use std::sync::Arc;

use agentd_base::duration::Duration;
use async_trait::async_trait;
use serde_json::{Value, json};

use super::supervised::came;
use super::{duration, object, text};
use crate::condition::Condition;
use crate::desk::Desk;
use crate::internal::{Call, Came, Handler, Internal};
use crate::observation::{Effect, Observation};
use crate::request::{Await, Observe, Observed, Reply, Request};

struct Sleep;
struct Wait;

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
            "Waits until a condition holds, or one of some subagents has ended, whichever comes first.",
            object([
                (
                    "on",
                    json!({"type": "array", "minItems": 1, "maxItems": 64, "items": text(128, "A subagent's handle.")}),
                ),
                (
                    "condition",
                    text(
                        1024,
                        "An expression in CEL that is true or false, over plan (exists, goal, items with number, \
                         title and status), memory (your keys), subagents (by handle: status, result and mode) and \
                         servers (the state of each MCP server, by name). Such as memory.count >= 3 or \
                         plan.items.all(i, i.status == \"done\"). What is not there yet does not hold. It is looked at \
                         whenever one of these changes.",
                    ),
                ),
                ("timeout", duration("How long at most.")),
            ]),
            object([("satisfied*", json!({"type": "boolean"})), ("value", json!({}))]),
            &Wait,
        ),
    ]
}

/// A duration as it was given.
fn time(value: Option<&Value>) -> Option<Duration> {
    match value {
        Some(Value::String(text)) => Duration::from_str(text).ok(),
        Some(Value::Number(seconds)) => seconds.as_u64().map(Duration::secs),
        _ => None,
    }
}

#[async_trait]
impl Handler for Wait {
    async fn call(&self, call: Call<'_>) -> Came {
        let timeout = match (call.arguments.get("timeout"), time(call.arguments.get("timeout"))) {
            (Some(_), None) => return Came::error("timeout is no duration"),
            (_, timeout) => timeout,
        };
        let on = call.arguments.get("on").and_then(Value::as_array);
        let on = on.into_iter().flatten().filter_map(Value::as_str);
        let on: Vec<String> = on.map(str::to_owned).collect();
        let condition = call.arguments.get("condition").and_then(Value::as_str);
        let Some(condition) = condition else {
            let ended = Request::Await(Await { on, timeout });
            return came(call.desk.supervisor.request(ended).await);
        };
        let condition = match Condition::read(condition).await {
            Ok(condition) => condition,
            Err(why) => return Came::error(format!("condition {why}")),
        };
        let ended = async {
            if on.is_empty() {
                return std::future::pending().await;
            }
            let ended = Request::Await(Await { on, timeout: None });
            call.desk.supervisor.request(ended).await
        };
        let first = async {
            tokio::select! {
                biased;
                holds = held(&condition, call.desk) => match holds {
                    Ok(()) => Came::Value(json!({"satisfied": true})),
                    Err(why) => Came::error(why),
                },
                ended = ended => match ended {
                    Reply::Done(mut told) => {
                        let value = told.get_mut("value").map(Value::take);
                        Came::Value(json!({"satisfied": false, "value": value}))
                    }
                    other => came(other),
                },
            }
        };
        match timeout {
            None => first.await,
            Some(timeout) => match tokio::time::timeout(timeout.0, first).await {
                Ok(came) => came,
                // To ask again is no loop.
                Err(_) => Came::Seen(
                    Observation::result(json!({"satisfied": false}).to_string()).with_effect(Effect::Waited),
                ),
            },
        }
    }
}

/// Returns when the condition holds.
async fn held(condition: &Arc<Condition>, desk: &Desk) -> Result<(), String> {
    let mut since = None;
    loop {
        let observe = Observe {
            since: since.take(),
            ..condition.needs().clone()
        };
        let observed = match desk.supervisor.request(Request::Observe(Box::new(observe))).await {
            Reply::Done(observed) => serde_json::from_value::<Observed>(observed),
            Reply::Refused(why) => return Err(why),
            Reply::Reserved(_) | Reply::Later => return Err("the supervisor gave no result".to_owned()),
        };
        let observed = observed.map_err(|error| error.to_string())?;
        since = Some(observed.digest.clone());
        match condition.holds(observed).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(why) => return Err(format!("condition: {why}")),
        }
    }
}

#[async_trait]
impl Handler for Sleep {
    async fn call(&self, call: Call<'_>) -> Came {
        let Some(time) = time(call.arguments.get("duration")) else {
            return Came::error("this is no duration");
        };
        tokio::time::sleep(time.0).await;
        let slept = json!({"slept": time.to_string()}).to_string();
        // To ask again after a while is no loop.
        Came::Seen(Observation::result(slept).with_effect(Effect::Waited))
    }
}
