//! What a run leaves in its log: what was said only where that is asked for, and one audit line for every call.

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::loopback::serve;
use crate::mcp_server::McpServer;
use crate::model::Model;
use crate::process::Agentd;

/// Where each of them is said, so that a leak names its place.
const MARKS: [&str; 6] = [
    "mark-message",
    "mark-argument",
    "mark-memory",
    "mark-finish",
    "mark-kill",
    "mark-unknown",
];

/// The log of a run that says each mark.
async fn log(observability: Value) -> Vec<Value> {
    let (model, server, folder) = (
        Model::start().await,
        McpServer::start().await,
        tempfile::tempdir().unwrap(),
    );
    let calls = json!([
        ["echo", { "text": "mark-argument" }],
        ["memory_set", { "key": "mark-message", "value": "mark-memory" }],
        ["subagent_kill", { "handle": "none", "reason": "mark-kill" }],
        ["mark-unknown", {}],
        ["finish", { "status": "completed", "reason": "mark-finish" }],
    ]);
    let document = json!({
        "intelligence": { "endpoints": model.url(), "model": "scripted" },
        "agent": { "instruction": "Be brief.", "prompt": format!("calls {calls}") },
        "mcp": { "servers": [{ "name": "fs", "endpoint": server.url() }] },
        "observability": observability,
    });
    let file = folder.path().join("agentd.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let agentd = Agentd::start(&["-c", file.to_str().unwrap()], &[], folder.path());
    let (status, _, lines) = agentd.end().await;
    assert_eq!(status.code(), Some(0), "{lines:#?}");
    lines
}

fn marks(lines: &[Value]) -> Vec<&'static str> {
    let said = |mark: &&str| lines.iter().any(|line| line.to_string().contains(*mark));
    MARKS.into_iter().filter(said).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_is_logged_only_where_that_is_asked_for() {
    let silent = log(json!({ "log_level": "debug" })).await;
    assert_eq!(marks(&silent), Vec::<&str>::new(), "{silent:#?}");

    let open = log(json!({ "log_level": "error", "log_content": true })).await;
    assert_eq!(marks(&open), MARKS, "{open:#?}");
    // It does not depend on the level, and raises none.
    assert!(open.iter().all(|line| line["event"] != "turn.start"), "{open:#?}");
    // A result that a tool gave, by the call that it is of.
    let result = open
        .iter()
        .find(|line| line["event"] == "content.result")
        .unwrap();
    assert_eq!(
        (&result["ordinal"], &result["text"]),
        (&json!(0), &json!("echo: mark-argument"))
    );
}

/// The members of every audit line besides those that every line has.
const AUDITED: [&str; 9] = [
    "action",
    "dur_ms",
    "instance",
    "outcome",
    "principal",
    "request_id",
    "role",
    "target",
    "trace",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_audited_once_ours_and_those_of_servers() {
    let lines = log(json!({ "log_level": "error" })).await;
    let audited: Vec<&Value> = lines.iter().filter(|line| line["event"] == "audit").collect();
    let told: Vec<Value> = audited
        .iter()
        .map(|line| json!([line["target"], line["role"], line["outcome"]]))
        .collect();
    assert_eq!(
        Value::from(told),
        json!([
            ["fs/echo", "root", "ok"],
            ["memory.set", "root", "ok"],
            ["subagent.kill", "root", "tool_error"],
            // What the model made up is not in the log.
            ["unknown", "root", "refused"],
            ["finish", "root", "ok"],
        ])
    );
    let first = audited[0];
    // Of each line of a turn.
    let common = [
        "agent_id",
        "agent_path",
        "comp",
        "event",
        "level",
        "pid",
        "run_id",
        "span_id",
        "trace_id",
        "ts",
    ];
    let run = first["request_id"].as_str().unwrap().strip_suffix("/0").unwrap();
    for (ordinal, line) in audited.iter().enumerate() {
        let mut fields: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        fields.retain(|field| !common.contains(field));
        fields.sort_unstable();
        assert_eq!(fields, AUDITED, "{line}");
        assert_eq!(
            json!([line["action"], line["comp"], line["request_id"]]),
            json!(["tool.call", "supervisor", format!("{run}/{ordinal}")])
        );
        for same in ["instance", "principal"] {
            assert!(line[same].as_str().is_some_and(|text| !text.is_empty()), "{line}");
            assert_eq!(line[same], first[same]);
        }
        // 00-<trace>-<span>-<flags>, of the run's trace.
        let trace: Vec<&str> = line["trace"].as_str().unwrap().split('-').collect();
        assert_eq!(
            (trace.len(), trace[1]),
            (4, run.replace('-', "").as_str()),
            "{line}"
        );
    }
}

/// A provider that repeats what it was asked in why it refuses.
async fn repeating(status: StatusCode) -> String {
    let answer = async move |Json(asked): Json<Value>| {
        let message = format!("cannot be done: {}", asked["messages"]);
        (status, Json(json!({ "error": { "message": message } })))
    };
    let app = Router::new().route("/v1/chat/completions", post(answer));
    let url = format!("http://{}/v1", serve(app).await);
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_provider_repeats_of_a_prompt_is_logged_only_where_that_is_asked_for() {
    for (status, said) in [
        (StatusCode::UNPROCESSABLE_ENTITY, "answered 422"),
        // No answer at all: a success without one.
        (StatusCode::OK, "sent no valid answer: it holds no choice"),
    ] {
        let (url, folder) = (repeating(status).await, tempfile::tempdir().unwrap());
        for is_open in [false, true] {
            let flag = format!("--log-content={is_open}");
            let arguments = [
                "--prompt",
                "mark-prompt",
                "--model",
                "m",
                "--intelligence",
                &url,
                "--log-level",
                "debug",
                &flag,
            ];
            let (status, _, lines) = Agentd::start(&arguments, &[], folder.path()).end().await;
            assert_ne!(status.code(), Some(0));
            let done = lines.iter().find(|line| line["event"] == "turn.done").unwrap();
            let reason = done["reason"].as_str().unwrap();
            assert!(reason.contains(said) && !reason.contains("mark"), "{reason}");
            let marked = lines
                .iter()
                .filter(|line| line.to_string().contains("mark-prompt"));
            let events: Vec<_> = marked.map(|line| line["event"].as_str().unwrap()).collect();
            assert!(
                events.iter().all(|event| event.starts_with("content.")),
                "{events:?}"
            );
            assert_eq!(events.contains(&"content.model_error"), is_open, "{lines:#?}");
        }
    }
}

/// Whoever reads warnings alone is told of a turn that did not complete, whatever it ended with.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_did_not_complete_is_a_warning() {
    let status = json!(["status", {}]);
    let again = json!([status, status, status, status, status, status, status, status]);
    let ending = |status: &str| format!(r#"calls [["finish", {{"status": "{status}"}}]]"#);
    for (prompt, steps, code, told) in [
        ("hello".to_owned(), 4, 0, Value::Null),
        (ending("failed"), 4, 1, json!(["warn", "failed"])),
        (ending("refused"), 4, 5, json!(["warn", "refused"])),
        (format!("calls {again}"), 4, 7, json!(["warn", "exhausted_steps"])),
        (format!("calls {again}"), 40, 3, json!(["warn", "loop_detected"])),
    ] {
        let (model, folder) = (Model::start().await, tempfile::tempdir().unwrap());
        let document = json!({
            "intelligence": { "endpoints": model.url(), "model": "scripted" },
            "agent": { "instruction": "Be brief.", "prompt": prompt },
            "limits": { "run": { "steps": steps } },
            "observability": { "log_level": "warn" },
        });
        let file = folder.path().join("agentd.json");
        std::fs::write(&file, document.to_string()).unwrap();
        let agentd = Agentd::start(&["-c", file.to_str().unwrap()], &[], folder.path());
        let (status, _, lines) = agentd.end().await;
        let done = lines.iter().find(|line| line["event"] == "turn.done");
        let done = done.map_or(Value::Null, |line| json!([line["level"], line["status"]]));
        assert_eq!((status.code(), done), (Some(code), told), "{prompt}: {lines:#?}");
    }
}
