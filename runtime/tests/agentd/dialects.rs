//! One task with a call, by a model of each family of wire.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use crate::loopback::serve;
use crate::mcp_server::McpServer;
use crate::process::Agentd;

/// A model that calls `echo` and says what came of it, in the words of one family.
struct Model {
    dialect: &'static str,
    seen: Mutex<Vec<(String, HeaderMap, Value)>>,
}

async fn complete(State(model): State<Arc<Model>>, uri: Uri, headers: HeaderMap, body: String) -> Response {
    let request: Value = serde_json::from_str(&body).unwrap();
    model
        .seen
        .lock()
        .unwrap()
        .push((uri.to_string(), headers, request));
    let has_result = body.contains("echo: hello");
    let answer = answer(model.dialect, has_result);
    ([("content-type", "application/json")], answer.to_string()).into_response()
}

fn answer(dialect: &str, has_result: bool) -> Value {
    match (dialect, has_result) {
        ("openai", false) => json!({ "choices": [{ "message": { "tool_calls": [
            { "id": "c1", "type": "function", "function": { "name": "echo", "arguments": "{\"text\":\"hello\"}" } }] } }] }),
        ("openai", true) => {
            json!({ "choices": [{ "message": { "content": "it said hello" }, "finish_reason": "stop" }] })
        }
        ("openai-responses", false) => json!({ "status": "completed", "output": [
            { "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed" },
            { "type": "function_call", "call_id": "c1", "name": "echo", "arguments": "{\"text\":\"hello\"}" }] }),
        ("openai-responses", true) => json!({ "status": "completed", "output": [
            { "type": "message", "content": [{ "type": "output_text", "text": "it said hello" }] }] }),
        ("anthropic", false) => json!({ "content": [
            { "type": "thinking", "thinking": "Call it.", "signature": "sealed" },
            { "type": "tool_use", "id": "c1", "name": "echo", "input": { "text": "hello" } }], "stop_reason": "tool_use" }),
        ("anthropic", true) => {
            json!({ "content": [{ "type": "text", "text": "it said hello" }], "stop_reason": "end_turn" })
        }
        ("bedrock", false) => json!({ "output": { "message": { "content": [
            { "reasoningContent": { "reasoningText": { "text": "Call it.", "signature": "sealed" } } },
            { "toolUse": { "toolUseId": "c1", "name": "echo", "input": { "text": "hello" } } }] } }, "stopReason": "tool_use" }),
        ("bedrock", true) => {
            json!({ "output": { "message": { "content": [{ "text": "it said hello" }] } }, "stopReason": "end_turn" })
        }
        other => panic!("{other:?}"),
    }
}

async fn start(dialect: &'static str) -> (String, Arc<Model>) {
    let model = Arc::new(Model {
        dialect,
        seen: Mutex::default(),
    });
    let app = Router::new().fallback(complete).with_state(model.clone());
    let url = format!("http://{}/v1", serve(app).await);
    (url, model)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_task_with_a_call_by_a_model_of_each_family() {
    for (dialect, paths, keeps) in [
        ("openai", ["/v1/chat/completions", "/v1/chat/completions"], false),
        ("openai-responses", ["/v1/responses", "/v1/responses"], true),
        ("anthropic", ["/v1/messages", "/v1/messages"], true),
        (
            "bedrock",
            [
                "/v1/model/scripted/converse",
                "/v1/model/scripted/converse-stream",
            ],
            true,
        ),
    ] {
        let ((url, model), server) = (start(dialect).await, McpServer::start().await);
        let folder = tempfile::tempdir().unwrap();
        let document = json!({
            "agent": { "instruction": "Be brief.", "prompt": "echo hello" },
            "intelligence": {
                "endpoints": [{ "name": "m", "url": url, "headers": { "x-api-key": "{{secret:MODEL_KEY}}" } }],
                "model": "scripted",
                "dialect": dialect,
            },
            "mcp": { "servers": [{ "name": "fs", "endpoint": server.url() }] },
        });
        let file = folder.path().join("agentd.json");
        std::fs::write(&file, document.to_string()).unwrap();
        let agentd = Agentd::start(
            &["--config", file.to_str().unwrap()],
            &[("MODEL_KEY", "k3y-canary")],
            folder.path(),
        );
        let (status, output, lines) = agentd.end().await;
        assert_eq!(output, "it said hello\n", "{dialect}: {lines:#?}");
        assert_eq!(status.code(), Some(0));
        assert!(lines.iter().all(|line| !line.to_string().contains("k3y-canary")));
        let calls = server.requests("tools/call");
        assert_eq!(calls.len(), 1, "{dialect}");
        assert_eq!(calls[0]["params"]["arguments"], json!({ "text": "hello" }));
        let seen = model.seen.lock().unwrap();
        assert_eq!(seen.len(), 2, "{dialect}");
        for (path, headers, _) in seen.iter() {
            assert!(paths.contains(&path.as_str()), "{path}");
            assert_eq!(headers["x-api-key"], "k3y-canary");
            assert_eq!(headers.contains_key("anthropic-version"), dialect == "anthropic");
        }
        // What the provider alone understands came back to it.
        assert_eq!(
            seen[1].2.to_string().contains("sealed"),
            keeps,
            "{dialect}: {}",
            seen[1].2
        );
    }
}
