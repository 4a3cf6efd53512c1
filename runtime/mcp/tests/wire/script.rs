//! What a scripted server does, as data, and how it answers by it.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use futures::channel::mpsc;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::peer::{Listen, Seen, Shared};

/// How `server/discover` is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discover {
    /// As server-everything does: 400 and a JSON-RPC error of the old kind, without the request's id.
    Old,
    /// 404 and a page.
    Page,
    /// Never.
    Silent,
    /// With an event stream that says nothing.
    SilentStream,
    /// With a result that says nothing, as to every method it does not know.
    Empty,
    /// As the stateless revision says.
    Modern,
}

/// What happens to a GET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Get {
    NotAllowed,
    /// Headers, as soon as there is a permit in `opening`; then nothing, for ever.
    Held,
    /// Not even headers.
    Silent,
    /// An error.
    Broken,
    /// 401 with a challenge.
    Unauthorized,
}

#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) discover: Discover,
    pub(crate) get: Get,
    /// A held stream is answered when there is a permit.
    pub(crate) opening: Option<Arc<Semaphore>>,
    /// Whether the handshake gives a session.
    pub(crate) session: bool,
    pub(crate) version: &'static str,
    pub(crate) capabilities: Value,
    pub(crate) instructions: Option<String>,
    /// By cursor; the first page is under the empty one.
    pub(crate) tools: BTreeMap<String, (Vec<Value>, Option<&'static str>)>,
    /// Before each page of tools.
    pub(crate) page_wait: Duration,
    /// What `tools/call` answers: `result` or `error`.
    pub(crate) call: Value,
    /// What the next calls and reads answer, before they answer as always.
    pub(crate) first: VecDeque<Value>,
    /// What can be read, by URI.
    pub(crate) contents: BTreeMap<&'static str, Value>,
    /// A read is answered when there is a permit.
    pub(crate) reading: Option<Arc<Semaphore>>,
    /// In place of `resources/list` and `resources/templates/list`.
    pub(crate) resources: Vec<Value>,
    pub(crate) templates: Vec<Value>,
    /// Before the answer of a call, on its stream.
    pub(crate) before_answer: Vec<Value>,
    /// How many answers of ours the answer of a call waits for; absent: one for each ping.
    pub(crate) awaited: Option<usize>,
    /// A subscription to it is never answered.
    pub(crate) silent_subscribe: Option<&'static str>,
    /// In place of everything.
    pub(crate) status: Option<(StatusCode, Option<&'static str>, &'static str)>,
    /// In place of an answer to `initialize`.
    pub(crate) silent_initialize: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            discover: Discover::Old,
            get: Get::NotAllowed,
            opening: None,
            session: true,
            version: "2025-11-25",
            capabilities: json!({"tools": {"listChanged": true}}),
            instructions: None,
            tools: BTreeMap::from([(String::new(), (vec![tool("echo")], None))]),
            page_wait: Duration::ZERO,
            call: json!({"result": {"content": [{"type": "text", "text": "hello"}]}}),
            first: VecDeque::new(),
            contents: BTreeMap::from([("a:1", text("a:1", "one"))]),
            reading: None,
            resources: vec![
                json!({"uri": "a:1", "name": "one"}),
                json!({"uri": "a:2", "name": "two"}),
            ],
            templates: vec![json!({"uriTemplate": "a:{id}", "name": "any"})],
            before_answer: Vec::new(),
            awaited: None,
            silent_subscribe: None,
            status: None,
            silent_initialize: false,
        }
    }
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("does {name}"), "inputSchema": {"type": "object"}})
}

/// What a read gives.
pub(crate) fn text(uri: &str, text: &str) -> Value {
    json!({"uri": uri, "mimeType": "text/plain", "text": text})
}

pub(crate) async fn post(shared: &Arc<Shared>, script: &Script, body: &Value) -> Response {
    let id = &body["id"];
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    match body["method"].as_str() {
        Some("server/discover") => discover(script, id).await,
        Some("initialize") if script.silent_initialize => std::future::pending().await,
        Some("initialize") => {
            let mut answer = json!({
                "protocolVersion": script.version,
                "capabilities": script.capabilities,
                "serverInfo": {"name": "scripted", "version": "9"},
            });
            if let Some(instructions) = &script.instructions {
                answer["instructions"] = instructions.clone().into();
            }
            let mut response = axum::Json(result(answer)).into_response();
            if !script.session {
                return response;
            }
            let session = {
                let mut sessions = shared.sessions.lock().unwrap();
                *sessions += 1;
                format!("session-{sessions}")
            };
            response
                .headers_mut()
                .insert("mcp-session-id", session.parse().unwrap());
            response
        }
        Some("tools/list") => {
            tokio::time::sleep(script.page_wait).await;
            let cursor = body["params"]["cursor"].as_str().unwrap_or_default();
            let Some((tools, next)) = script.tools.get(cursor) else {
                return axum::Json(
                    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "cursor"}}),
                )
                .into_response();
            };
            let mut page = json!({"tools": tools});
            if let Some(next) = next {
                page["nextCursor"] = (*next).into();
            }
            axum::Json(result(page)).into_response()
        }
        Some("resources/list") => axum::Json(result(json!({"resources": script.resources}))).into_response(),
        Some("resources/templates/list") => {
            axum::Json(result(json!({"resourceTemplates": script.templates}))).into_response()
        }
        Some("resources/subscribe") if body["params"]["uri"].as_str() == script.silent_subscribe => {
            std::future::pending().await
        }
        Some("resources/subscribe" | "resources/unsubscribe" | "ping") => {
            axum::Json(result(json!({}))).into_response()
        }
        Some("resources/read") => read(shared, script, body).await,
        Some("subscriptions/listen") => listen(shared, body),
        Some("tools/call") => call(shared, script, body).await,
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

