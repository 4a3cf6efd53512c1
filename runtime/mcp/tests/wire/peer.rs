//! A scripted MCP server on a loopback port. What it does is data; what it was sent is a log.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use agentd_config::document::{Connection as DocumentConnection, McpServer};
use agentd_mcp::{Connection, Hooks, Kind, Outbound};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use futures::StreamExt as _;
use futures::channel::mpsc;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// One request as the server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) http: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Seen {
    /// The JSON-RPC method, or `answer`, or the HTTP method.
    pub(crate) fn what(&self) -> String {
        match &self.body["method"] {
            Value::String(method) => method.clone(),
            _ if self.body.is_object() => "answer".into(),
            _ => self.http.to_string(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

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
    /// Headers, then nothing, for ever.
    Held,
    /// Not even headers.
    Silent,
    /// An error.
    Broken,
}

#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) discover: Discover,
    pub(crate) get: Get,
    pub(crate) version: &'static str,
    pub(crate) capabilities: Value,
    pub(crate) instructions: Option<String>,
    /// By cursor; the first page is under the empty one.
    pub(crate) tools: BTreeMap<String, (Vec<Value>, Option<&'static str>)>,
    /// Before each page of tools.
    pub(crate) page_wait: Duration,
    /// What `tools/call` answers: `result` or `error`.
    pub(crate) call: Value,
    /// Before the answer of a call, on its stream.
    pub(crate) before_answer: Vec<Value>,
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
            version: "2025-11-25",
            capabilities: json!({"tools": {"listChanged": true}}),
            instructions: None,
            tools: BTreeMap::from([(String::new(), (vec![tool("echo")], None))]),
            page_wait: Duration::ZERO,
            call: json!({"result": {"content": [{"type": "text", "text": "hello"}]}}),
            before_answer: Vec::new(),
            status: None,
            silent_initialize: false,
        }
    }
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("does {name}"), "inputSchema": {"type": "object"}})
}

struct Shared {
    script: Mutex<Script>,
    log: watch::Sender<Vec<Seen>>,
    streams: Mutex<Vec<mpsc::UnboundedSender<Result<Bytes, Infallible>>>>,
}

/// A running server; dropping it closes its port and every connection.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A runtime of its own, so that stopping it closes the connections too.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Peer {
    pub(crate) async fn start(script: Script) -> Self {
        Self::on("127.0.0.1:0".parse().unwrap(), script).await
    }

    /// On a port that was used before.
    pub(crate) async fn on(address: SocketAddr, script: Script) -> Self {
        let listener = loop {
            match std::net::TcpListener::bind(address) {
                Ok(listener) => break listener,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            log: watch::Sender::default(),
            streams: Mutex::default(),
        });
        let router = Router::new().route("/mcp", any(serve)).with_state(shared.clone());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.spawn(async move { axum::serve(TcpListener::from_std(listener).unwrap(), router).await });
        Self {
            address,
            shared,
            runtime: Some(runtime),
        }
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.shared.script.lock().unwrap()
    }

    pub(crate) fn log(&self) -> Vec<Seen> {
        self.shared.log.borrow().clone()
    }

    pub(crate) fn methods(&self) -> Vec<String> {
        self.log().iter().map(Seen::what).collect()
    }

    /// The first request that is `what`, as soon as there is one.
    pub(crate) async fn seen(&self, what: &str) -> Seen {
        self.seen_times(what, 1).await
    }

    /// The `times`th request that is `what`.
    pub(crate) async fn seen_times(&self, what: &str, times: usize) -> Seen {
        let mut log = self.shared.log.subscribe();
        let log = log
            .wait_for(|log| log.iter().filter(|seen| seen.what() == what).count() >= times)
            .await
            .unwrap();
        log.iter()
            .filter(|seen| seen.what() == what)
            .nth(times - 1)
            .unwrap()
            .clone()
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.methods().iter().filter(|method| *method == what).count()
    }

    /// Says something on every open notification stream.
    pub(crate) fn push(&self, message: &Value) {
        let event = Bytes::from(format!("id: n1\ndata: {message}\n\n"));
        self.shared
            .streams
            .lock()
            .unwrap()
            .retain(|stream| stream.unbounded_send(Ok(event.clone())).is_ok());
    }

    pub(crate) fn server(&self, name: &str) -> McpServer {
        McpServer {
            name: name.into(),
            endpoint: format!("http://{}/mcp", self.address),
            ..McpServer::default()
        }
    }

    /// With every clock set to `limit`.
    pub(crate) fn hasty(&self, limit: Duration) -> McpServer {
        let clock = Some(agentd_base::duration::Duration(limit));
        let connection = DocumentConnection {
            timeout: clock,
            ..DocumentConnection::default()
        };
        McpServer {
            call_timeout: clock,
            connection,
            ..self.server("s")
        }
    }

    pub(crate) async fn boot(&self) -> Connection {
        open(&self.server("s"), boot()).await
    }
}

