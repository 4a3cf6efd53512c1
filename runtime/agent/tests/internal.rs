//! Our own tools: what a turn is offered, what is checked, what reaches the supervisor, and what a subagent cannot do.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod desk;

use std::time::Duration;

use agentd_agent::request::{Key, MemorySet, Request};
use agentd_agent::{Choice, Effect, Holder, Observation, Reply, RunContext, Shown, Status, ToolRunner as _};
use futures::FutureExt as _;
use serde_json::{Value, json};

use desk::held::minted;
use desk::{Desk, call, context, reader, server};

#[tokio::test]
async fn m2_the_supervisor_is_asked_what_the_model_asks_and_the_model_told_what_it_says() {
    let desk = Desk::of(vec![], context());
    let found = json!({"key": "a", "found": true, "value": [1]});
    *desk.supervisor.replies.lock().unwrap() =
        vec![Reply::Refused("it is full".into()), Reply::Done(found.clone())];
    let seen = desk.call("memory_get", json!({"key": "a"})).await;
    assert_eq!(seen, Observation::result(found.to_string()));
    let seen = desk
        .call("memory.set", json!({"key": "a", "value": 7, "ttl": 60}))
        .await;
    assert_eq!(seen, Observation::error("it is full"));
    let set = MemorySet {
        key: "a".into(),
        value: json!(7),
        ttl: Some(agentd_base::duration::Duration::secs(60)),
    };
    let get = Key { key: "a".into() };
    assert_eq!(
        *desk.supervisor.requests.lock().unwrap(),
        [Request::MemoryGet(get), Request::MemorySet(set)]
    );
}

#[tokio::test]
async fn m2_arguments_are_checked_before_anything_is_asked_and_results_before_they_are_told() {
    let desk = Desk::of(vec![], context());
    for (name, arguments) in [
        ("memory_get", json!({})),
        ("memory_get", json!({"key": ""})),
        ("memory_get", json!({"key": "a", "more": 1})),
        ("memory_set", json!({"key": "a", "value": 1, "ttl": "soon"})),
        ("memory_list", json!({"limit": 0})),
        ("subagent_run", json!({"instruction": "x", "mode": "fast"})),
        (
            "subagent_run",
            json!({"instruction": "x", "limits": {"money": 1}}),
        ),
        ("plan_update", json!({"item": 1, "status": "nearly"})),
        ("finish", json!({"status": "great"})),
        ("sleep", json!({"duration": -1})),
    ] {
        let seen = desk.call(name, arguments.clone()).await;
        assert!(
            seen.is_error && seen.text.contains("do not fit"),
            "{name} {arguments} {seen:?}"
        );
    }
    assert!(desk.supervisor.requests.lock().unwrap().is_empty());
    desk.supervisor
        .replies
        .lock()
        .unwrap()
        .push(Reply::Done(json!({"found": "yes"})));
    let seen = desk.call("memory_get", json!({"key": "a"})).await;
    assert!(seen.is_error && seen.text.contains("not of its form"), "{seen:?}");
}

#[tokio::test]
async fn m2_what_an_operator_takes_away_is_neither_shown_nor_carried_out() {
    let choice = Choice {
        internal: Shown::by(|name| ["memory.get", "memory.set"].contains(&name)),
        mcp: Shown::by(|name| name == "failing"),
        disabled: ["memory.set".to_owned()].into(),
        ..Choice::default()
    };
    let desk = Desk::of(
        vec![server("wx", None, &["text", "failing"])],
        RunContext { choice, ..context() },
    );
    assert_eq!(desk.names().await, ["memory_get", "failing"]);
    for name in ["memory_set", "memory.set", "status", "text", "wx.text"] {
        let seen = desk.call(name, json!({"key": "a", "value": 1})).await;
        assert!(seen.text.contains("there is no tool"), "{name} {seen:?}");
    }
    assert!(desk.supervisor.requests.lock().unwrap().is_empty() && desk.servers.is_untouched());
}

