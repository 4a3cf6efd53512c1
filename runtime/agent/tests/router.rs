//! From a model's call to a server and back: names, metadata, and every fault as words that the model can use.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod desk;

use agentd_agent::{Observation, ToolRunner as _};
use agentd_llm::{Arguments, ToolCall};
use serde_json::{Value, json};

use desk::{Desk, TOOLS, call, server};

async fn observe(name: &str) -> Observation {
    let desk = Desk::new(vec![server("wx", Some("weather"), &TOOLS)]);
    desk.call(name, json!({})).await
}

#[tokio::test]
async fn m20_every_call_carries_its_meta() {
    let desk = Desk::new(vec![server("wx", Some("weather"), &TOOLS)]);
    desk.router.view().await;
    let seen = desk
        .router
        .call(&call("weather_text", json!({"city": "NYC"})), 3)
        .await;
    assert_eq!(seen, Observation::result("22 °C"));
    let (server, tool, arguments, meta) = desk.servers.seen();
    assert_eq!((server.as_str(), tool.as_str()), ("wx", "text"));
    assert_eq!(arguments, json!({"city": "NYC"}));
    assert_eq!(
        (
            meta.run_id.as_str(),
            meta.instance.as_str(),
            meta.traceparent.as_deref()
        ),
        ("run-1", "triage", Some("00-x"))
    );
}

#[tokio::test]
async fn the_idempotency_key_is_of_the_call_and_not_of_the_attempt() {
    let key = async |arguments: Value, ordinal: u32| {
        let desk = Desk::new(vec![server("wx", Some("weather"), &TOOLS)]);
        desk.router.view().await;
        desk.router.call(&call("weather_text", arguments), ordinal).await;
        desk.servers.seen().3.idempotency_key
    };
    let first = key(json!({"a": 1}), 0).await;
    assert_eq!(first, key(json!({"a": 1}), 0).await, "again");
    assert_ne!(
        first,
        key(json!({"a": 1}), 1).await,
        "the same call in another round"
    );
    assert_ne!(first, key(json!({"a": 2}), 0).await, "another call");
}

#[tokio::test]
async fn m21_a_failure_of_a_tool_is_an_observation_and_an_error_of_its_server_is_told_by_us() {
    for (name, text) in [
        ("weather_structured", r#"{"temperature":22}"#),
        ("weather_failing", "ERROR: file not found"),
        (
            "weather_timeout",
            "ERROR: weather.timeout gave no result: the call took longer than 60s and was cancelled; it may have been carried out",
        ),
        (
            "weather_params",
            "ERROR: weather.params was not carried out: the server answered with error -32602: bad params",
        ),
        (
            "weather_crash",
            "ERROR: weather.crash gave no result: its server failed (error -32603); it may have been carried out",
        ),
        (
            "weather_refused",
            "ERROR: weather.refused was not carried out: its server cannot take this call (error -32042)",
        ),
        ("weather_gone", "ERROR: server wx is not connected now; try later"),
        (
            "rm",
            "ERROR: there is no tool rm now; use one of those you were given last",
        ),
        ("weather.text", "22 °C"),
    ] {
        let observation = observe(name).await;
        assert_eq!(
            (observation.text.as_str(), observation.is_error),
            (text, text.starts_with("ERROR")),
            "{name}"
        );
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_reach_no_server() {
    let desk = Desk::new(vec![server("wx", Some("weather"), &TOOLS)]);
    desk.router.view().await;
    let wish = ToolCall {
        id: "a".into(),
        name: "weather_text".into(),
        arguments: Arguments::Invalid("{\"a\": \u{7}".into()),
    };
    assert_eq!(
        desk.router.call(&wish, 0).await,
        Observation::error("the arguments are not a JSON object: {\"a\":  ")
    );
    assert!(desk.servers.is_untouched());
}

#[tokio::test]
async fn m9_two_servers_with_a_tool_of_one_name() {
    let desk = Desk::new(vec![
        server("a", None, &["text"]),
        server("b", None, &["text", "gone"]),
    ]);
    let names = desk.names().await;
    assert_eq!(names, ["a_text", "b_text", "gone"]);
    for name in ["a", "b"] {
        desk.call(&format!("{name}_text"), json!({})).await;
        assert_eq!(desk.servers.seen().0, name);
    }
    assert!(desk.call("text", json!({})).await.is_error);
}

#[tokio::test]
async fn m1_without_servers_there_is_no_task_tool() {
    let desk = Desk::of(vec![], desk::context());
    let view = desk.router.view().await;
    assert!(view.servers.is_empty(), "{view:?}");
    let mut names = desk.names().await;
    names.sort();
    // Control and bookkeeping, nothing that acts on the world.
    assert_eq!(
        names,
        [
            "artifact_create",
            "artifact_delete",
            "artifact_get",
            "artifact_list",
            "ask_human",
            "await",
            "context_compact",
            "instruction_read",
            "instruction_subscribe",
            "memory_delete",
            "memory_get",
            "memory_list",
            "memory_pop",
            "memory_push",
            "memory_set",
            "memory_shift",
            "message_send",
            "plan_clear",
            "plan_create",
            "plan_get",
            "plan_update",
            "skills_list",
            "skills_load",
            "skills_unload",
            "sleep",
            "status",
            "subagent_await",
            "subagent_kill",
            "subagent_list",
            "subagent_retire",
            "subagent_run",
            "subagent_send",
            "subagent_status",
            "think",
            "workflow_cancel",
            "workflow_create",
            "workflow_delete",
            "workflow_list",
            "workflow_pause",
            "workflow_resume",
            "workflow_run",
            "workflow_signal",
            "workflow_status",
            "workflow_update",
            "workflow_wait",
        ]
    );
    for name in [
        "resource_read",
        "resource.read",
        "exec",
        "code_run",
        "search.query",
        "knowledge_get",
        "text",
    ] {
        let seen = desk.call(name, json!({"uri": "file:///a"})).await;
        assert!(seen.text.contains("there is no tool"), "{seen:?}");
    }
}

#[tokio::test]
async fn m23_a_description_is_bounded_and_never_an_instruction() {
    let desk = Desk::new(vec![server("wx", Some("weather"), &TOOLS)]);
    let view = desk.router.view().await;
    assert_eq!(desk.names().await.len(), TOOLS.len());
    let text = view
        .tools
        .iter()
        .find(|spec| spec.name == "weather_text")
        .unwrap();
    assert!(text.description.starts_with("text\nxxx"));
    assert_eq!(text.description.chars().count(), 1024);
    // It stands with its tool and nowhere else.
    assert!(!view.servers.contains("xxx"));
}

#[tokio::test]
async fn m24_a_tool_that_is_removed_is_no_longer_given_and_a_call_of_it_is_an_observation() {
    let desk = Desk::new(vec![server("wx", None, &["text", "failing"])]);
    let first = desk.router.view().await;
    assert!(
        std::sync::Arc::ptr_eq(&first, &desk.router.view().await),
        "nothing changed"
    );
    desk.servers.change(vec![server("wx", None, &["failing"])]);
    // What the model was given in this round still stands.
    assert_eq!(desk.router.call(&call("text", json!({})), 0).await.text, "22 °C");
    assert_eq!(desk.names().await, ["failing"]);
    let seen = desk.router.call(&call("text", json!({})), 1).await;
    assert_eq!(
        seen,
        Observation::error("there is no tool text now; use one of those you were given last")
    );
}
