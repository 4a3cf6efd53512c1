//! Servers that keep keys: MCP tools of the profile and of another shape, and plain HTTP. All of them show one set of
//! keys, and what was sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_config::document::{HttpStore, McpServer, McpStore};
use agentd_mcp::Outbound;
use agentd_state::StoreError;
use agentd_store::Kv as _;
use agentd_store::kv::KvError;
use agentd_store::remote::{HttpKv, McpKv};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use serde_json::{Value, json};

use super::kv::{Held, TestKv};

#[derive(Clone)]
struct Shared {
    kv: TestKv,
    seen: Arc<Mutex<Vec<Value>>>,
    /// Number of the session that is known.
    session: Arc<Mutex<u32>>,
    /// Answers to the next HTTP requests.
    answers: Arc<Mutex<Vec<StatusCode>>>,
}

/// A running server; it ends with the test's runtime.
pub struct Server {
    url: String,
    pub kv: TestKv,
    /// What HTTP requests and tool calls brought.
    pub seen: Arc<Mutex<Vec<Value>>>,
    pub answers: Arc<Mutex<Vec<StatusCode>>>,
    session: Arc<Mutex<u32>>,
}

impl Server {
    pub async fn start(held: &Held) -> Self {
        Self::start_with(held, |router| router).await
    }

    /// As [`Self::start`], with something in front of it.
    pub async fn start_with(held: &Held, wrap: impl FnOnce(Router) -> Router) -> Self {
        let kv = TestKv::new(held);
        let (seen, answers, session) = <(Arc<Mutex<_>>, Arc<Mutex<_>>, Arc<Mutex<_>>)>::default();
        let shared = Shared {
            kv: kv.clone(),
            seen: seen.clone(),
            answers: answers.clone(),
            session: session.clone(),
        };
        let router = Router::new()
            .route("/mcp", any(mcp))
            .route("/base/", any(list))
            .route("/base/{*key}", any(keys))
            .layer(DefaultBodyLimit::disable())
            .with_state(shared);
        let router = wrap(router);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            url,
            kv,
            seen,
            answers,
            session,
        }
    }

    /// Where the keys are over HTTP.
    pub fn base_url(&self) -> String {
        format!("{}/base/", self.url)
    }

    /// Where the MCP server is.
    pub fn endpoint(&self) -> String {
        format!("{}/mcp", self.url)
    }

    /// The MCP server knows no session any more.
    pub fn forget(&self) {
        *self.session.lock().unwrap() += 1;
    }

    pub async fn mcp(&self, store: McpStore) -> Result<McpKv, StoreError> {
        let server: McpServer =
            serde_json::from_value(json!({ "name": "state", "endpoint": format!("{}/mcp", self.url) }))
                .unwrap();
        McpKv::connect(
            &store,
            server,
            "test".into(),
            Outbound::default(),
            Duration::from_secs(20),
        )
        .await
    }

    pub fn http(&self, store: HttpStore) -> HttpKv {
        let store = HttpStore {
            base_url: format!("{}/base/", self.url),
            ..store
        };
        HttpKv::new(&store, &Outbound::default(), Duration::from_secs(20)).unwrap()
    }
}

async fn mcp(State(shared): State<Shared>, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    let session = shared.session.lock().unwrap().to_string();
    if method != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    let Some(id) = message.get("id") else {
        return StatusCode::ACCEPTED.into_response();
    };
    let named = headers
        .get("mcp-session-id")
        .map(|named| named.to_str().unwrap() == session);
    if named == Some(false) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let answer = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "state", "version": "1" },
        }),
        "tools/list" => {
            let names = [
                "state.put",
                "state.get",
                "state.list",
                "state.delete",
                "kv_set",
                "kv_read",
                "kv_keys",
            ];
            let tools = names.map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
            json!({ "tools": tools })
        }
        "tools/call" => {
            shared.seen.lock().unwrap().push(message["params"].clone());
            let given = &message["params"]["arguments"];
            match call(&shared.kv, message["params"]["name"].as_str().unwrap(), given).await {
                Ok(value) => json!({ "content": [{ "type": "text", "text": value.to_string() }] }),
                Err(error) => json!({ "isError": true, "content": [{ "type": "text", "text": error }] }),
            }
        }
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            return axum::Json(json!({ "jsonrpc": "2.0", "id": id, "error": error })).into_response();
        }
    };
    let answer = axum::Json(json!({ "jsonrpc": "2.0", "id": id, "result": answer }));
    ([("mcp-session-id", session)], answer).into_response()
}