#[tokio::test]
async fn m2_a_subagent_has_what_everybody_has_and_no_command_over_others() {
    let desk = Desk::of(
        vec![],
        RunContext {
            holder: Holder::Subagent,
            ..context()
        },
    );
    let names = desk.names().await;
    for name in [
        "memory_get",
        "artifact_create",
        "think",
        "sleep",
        "plan_get",
        "workflow_list",
    ] {
        assert!(names.iter().any(|shown| shown == name), "{name}");
    }
    for name in [
        "subagent_run",
        "message_send",
        "workflow_run",
        "workflow_create",
        "instruction_subscribe",
    ] {
        assert!(!names.iter().any(|shown| shown == name), "{name}");
        assert!(desk.call(name, json!({})).await.text.contains("there is no tool"));
    }
}

/// Narrowing is no suggestion: not by the name of the provider, not by the qualified one, not after the server has
/// something new, not by a resource of another server.
#[tokio::test]
async fn m9_a_subagent_can_see_and_call_what_was_minted_and_nothing_else() {
    let both = || {
        vec![
            server("wx", Some("weather"), &["text", "failing"]),
            server("db", None, &["structured"]),
            reader("fs", &["file:///text"], &[]),
        ]
    };
    let desk = Desk::of(
        both(),
        minted(&[("wx", &["text"])], &["resource.read", "memory.get"]),
    );
    assert_eq!(desk.names().await, ["memory_get", "weather_text"]);
    assert!(
        desk.router.view().await.servers.is_empty(),
        "and hears of no other server"
    );
    assert_eq!(desk.call("weather_text", json!({})).await.text, "22 °C");
    desk.servers.seen();
    let refused = async |name: &str| {
        let seen = desk.call(name, json!({"uri": "file:///text"})).await;
        assert!(seen.text.contains("there is no tool"), "{name} {seen:?}");
    };
    for name in [
        "weather_failing",
        "weather.failing",
        "structured",
        "db.structured",
        "resource_read",
        "memory_set",
    ] {
        refused(name).await;
    }
    let mut changed = both();
    changed[0] = server("wx", Some("weather"), &["text", "failing", "long"]);
    changed.push(server("new", None, &["timeout"]));
    desk.servers.change(changed);
    assert_eq!(desk.names().await, ["memory_get", "weather_text"]);
    for name in ["weather_long", "weather.long", "timeout", "new.timeout"] {
        refused(name).await;
    }
    assert!(desk.servers.is_untouched());
    // A resource is read from a server that it has, and from no other.
    let desk = Desk::of(both(), minted(&[("fs", &[])], &["resource.read"]));
    assert_eq!(desk.names().await, ["resource_read"]);
    let seen = desk.call("resource_read", json!({"uri": "file:///text"})).await;
    assert!(!seen.is_error, "{seen:?}");
    let desk = Desk::of(both(), minted(&[("wx", &["text"])], &["resource.read"]));
    let seen = desk.call("resource_read", json!({"uri": "file:///text"})).await;
    assert!(seen.is_error, "{seen:?}");
}

#[tokio::test]
async fn m3_contracts_are_there_when_they_are_mapped_and_the_supervisor_calls_them() {
    let choice = Choice {
        mapped: ["knowledge.search".to_owned()].into(),
        ..Choice::default()
    };
    let desk = Desk::of(vec![], RunContext { choice, ..context() });
    assert!(desk.names().await.contains(&"knowledge_search".to_owned()));
    assert!(!desk.names().await.contains(&"knowledge_get".to_owned()));
    let hits = json!({"hits": []});
    *desk.supervisor.replies.lock().unwrap() =
        vec![Reply::Done(json!({"none": 1})), Reply::Done(hits.clone())];
    let seen = desk.call("knowledge_search", json!({"query": "tea"})).await;
    assert_eq!(seen, Observation::result(hits.to_string()));
    let requests = desk.supervisor.requests.lock().unwrap().clone();
    let [Request::Mapped(mapped)] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    assert_eq!(
        (mapped.tool.as_str(), &mapped.arguments["query"]),
        ("knowledge.search", &json!("tea"))
    );
    assert_eq!(mapped.idempotency_key.len(), 64);
    let seen = desk.call("knowledge_search", json!({"query": "tea"})).await;
    assert!(seen.text.contains("not of its form"), "{seen:?}");
}

