//! A scripted MCP server: revision 2025-11-25, JSON answers, no sessions; one tool `echo`. It records every call.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A running server.
pub struct McpServer {
    pub address: SocketAddr,
    seen: Arc<Seen>,
    serving: tokio::task::AbortHandle,
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Value>>,
    headers: Mutex<Vec<HeaderMap>>,
    is_down: AtomicBool,
}

impl McpServer {
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap()).await
    }

    pub async fn start_at(address: SocketAddr) -> Self {
        Self::start_with(address, |app| app).await
    }

    /// As [`Self::start_at`], with something in front of it.
    pub async fn start_with(address: SocketAddr, wrap: impl FnOnce(Router) -> Router) -> Self {
        let seen = Arc::new(Seen::default());
        let app = Router::new().route("/mcp", post(answer)).with_state(seen.clone());
        let app = wrap(app);
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }).abort_handle();
        Self {
            address,
            seen,
            serving,
        }
    }

    /// Closes the port. Connections that are open stay.
    pub fn stop(&self) {
        self.serving.abort();
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// From now on every request is answered with 503, or is not.
    pub fn set_down(&self, is_down: bool) {
        self.seen.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Requests with this method, in order.
    pub fn requests(&self, method: &str) -> Vec<Value> {
        let requests = self.seen.requests.lock().unwrap();
        requests
            .iter()
            .filter(|request| request["method"] == method)
            .cloned()
            .collect()
    }

    /// The headers of every request.
    pub fn headers(&self) -> Vec<HeaderMap> {
        self.seen.headers.lock().unwrap().clone()
    }
}

async fn answer(State(seen): State<Arc<Seen>>, headers: HeaderMap, Json(request): Json<Value>) -> Response {
    seen.requests.lock().unwrap().push(request.clone());
    seen.headers.lock().unwrap().push(headers);
    if seen.is_down.load(Ordering::SeqCst) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let Some(id) = request.get("id").cloned() else {
        return StatusCode::ACCEPTED.into_response();
    };
    let result = match request["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "scripted", "version": "1" },
            "instructions": "Scripted server: echo is safe.",
        }),
        "tools/list" => json!({ "tools": [{
            "name": "echo", "description": "Says it back",
            "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } },
        }] }),
        "tools/call" => {
            let text = request["params"]["arguments"]["text"]
                .as_str()
                .unwrap_or_default();
            json!({ "content": [{ "type": "text", "text": format!("echo: {text}") }], "isError": false })
        }
        "ping" => json!({}),
        _ => {
            let error = json!({ "code": -32601, "message": "method not found" });
            return Json(json!({ "jsonrpc": "2.0", "id": id, "error": error })).into_response();
        }
    };
    Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response()
}