async fn call(kv: &TestKv, tool: &str, given: &Value) -> Result<Value, String> {
    let text = |name: &str| given[name].as_str().unwrap_or_default();
    let error = |error: KvError| match error {
        KvError::Conflict(_) => "Conflict: the key has moved on".to_owned(),
        error => error.to_string(),
    };
    let seq = given["seq"].as_u64().unwrap_or_default();
    match tool {
        "state.put" => kv.put(text("key"), seq, text("value")).await.map_err(error)?,
        "state.delete" => kv.delete(text("key"), seq).await.map_err(error)?,
        "state.get" => return Ok(json!({ "value": kv.get(text("key")).await.map_err(error)? })),
        "state.list" => {
            let page = kv
                .list(text("prefix"), given["after"].as_str())
                .await
                .map_err(error)?;
            return Ok(json!({ "keys": page.keys, "next": page.next }));
        }
        // A store of another kind: no numbers, no cursor, an object as value, an error for what is not there.
        "kv_set" => {
            let before = kv.held.lock().unwrap().get(text("name")).map_or(0, |(at, _)| *at);
            kv.put(text("name"), before + 1, &given["data"]["envelope"].to_string())
                .await
                .map_err(error)?;
        }
        "kv_read" => {
            let kept = kv
                .get(text("name"))
                .await
                .map_err(error)?
                .ok_or("name not found")?;
            return Ok(json!({ "data": { "envelope": serde_json::from_str::<Value>(&kept).unwrap() } }));
        }
        "kv_keys" => {
            let held = kv.held.lock().unwrap();
            return Ok(json!(held.keys().collect::<Vec<_>>()));
        }
        _ => return Err("no such tool".into()),
    }
    Ok(json!({}))
}

fn parameters(uri: &Uri) -> std::collections::HashMap<String, String> {
    url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
        .into_owned()
        .collect()
}

fn refused(shared: &Shared) -> Option<Response> {
    let answer = shared.answers.lock().unwrap().pop()?;
    Some((answer, "as the test says").into_response())
}

async fn list(State(shared): State<Shared>, uri: Uri) -> Response {
    let given = parameters(&uri);
    let after = given.get("after").filter(|after| !after.is_empty());
    let page = shared
        .kv
        .list(&given["prefix"], after.map(String::as_str))
        .await
        .unwrap();
    axum::Json(json!({ "keys": page.keys, "next": page.next })).into_response()
}

async fn keys(
    State(shared): State<Shared>,
    method: Method,
    Path(key): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> Response {
    let given = parameters(&uri);
    let idempotency = headers
        .get("idempotency-key")
        .map(|value| value.to_str().unwrap());
    shared.seen.lock().unwrap().push(json!({
        "method": method.as_str(), "key": key, "seq": given.get("seq"), "idempotency": idempotency,
    }));
    if let Some(answer) = refused(&shared) {
        return answer;
    }
    let seq = given
        .get("seq")
        .and_then(|seq| seq.parse().ok())
        .unwrap_or_default();
    let done = match method {
        Method::GET => {
            return match shared.kv.get(&key).await.unwrap() {
                Some(text) => text.into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            };
        }
        Method::PUT => shared.kv.put(&key, seq, &body).await,
        _ => shared.kv.delete(&key, seq).await,
    };
    match done {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(KvError::Conflict(_)) => StatusCode::PRECONDITION_FAILED.into_response(),
        Err(error) => (StatusCode::INSUFFICIENT_STORAGE, error.to_string()).into_response(),
    }
}