#[tokio::test]
async fn m2_finish_and_compact_act_on_the_turn() {
    let desk = Desk::of(vec![], context());
    let effect = async |name: &str, arguments: Value| desk.call(name, arguments).await.effect;
    assert_eq!(
        effect(
            "finish",
            json!({"status": "refused", "output": {"a": 1}, "reason": "no"})
        )
        .await,
        Some(Effect::Finish {
            status: Status::Refused,
            text: Some("{\"a\":1}".into()),
            reason: Some("no".into())
        })
    );
    assert_eq!(
        effect("context_compact", json!({"keep_last": 3})).await,
        Some(Effect::Compact { keep_last: Some(3) })
    );
    assert_eq!(effect("instruction_read", json!({})).await, None);
    let read = desk.call("instruction_read", json!({})).await;
    let read: Value = serde_json::from_str(&read.text).unwrap();
    assert_eq!(
        (&read["text"], &read["source"]),
        (&json!("Be kind."), &json!("static"))
    );
}

#[tokio::test]
async fn m2_think_asks_the_model_once_without_tools_and_checks_the_answer() {
    let desk = Desk::of(vec![reader("fs", &["file:///text"], &[])], context());
    let schema = json!({"type": "object", "required": ["a"]});
    let asked = json!({"prompt": "How much?", "output_schema": schema, "reads": ["file:///text"]});
    *desk.model.answers.lock().unwrap() = ["so be it", "{\"b\": 1}", "Here:\n```json\n{\"a\": 1}\n```"]
        .map(str::to_owned)
        .into();
    let seen = desk.call("think", asked.clone()).await;
    assert_eq!(seen, Observation::result(r#"{"answer":{"a":1}}"#));
    let request = desk.model.asked.lock().unwrap().pop().unwrap();
    assert!(request.tools.is_empty() && request.messages.len() == 1);
    let text = format!("{:?}", request.messages);
    assert!(text.contains("How much?") && text.contains("ship it"), "{text}");
    let seen = desk.call("think", asked).await;
    assert!(seen.text.contains("does not fit output_schema"), "{seen:?}");
    let seen = desk.call("think", json!({"prompt": "And?"})).await;
    assert_eq!(seen, Observation::result(r#"{"answer":"so be it"}"#));
}

#[tokio::test]
async fn m2_who_may_not_read_does_not_read_by_thinking() {
    let mut context = context();
    context.choice.disabled = ["resource.read".to_owned()].into();
    let desk = Desk::of(vec![reader("fs", &["file:///text"], &[])], context);
    let asked = json!({"prompt": "How much?", "reads": ["file:///text"]});
    let seen = desk.call("think", asked).await;
    assert!(seen.is_error && seen.text.contains("resource.read"), "{seen:?}");
    assert!(desk.model.asked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn m2_a_turn_that_waits_costs_nothing_and_can_be_given_up() {
    let desk = Desk::of(vec![], context());
    desk.router.view().await;
    let sleeping = call("sleep", json!({"duration": "8h"}));
    let began = tokio::time::Instant::now();
    let given_up = tokio::time::timeout(Duration::from_secs(60), desk.router.call(&sleeping, 0)).await;
    assert!(given_up.is_err());
    assert_eq!(began.elapsed(), Duration::from_secs(60));
    let seen = desk.router.call(&sleeping, 1).await;
    // A round with a wait is no step of a loop.
    let slept = Observation::result(r#"{"slept":"8h"}"#).with_effect(Effect::Waited);
    assert_eq!(seen, slept);
    // Nobody replies: the request stays open, and nothing happens meanwhile.
    assert!(
        desk.call("subagent_await", json!({"handle": "x"}))
            .now_or_never()
            .is_none()
    );
}

#[tokio::test]
async fn m4_a_subagents_completion_is_read_from_the_supervisor() {
    let desk = Desk::of(vec![], context());
    assert!(!desk.names().await.contains(&"resource_read".to_owned()));
    let uri = "agentd://subagents/h";
    let begun = json!({"handle": "h", "mode": "async", "status": "running", "uri": uri});
    *desk.supervisor.replies.lock().unwrap() = vec![Reply::Done(json!("all is done")), Reply::Done(begun)];
    let seen = desk
        .call("subagent_run", json!({"instruction": "go", "mode": "async"}))
        .await;
    assert!(!seen.is_error, "{seen:?}");
    assert!(desk.names().await.contains(&"resource_read".to_owned()));
    let seen = desk.call("resource_read", json!({"uri": uri})).await;
    assert_eq!(seen, Observation::result("all is done"));
}