pub(crate) fn boot() -> Kind {
    Kind::Boot {
        instance: "agent-0".into(),
    }
}

pub(crate) async fn open(server: &McpServer, kind: Kind) -> Connection {
    Connection::open(server, None, kind, &Outbound::default(), Hooks::default())
        .await
        .unwrap()
}

/// Why a connection could not be opened.
pub(crate) async fn refused(server: &McpServer) -> agentd_mcp::ConnectError {
    Connection::open(server, None, boot(), &Outbound::default(), Hooks::default())
        .await
        .err()
        .unwrap()
}

async fn serve(State(shared): State<Arc<Shared>>, http: Method, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let script = shared.script.lock().unwrap().clone();
    // Before it is logged: whoever has seen a GET may push.
    let held = (http == Method::GET && script.get == Get::Held).then(|| {
        let (sender, receiver) = mpsc::unbounded();
        shared.streams.lock().unwrap().push(sender);
        receiver
    });
    shared.log.send_modify(|log| {
        log.push(Seen {
            http: http.clone(),
            headers,
            body: body.clone(),
        });
    });
    if let Some((status, challenge, page)) = script.status {
        let mut response = (status, [("content-type", "application/json")], page).into_response();
        if let Some(challenge) = challenge {
            response
                .headers_mut()
                .insert("www-authenticate", challenge.parse().unwrap());
        }
        return response;
    }
    match http {
        Method::GET => get(script.get, held).await,
        Method::DELETE => StatusCode::OK.into_response(),
        _ => post(&shared, &script, &body).await,
    }
}

async fn get(get: Get, held: Option<mpsc::UnboundedReceiver<Result<Bytes, Infallible>>>) -> Response {
    match (get, held) {
        (Get::Held, Some(held)) => events(held),
        (Get::NotAllowed | Get::Held, _) => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        (Get::Broken, _) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        (Get::Silent, _) => std::future::pending().await,
    }
}

async fn post(shared: &Arc<Shared>, script: &Script, body: &Value) -> Response {
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
            response
                .headers_mut()
                .insert("mcp-session-id", "session-1".parse().unwrap());
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
        Some("resources/list") => axum::Json(result(
            json!({"resources": [{"uri": "a:1", "name": "one"}, {"uri": "a:2", "name": "two"}]}),
        ))
        .into_response(),
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

async fn call(shared: &Arc<Shared>, script: &Script, body: &Value) -> Response {
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
    let pings = script
        .before_answer
        .iter()
        .filter(|message| message["method"] == "ping")
        .count();
    let mut log = shared.log.subscribe();
    let before: Vec<_> = script.before_answer.iter().map(event).collect();
    let last = async move {
        let answers = |log: &Vec<Seen>| log.iter().filter(|seen| seen.what() == "answer").count();
        log.wait_for(|log| answers(log) >= pings).await.unwrap();
        event(&answer)
    };
    events(futures::stream::iter(before).chain(futures::stream::once(last)))
}

fn event(message: &Value) -> Result<Bytes, Infallible> {
    Ok(Bytes::from(format!("data: {message}\n\n")))
}

fn events(stream: impl futures::Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    ([("content-type", "text/event-stream")], Body::from_stream(stream)).into_response()
}
