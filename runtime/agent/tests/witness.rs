//! Who hears of the calls that reach no server: each is told once, whatever came of it.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod desk;

use agentd_agent::{Choice, Outcome, Reply, RunContext, Shown, ToolRunner as _};
use agentd_llm::{Arguments, ToolCall};
use serde_json::json;

use desk::ears::Heard;
use desk::{Desk, TOOLS, call, context, server};

fn heard(server: Option<&str>, tool: &str, outcome: Option<Outcome>) -> Heard {
    (server.map(str::to_owned), tool.to_owned(), 0, outcome)
}

#[tokio::test]
async fn a_call_that_reaches_no_server_is_heard_of_once() {
    let shown = |name: &str| matches!(name, "memory.get" | "memory.set");
    let choice = Choice {
        internal: Shown::by(shown),
        ..Choice::default()
    };
    let context = RunContext { choice, ..context() };
    let desk = Desk::of(vec![server("wx", Some("weather"), &TOOLS)], context);

    // What is replied first was put in last.
    let done = Reply::Done(json!({ "key": "k", "found": false }));
    *desk.supervisor.replies.lock().unwrap() = vec![Reply::Refused("no".into()), done];
    desk.call("memory_get", json!({ "key": "k" })).await;
    desk.call("memory_set", json!({ "key": "k", "value": 1 })).await;
    // Not given to this turn; made up; without arguments; and one that a server hears of itself.
    desk.call("subagent_run", json!({})).await;
    desk.call("rm -rf", json!({})).await;
    let broken = ToolCall {
        arguments: Arguments::Invalid("{".into()),
        ..call("weather_text", json!({}))
    };
    desk.router.call(&broken, 0).await;
    desk.call("weather_text", json!({})).await;
    // Nobody waits for it any more.
    let waiting = call("memory_get", json!({ "key": "k" }));
    let mut given_up = Box::pin(desk.router.call(&waiting, 0));
    assert!(futures::poll!(&mut given_up).is_pending());
    drop(given_up);

    let refused = Some(Outcome::Refused);
    assert_eq!(
        *desk.ears.0.lock().unwrap(),
        [
            heard(None, "memory.get", Some(Outcome::Done)),
            heard(None, "memory.set", Some(Outcome::Failed)),
            heard(None, "subagent.run", refused),
            heard(None, "unknown", refused),
            heard(Some("wx"), "text", refused),
            heard(None, "memory.get", None),
        ]
    );
}
