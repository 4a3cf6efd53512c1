//! Traces: a turn with a call of a server's tool, as a collector receives it, and as model and server are told of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::loopback::serve;
use crate::mcp_server::McpServer;
use crate::model::Model;
use crate::process::Agentd;

/// A collector: what it was sent.
struct Collector {
    url: String,
    received: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    async fn start() -> Self {
        async fn take(
            State(received): State<Arc<Mutex<Vec<Value>>>>,
            Json(body): Json<Value>,
        ) -> Json<Value> {
            received.lock().unwrap().push(body);
            Json(json!({}))
        }
        let received = Arc::<Mutex<Vec<Value>>>::default();
        let app = Router::new()
            .route("/v1/traces", post(take))
            .with_state(received.clone());
        let url = format!("http://{}", serve(app).await);
        Self { url, received }
    }

    /// All spans.
    fn spans(&self) -> Vec<Value> {
        let received = self.received.lock().unwrap();
        let each = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
        received
            .iter()
            .flat_map(|body| each(body, "resourceSpans"))
            .flat_map(|resource| each(&resource, "scopeSpans"))
            .flat_map(|scope| each(&scope, "spans"))
            .collect()
    }
}

fn attributes(span: &Value) -> BTreeMap<String, Value> {
    let listed = span["attributes"].as_array().unwrap();
    listed
        .iter()
        .map(|attribute| {
            (
                attribute["key"].as_str().unwrap().to_owned(),
                attribute["value"].clone(),
            )
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_a_trace_of_requests_and_calls_without_what_was_said() {
    let (collector, model, server) = (
        Collector::start().await,
        Model::start().await,
        McpServer::start().await,
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agentd.json");
    let document = json!({
        "agent": { "name": "triage", "prompt": "echo secret-word" },
        "intelligence": { "endpoints": model.url(), "model": "scripted" },
        "mcp": { "servers": [{ "name": "fs", "endpoint": server.url() }] },
        "observability": { "otel": { "endpoint": collector.url } },
    });
    std::fs::write(&file, document.to_string()).unwrap();
    let agentd = Agentd::start(&["-c", file.to_str().unwrap()], &[], folder.path());
    let (status, _, lines) = agentd.end().await;
    assert_eq!(status.code(), Some(0), "{lines:#?}");

    let spans = collector.spans();
    let mut names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "chat scripted",
            "chat scripted",
            "execute_tool echo",
            "invoke_agent triage",
            "tools/call echo"
        ]
    );
    let named = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
    let (turn, call, request) = (
        named("invoke_agent triage"),
        named("execute_tool echo"),
        named("tools/call echo"),
    );
    // The trace is the run, and each span is under what it is part of.
    let meta = server.requests("tools/call")[0]["params"]["_meta"].clone();
    let run = meta["agent/run_id"].clone();
    let trace = run.as_str().unwrap().replace('-', "");
    assert!(spans.iter().all(|span| span["traceId"] == trace), "{spans:#?}");
    assert_eq!(turn["parentSpanId"].as_str().unwrap_or_default(), "");
    assert_eq!(call["parentSpanId"], turn["spanId"]);
    assert_eq!(request["parentSpanId"], call["spanId"]);
    for chat in spans.iter().filter(|span| span["name"] == "chat scripted") {
        assert_eq!(chat["parentSpanId"], turn["spanId"]);
        let attributes = attributes(chat);
        assert_eq!(
            attributes["gen_ai.operation.name"],
            json!({ "stringValue": "chat" })
        );
        assert_eq!(
            attributes["gen_ai.provider.name"],
            json!({ "stringValue": "openai" })
        );
        assert!(attributes.contains_key("gen_ai.usage.input_tokens"));
    }
    let attributes = attributes(call);
    assert_eq!(
        attributes["gen_ai.operation.name"],
        json!({ "stringValue": "execute_tool" })
    );
    assert_eq!(attributes["gen_ai.tool.name"], json!({ "stringValue": "echo" }));
    // The server is told of the very span that its call is.
    let told = format!("00-{trace}-{}-01", request["spanId"].as_str().unwrap());
    assert_eq!(meta["traceparent"], told);
    let sent = json!(*collector.received.lock().unwrap()).to_string();
    assert!(!sent.contains("secret-word"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_costs_no_turn() {
    let model = Model::start().await;
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "--prompt",
        "hi",
        "--model",
        "scripted",
        "--intelligence",
        &model.url(),
        "--observability.otel.endpoint",
        "http://127.0.0.1:9",
    ];
    let agentd = Agentd::start(&arguments, &[], folder.path());
    let (status, output, lines) = agentd.end().await;
    assert_eq!(
        (status.code(), output.as_str()),
        (Some(0), "you said: hi\n"),
        "{lines:#?}"
    );
}
