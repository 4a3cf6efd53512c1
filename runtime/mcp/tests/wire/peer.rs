//! A scripted MCP server on a loopback port. What it does is data; what it was sent is a log.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use agentd_config::document::{Connection as DocumentConnection, McpServer};
use agentd_mcp::{CallMeta, Connection, Hooks, Kind, Outbound};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use futures::channel::mpsc;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::script::{Get, Script, event, events, post};

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

/// One open event stream.
pub(crate) type Stream = mpsc::UnboundedSender<Result<Bytes, Infallible>>;

/// A `subscriptions/listen`.
pub(crate) struct Listen {
    pub(crate) id: Value,
    pub(crate) filter: Value,
    pub(crate) stream: Stream,
}

pub(crate) struct Shared {
    pub(crate) script: Mutex<Script>,
    pub(crate) log: watch::Sender<Vec<Seen>>,
    pub(crate) streams: Mutex<Vec<Stream>>,
    pub(crate) listens: Mutex<Vec<Listen>>,
    /// Sessions begun; the last is the one that is known.
    pub(crate) sessions: Mutex<u32>,
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
            listens: Mutex::default(),
            sessions: Mutex::default(),
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

    /// Ends every open notification stream.
    pub(crate) fn hang_up(&self) {
        self.shared.streams.lock().unwrap().clear();
    }

    /// The number of the session that is known.
    pub(crate) fn sessions(&self) -> MutexGuard<'_, u32> {
        self.shared.sessions.lock().unwrap()
    }

    /// Says the same thing far too often.
    pub(crate) fn flood(&self) {
        for _ in 0..1500 {
            self.push(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        }
    }

    /// Says that something changed on every listen that asked for it; how many did.
    pub(crate) fn tell(&self, method: &str, params: &Value) -> usize {
        let mut told = 0;
        self.shared.listens.lock().unwrap().retain(|listen| {
            let wanted = match method {
                "notifications/tools/list_changed" => listen.filter["toolsListChanged"] == true,
                "notifications/resources/list_changed" => listen.filter["resourcesListChanged"] == true,
                _ => listen.filter["resourceSubscriptions"]
                    .as_array()
                    .is_some_and(|uris| uris.contains(&params["uri"])),
            };
            if !wanted {
                return !listen.stream.is_closed();
            }
            let mut params = params.clone();
            params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": listen.id});
            let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
            told += 1;
            listen.stream.unbounded_send(event(&message)).is_ok()
        });
        told
    }

    /// Ends every listen: with its result, or without a word.
    pub(crate) fn end_listens(&self, gracefully: bool) {
        for listen in std::mem::take(&mut *self.shared.listens.lock().unwrap()) {
            if gracefully {
                let meta = json!({"io.modelcontextprotocol/subscriptionId": listen.id});
                let result = json!({"jsonrpc": "2.0", "id": listen.id, "result": {"resultType": "complete", "_meta": meta}});
                let _ = listen.stream.unbounded_send(event(&result));
            }
        }
    }

    /// How many listens are open at the other end.
    pub(crate) fn listening(&self) -> usize {
        let mut listens = self.shared.listens.lock().unwrap();
        listens.retain(|listen| !listen.stream.is_closed());
        listens.len()
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
            headers: headers.clone(),
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
    let session = format!("session-{}", shared.sessions.lock().unwrap());
    if headers
        .get("mcp-session-id")
        .is_some_and(|given| *given != session)
    {
        return StatusCode::NOT_FOUND.into_response();
    }
    match http {
        Method::GET => {
            if let Some(opening) = &script.opening {
                opening.acquire().await.unwrap().forget();
            }
            get(script.get, held).await
        }
        Method::DELETE => StatusCode::OK.into_response(),
        _ => post(&shared, &script, &body).await,
    }
}

async fn get(get: Get, held: Option<mpsc::UnboundedReceiver<Result<Bytes, Infallible>>>) -> Response {
    match (get, held) {
        (Get::Held, Some(held)) => events(held),
        (Get::NotAllowed | Get::Held, _) => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        (Get::Broken, _) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        (Get::Unauthorized, _) => (
            StatusCode::UNAUTHORIZED,
            [("www-authenticate", "Bearer realm=\"x\"")],
        )
            .into_response(),
        (Get::Silent, _) => std::future::pending().await,
    }
}

/// What a call carries.
pub(crate) fn meta() -> CallMeta {
    CallMeta {
        run_id: "run-1".into(),
        instance: "agent-0".into(),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        idempotency_key: "key-1".into(),
        ordinal: 0,
    }
}
