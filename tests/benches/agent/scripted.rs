//! A model and an MCP server that answer at once and keep nothing. `rounds N` calls the tool N times, `spawn N` spawns N
//! subagents one after the other, anything else is answered.

use std::net::SocketAddr;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Where both listen.
pub(crate) struct Peers(SocketAddr);

impl Peers {
    pub(crate) fn model(&self) -> String {
        format!("http://{}/v1", self.0)
    }

    pub(crate) fn mcp(&self) -> String {
        format!("http://{}/mcp", self.0)
    }
}

/// Starts both.
pub(crate) async fn start() -> Peers {
    let app = Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/mcp", post(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    Peers(address)
}

/// The call that comes next, when one does.
fn next(messages: &[Value]) -> Option<(&'static str, Value)> {
    let at = messages.iter().rposition(|message| message["role"] == "user")?;
    let done = messages[at..]
        .iter()
        .filter(|message| message["role"] == "tool")
        .count();
    let (what, count) = messages[at]["content"].as_str()?.split_once(' ')?;
    let (name, arguments) = match what {
        "rounds" => ("echo", json!({ "text": format!("round {done}") })),
        "spawn" => (
            "subagent_run",
            json!({ "instruction": format!("Say hi to {done}."), "mode": "warm" }),
        ),
        _ => return None,
    };
    (done < count.parse().ok()?).then_some((name, arguments))
}

async fn complete(Json(request): Json<Value>) -> Json<Value> {
    let messages = request["messages"].as_array().unwrap();
    let (message, finish) = match next(messages) {
        Some((name, arguments)) => {
            let id = format!("call_{}", messages.len());
            let function = json!({ "name": name, "arguments": arguments.to_string() });
            let calls = json!([{ "id": id, "type": "function", "function": function }]);
            (
                json!({ "role": "assistant", "content": null, "tool_calls": calls }),
                "tool_calls",
            )
        }
        None => (json!({ "role": "assistant", "content": "done" }), "stop"),
    };
    Json(json!({
        "id": "c", "object": "chat.completion", "created": 0, "model": "scripted",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish }],
        "usage": { "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10 },
    }))
}

async fn answer(Json(request): Json<Value>) -> Response {
    let Some(id) = request.get("id") else {
        return StatusCode::ACCEPTED.into_response();
    };
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "scripted", "version": "1" },
        }),
        "tools/list" => {
            let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
            json!({ "tools": [{ "name": "echo", "description": "Says it back", "inputSchema": schema }] })
        }
        "tools/call" => {
            let text = &request["params"]["arguments"]["text"];
            json!({ "content": [{ "type": "text", "text": text }] })
        }
        "ping" => json!({}),
        _ => {
            let error = json!({ "code": -32601, "message": "method not found" });
            return Json(json!({ "jsonrpc": "2.0", "id": id, "error": error })).into_response();
        }
    };
    Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response()
}
