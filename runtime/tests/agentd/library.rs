//! A scripted MCP server of skills: prompts, resources or both. Asked for the one that is called `grow` it has another
//! one, `fresh`, and says so before it answers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::loopback::serve;

/// A running server; every request that it got.
pub struct Library {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    requests: Mutex<Vec<Value>>,
    shelf: Mutex<Shelf>,
}

/// What it has.
#[derive(Default)]
pub struct Shelf {
    /// Names of prompts; none where it offers no prompts.
    pub prompts: Option<Vec<&'static str>>,
    /// Names of resources, likewise.
    pub resources: Option<Vec<&'static str>>,
    /// So many lists of prompts fail.
    pub failing: u32,
}

impl Library {
    /// With three prompts.
    pub async fn start() -> Self {
        let prompts = Some(vec!["review", "deploy", "secret"]);
        Self::of(Shelf {
            prompts,
            ..Shelf::default()
        })
        .await
    }

    pub async fn of(shelf: Shelf) -> Self {
        let shared = Arc::new(Shared {
            requests: Mutex::default(),
            shelf: Mutex::new(shelf),
        });
        let app = Router::new()
            .route("/mcp", post(answer))
            .with_state(shared.clone());
        let address = serve(app).await;
        Self { address, shared }
    }

    /// As the document declares it.
    pub fn entry(&self) -> Value {
        json!({ "name": "library", "endpoint": format!("http://{}/mcp", self.address) })
    }

    /// The prompts that it was asked for by name, and the resources by URI.
    pub fn gets(&self) -> Vec<Value> {
        let requests = self.shared.requests.lock().unwrap();
        let gets = requests.iter().map(|request| match request["method"].as_str() {
            Some("prompts/get") => request["params"]["name"].clone(),
            Some("resources/read") => request["params"]["uri"].clone(),
            _ => Value::Null,
        });
        gets.filter(|got| !got.is_null()).collect()
    }
}

/// The system prompt of a request to the model.
pub fn system(request: &Value) -> &str {
    request["messages"][0]["content"].as_str().unwrap()
}

async fn answer(State(shared): State<Arc<Shared>>, Json(request): Json<Value>) -> Response {
    shared.requests.lock().unwrap().push(request.clone());
    let Some(id) = request.get("id").cloned() else {
        return StatusCode::ACCEPTED.into_response();
    };
    let mut shelf = shared.shelf.lock().unwrap();
    let (mut failed, mut changed) = (false, None);
    let result = match request["method"].as_str().unwrap() {
        "initialize" => {
            let mut capabilities = json!({ "tools": {} });
            for (kind, shelf) in [("prompts", &shelf.prompts), ("resources", &shelf.resources)] {
                if shelf.is_some() {
                    capabilities[kind] = json!({ "listChanged": true });
                }
            }
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "serverInfo": { "name": "library", "version": "1" },
            })
        }
        "tools/list" => json!({ "tools": [] }),
        "prompts/list" => {
            failed = shelf.failing > 0;
            shelf.failing = shelf.failing.saturating_sub(1);
            let named = |name| json!({ "name": name, "description": format!("How to {name}") });
            let prompts = shelf.prompts.iter().flatten();
            json!({ "prompts": prompts.map(named).collect::<Vec<_>>() })
        }
        "resources/list" => {
            let named = |name| json!({ "uri": format!("skill:///{name}"), "name": name, "title": format!("To {name}") });
            let resources = shelf.resources.iter().flatten();
            json!({ "resources": resources.map(named).collect::<Vec<_>>() })
        }
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        "prompts/get" => {
            let name = request["params"]["name"].as_str().unwrap();
            changed = (name == "grow").then_some("prompts");
            json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": words(name) } }] })
        }
        "resources/read" => {
            let uri = request["params"]["uri"].as_str().unwrap();
            let name = uri.strip_prefix("skill:///").unwrap();
            changed = (name == "grow").then_some("resources");
            json!({ "contents": [{ "uri": uri, "mimeType": "text/markdown", "text": words(name) }] })
        }
        _ => json!({}),
    };
    let answer = match failed {
        true => json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32603, "message": "Obey" } }),
        false => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
    };
    let Some(kind) = changed else {
        return Json(answer).into_response();
    };
    let shelf = match kind {
        "prompts" => &mut shelf.prompts,
        _ => &mut shelf.resources,
    };
    shelf.as_mut().unwrap().push("fresh");
    let said = json!({ "jsonrpc": "2.0", "method": format!("notifications/{kind}/list_changed") });
    let stream = format!("data: {said}\n\ndata: {answer}\n\n");
    ([(header::CONTENT_TYPE, "text/event-stream")], stream).into_response()
}

fn words(name: &str) -> String {
    match name {
        "deploy" => "x".repeat(500),
        "long" => "x".repeat(2000),
        name => format!("The words of {name}.\n# Obey"),
    }
}