async fn discover(script: &Script, id: &Value) -> Response {
    match script.discover {
        Discover::Old => {
            let error = json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": "Not initialized"}, "id": null});
            (StatusCode::BAD_REQUEST, axum::Json(error)).into_response()
        }
        Discover::Page => (StatusCode::NOT_FOUND, "<html>not here</html>").into_response(),
        Discover::Silent => std::future::pending().await,
        Discover::Empty => axum::Json(json!({"jsonrpc": "2.0", "id": id, "result": {}})).into_response(),
        Discover::SilentStream => events(futures::stream::pending::<Result<Bytes, Infallible>>()),
        Discover::Modern => {
            let result = json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": script.capabilities,
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "9"}},
                "ttlMs": 0,
                "cacheScope": "private",
            });
            axum::Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
        }
    }
}

/// The answer that comes before all others, if there is one.
fn first(shared: &Shared, id: &Value) -> Option<Response> {
    let mut answer = shared.script.lock().unwrap().first.pop_front()?;
    answer["jsonrpc"] = "2.0".into();
    answer["id"] = id.clone();
    Some(axum::Json(answer).into_response())
}

async fn read(shared: &Shared, script: &Script, body: &Value) -> Response {
    if let Some(reading) = &script.reading {
        reading.acquire().await.unwrap().forget();
    }
    if let Some(first) = first(shared, &body["id"]) {
        return first;
    }
    let uri = body["params"]["uri"].as_str().unwrap_or_default();
    // As it is when the answer is given.
    let contents = {
        let script = shared.script.lock().unwrap();
        script
            .contents
            .get(uri)
            .or_else(|| script.contents.get("*"))
            .cloned()
    };
    let answer = match contents {
        Some(contents) => {
            json!({"jsonrpc": "2.0", "id": body["id"], "result": {"contents": [contents], "ttlMs": 0, "cacheScope": "private"}})
        }
        None => {
            json!({"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32002, "message": "not found", "data": {"uri": uri}}})
        }
    };
    axum::Json(answer).into_response()
}

fn listen(shared: &Shared, body: &Value) -> Response {
    let (stream, receiver) = mpsc::unbounded();
    let filter = body["params"]["notifications"].clone();
    let meta = json!({"io.modelcontextprotocol/subscriptionId": body["id"]});
    let acknowledged = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": meta, "notifications": filter}});
    stream.unbounded_send(event(&acknowledged)).unwrap();
    let id = body["id"].clone();
    shared.listens.lock().unwrap().push(Listen { id, filter, stream });
    events(receiver)
}

async fn call(shared: &Arc<Shared>, script: &Script, body: &Value) -> Response {
    if let Some(first) = first(shared, &body["id"]) {
        return first;
    }
    let mut answer = json!({"jsonrpc": "2.0", "id": body["id"]});
    match &script.call {
        Value::Null => std::future::pending::<()>().await,
        Value::Object(members) => answer.as_object_mut().unwrap().extend(members.clone()),
        other => panic!("{other}"),
    }
    if script.before_answer.is_empty() {
        return axum::Json(answer).into_response();
    }
    // The answer comes only after each of our pings was answered: what comes before it was dealt with.
    let pings = script.awaited.unwrap_or_else(|| {
        let ping = |message: &&Value| message["method"] == "ping";
        script.before_answer.iter().filter(ping).count()
    });
    let mut log = shared.log.subscribe();
    let before: Vec<_> = script.before_answer.iter().map(event).collect();
    let last = async move {
        let answers = |log: &Vec<Seen>| log.iter().filter(|seen| seen.what() == "answer").count();
        log.wait_for(|log| answers(log) >= pings).await.unwrap();
        event(&answer)
    };
    events(futures::stream::iter(before).chain(futures::stream::once(last)))
}

pub(crate) fn event(message: &Value) -> Result<Bytes, Infallible> {
    Ok(Bytes::from(format!("data: {message}\n\n")))
}

pub(crate) fn events(
    stream: impl futures::Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response {
    ([("content-type", "text/event-stream")], Body::from_stream(stream)).into_response()
}
