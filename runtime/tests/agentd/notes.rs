//! A scripted MCP server with one note that can change, a tool that fails in colours, and one that asks for a name.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Json, Router};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::channel::mpsc;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::loopback::serve;

type Event = Result<Bytes, Infallible>;

/// A running server.
pub struct Notes {
    address: SocketAddr,
    pub shared: Arc<Shared>,
}

#[derive(Default)]
pub struct Shared {
    note: Mutex<String>,
    /// What stands in every text of the server's.
    hostile: Mutex<String>,
    streams: Mutex<Vec<mpsc::UnboundedSender<Event>>>,
    pub headers: Mutex<Vec<HeaderMap>>,
    /// What was answered to the question.
    pub answered: watch::Sender<Option<Value>>,
}

impl Notes {
    pub async fn start() -> Self {
        let shared = Arc::new(Shared::default());
        *shared.note.lock().unwrap() = "one".into();
        let app = Router::new()
            .route("/mcp", any(answer))
            .with_state(shared.clone());
        let address = serve(app).await;
        Self { address, shared }
    }

    /// From now on this stands in every text: names, words, addresses, errors.
    pub fn say_everywhere(&self, text: &str) {
        *self.shared.hostile.lock().unwrap() = text.into();
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub fn change(&self, text: &str) {
        *self.shared.note.lock().unwrap() = text.into();
        let updated = json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": "note://one" } });
        for stream in &*self.shared.streams.lock().unwrap() {
            let _ = stream.unbounded_send(event(&updated));
        }
    }
}

fn event(message: &Value) -> Event {
    Ok(Bytes::from(format!("data: {message}\n\n")))
}

fn events(stream: impl futures::Stream<Item = Event> + Send + 'static) -> Response {
    ([("content-type", "text/event-stream")], Body::from_stream(stream)).into_response()
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    shared.headers.lock().unwrap().push(headers);
    if method == Method::GET {
        let (sender, receiver) = mpsc::unbounded();
        shared.streams.lock().unwrap().push(sender);
        return events(receiver);
    }
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    if request["id"] == "question" {
        shared.answered.send_replace(Some(request["result"].clone()));
    }
    let (Some(id), Some(called)) = (request.get("id").cloned(), request["method"].as_str()) else {
        return StatusCode::ACCEPTED.into_response();
    };
    let hostile = shared.hostile.lock().unwrap().clone();
    if !hostile.is_empty() {
        return everywhere(&hostile, &id, called);
    }
    let text = |text: &str, is_error: bool| json!({ "content": [{ "type": "text", "text": text }], "isError": is_error });
    let result = match (called, request["params"]["name"].as_str()) {
        ("initialize", _) => json!({
            "protocolVersion": "2025-11-25", "serverInfo": { "name": "notes", "version": "1" },
            "capabilities": { "tools": {}, "resources": { "subscribe": true } },
        }),
        ("tools/list", _) => {
            let tool = |name: &str, words: &str| json!({ "name": name, "description": words, "inputSchema": { "type": "object" } });
            json!({ "tools": [tool("echo", "says it again"), tool("fail", "fails\u{1b}[2J"), tool("ask", "asks")] })
        }
        ("tools/call", Some("echo")) => text(&request["params"]["arguments"].to_string(), false),
        ("tools/call", Some("fail")) => text("no \u{1b}[31msuch\u{7} file", true),
        ("tools/call", Some("ask")) => return ask(&shared, id),
        ("resources/list", _) => {
            json!({ "resources": [{ "uri": "note://one", "name": "one", "mimeType": "text/plain" }] })
        }
        ("resources/templates/list", _) => {
            json!({ "resourceTemplates": [{ "uriTemplate": "note://{n}", "name": "by name" }] })
        }
        ("resources/read", _) if request["params"]["uri"] == "note://one" => {
            let note = shared.note.lock().unwrap().clone();
            json!({ "contents": [{ "uri": "note://one", "mimeType": "text/plain", "text": note }] })
        }
        ("resources/read", _) => return error(&id, -32002, "Resource not found"),
        ("ping" | "resources/subscribe" | "resources/unsubscribe", _) => json!({}),
        _ => return error(&id, -32601, "method not found"),
    };
    let mut response = Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response();
    if called == "initialize" {
        // Without a session nobody asks for the notification stream.
        response
            .headers_mut()
            .insert("mcp-session-id", "one".parse().unwrap());
    }
    response
}

/// A server all of whose texts are this.
fn everywhere(text: &str, id: &Value, called: &str) -> Response {
    let result = match called {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "serverInfo": { "name": text, "version": text, "title": text },
            "capabilities": { "tools": {}, "resources": { "subscribe": true } }, "instructions": text,
        }),
        "tools/list" => json!({ "tools": [{
            "name": text, "title": text, "description": text,
            "inputSchema": { "type": "object", "properties": { text: { "type": "string", "description": text } } },
        }] }),
        "tools/call" => json!({ "content": [
            { "type": "text", "text": text },
            { "type": "resource_link", "uri": text, "name": text },
            { "type": "image", "data": "AAAA", "mimeType": text },
        ] }),
        "resources/list" => {
            json!({ "resources": [{ "uri": text, "name": text, "title": text, "mimeType": text }] })
        }
        "resources/templates/list" => {
            json!({ "resourceTemplates": [{ "uriTemplate": text, "name": text, "mimeType": text }] })
        }
        "resources/read" => json!({ "contents": [
            { "uri": text, "mimeType": text, "text": text },
            { "uri": text, "mimeType": text, "blob": "AAAA" },
        ] }),
        "ping" | "resources/subscribe" | "resources/unsubscribe" => json!({}),
        _ => return error(id, -32601, text),
    };
    Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response()
}

fn error(id: &Value, code: i32, message: &str) -> Response {
    Json(json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })).into_response()
}

/// A question on the call's own stream, and the call's answer once it was answered.
fn ask(shared: &Shared, id: Value) -> Response {
    let question = json!({ "jsonrpc": "2.0", "id": "question", "method": "elicitation/create", "params": {
        "message": "Who\u{1b}[31m are you?",
        "requestedSchema": { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } },
    }});
    let mut answered = shared.answered.subscribe();
    let last = async move {
        let answer = answered.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        let result = json!({ "content": [{ "type": "text", "text": answer.to_string() }] });
        event(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    };
    events(futures::stream::iter([event(&question)]).chain(futures::stream::once(last)))
}
