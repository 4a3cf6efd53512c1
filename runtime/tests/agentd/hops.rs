//! The bridge as one hop between an MCP client and a server with sessions: what belongs to a hop stays on it, what
//! belongs to the two of them passes, for as long as they talk.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_config::document::{ClientTls, McpServer};
use agentd_mcp::{CallMeta, Connection, Hooks, Kind, Outbound};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use bytes::Bytes;
use futures::channel::mpsc;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::bridge::Bridge;
use crate::install::Install;
use crate::loopback::serve;
use crate::process::PATIENCE;

/// A stream that says nothing for this long is alive all the same: longer than the write and idle limits that proxies
/// come with. `SOAK=1` makes it an hour, another number so many seconds.
fn silence() -> Duration {
    let seconds = match std::env::var("SOAK") {
        Ok(given) if given != "1" => given.parse().unwrap(),
        Ok(_) => 3700,
        Err(_) => 35,
    };
    Duration::from_secs(seconds)
}

type Event = Result<Bytes, Infallible>;

/// One request: HTTP method, session, body.
#[derive(Debug, Clone)]
struct Seen {
    method: Method,
    session: Option<String>,
    body: Value,
}

/// A server with sessions, and the streams that it speaks on.
#[derive(Default)]
struct Sessions {
    seen: watch::Sender<Vec<Seen>>,
    streams: Mutex<Vec<(Option<String>, mpsc::UnboundedSender<Event>)>>,
}

impl Sessions {
    async fn start() -> (Arc<Self>, std::net::SocketAddr) {
        let sessions = Arc::new(Self::default());
        let app = Router::new()
            .route("/mcp", any(answer))
            .with_state(sessions.clone());
        let address = serve(app).await;
        (sessions, address)
    }

    async fn wait(&self, what: &str, matching: impl Fn(&Seen) -> bool) -> Seen {
        let mut seen = self.seen.subscribe();
        let waited = tokio::time::timeout(PATIENCE, seen.wait_for(|seen| seen.iter().any(&matching))).await;
        let seen = waited.unwrap_or_else(|_| panic!("no {what}")).unwrap();
        seen.iter().find(|each| matching(each)).unwrap().clone()
    }

    fn push(&self, session: &str, message: &Value) {
        let event = Bytes::from(format!("data: {message}\n\n"));
        for (whose, stream) in &*self.streams.lock().unwrap() {
            if whose.as_deref() == Some(session) {
                stream.unbounded_send(Ok(event.clone())).unwrap();
            }
        }
    }
}

async fn answer(
    State(sessions): State<Arc<Sessions>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let session = headers
        .get("mcp-session-id")
        .map(|id| id.to_str().unwrap().to_owned());
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let begun = body["method"] == "initialize";
    // Before it is written down: who has seen a GET may push.
    let stream = (method == Method::GET).then(|| {
        let (sender, receiver) = mpsc::unbounded();
        sessions.streams.lock().unwrap().push((session.clone(), sender));
        receiver
    });
    sessions.seen.send_modify(|seen| {
        seen.push(Seen {
            method,
            session: session.clone(),
            body: body.clone(),
        });
    });
    if let Some(receiver) = stream {
        return (
            [("content-type", "text/event-stream")],
            Body::from_stream(receiver),
        )
            .into_response();
    }
    let number = sessions
        .seen
        .borrow()
        .iter()
        .filter(|seen| seen.body["method"] == "initialize")
        .count();
    let result = match body["method"].as_str() {
        _ if session.is_none() && !begun => return StatusCode::BAD_REQUEST.into_response(),
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "sessions", "version": "1" },
        }),
        Some("tools/list") => json!({ "tools": [{ "name": "whose", "inputSchema": { "type": "object" } }] }),
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": session }] }),
        Some("ping") => json!({}),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    let mut response =
        axum::Json(json!({ "jsonrpc": "2.0", "id": body["id"], "result": result })).into_response();
    if begun {
        response
            .headers_mut()
            .insert("mcp-session-id", format!("session-{number}").parse().unwrap());
    }
    response
}

/// Through the bridge, with an agent's identity.
async fn open(install: &Install, bridge: &Bridge) -> Connection {
    let mut server = McpServer {
        name: "fs".into(),
        endpoint: format!("https://{}/mcp", bridge.address),
        ..McpServer::default()
    };
    server.connection.tls = Some(ClientTls {
        spiffe_id: Some(install.id("fs-mcp").to_string()),
        ..ClientTls::default()
    });
    let outbound = Outbound {
        identity: Some(install.identity("one-agent")),
        ..Outbound::default()
    };
    Connection::open(
        &server,
        None,
        Kind::Worker { era: None },
        &outbound,
        Hooks::default(),
    )
    .await
    .unwrap()
}

async fn session_of(connection: &Connection) -> String {
    let outcome = connection
        .call("whose", Map::new(), &CallMeta::default())
        .await
        .unwrap();
    outcome.text
}

/// Field case M17: each client has the session that the server gave it, the bridge's own proof has another; the server's
/// ping reaches the client and the answer reaches the server.
#[tokio::test(flavor = "multi_thread")]
async fn field_m17_sessions_are_a_clients_own_and_pings_pass_both_ways() {
    let (install, (sessions, address)) = (Install::start().await, Sessions::start().await);
    let bridge = Bridge::start(&install, address, "/mcp", &["one-agent"]).await;
    // The bridge proves the server in a session of its own.
    let own = sessions
        .wait("proof", |seen| seen.body["method"] == "tools/list")
        .await
        .session
        .unwrap();
    let (one, two) = (open(&install, &bridge).await, open(&install, &bridge).await);
    let ids = [session_of(&one).await, session_of(&two).await];
    assert!(ids[0] != ids[1] && !ids.contains(&own), "{ids:?} {own}");

    for id in &ids {
        sessions
            .wait("stream", |seen| {
                seen.method == Method::GET && seen.session.as_ref() == Some(id)
            })
            .await;
        let ping = format!("ping of {id}");
        sessions.push(id, &json!({ "jsonrpc": "2.0", "id": ping, "method": "ping" }));
        let answer = sessions
            .wait("pong", |seen| {
                seen.body["id"] == ping.as_str() && seen.body.get("result").is_some()
            })
            .await;
        assert_eq!(
            (answer.session.as_ref(), &answer.body["result"]),
            (Some(id), &json!({}))
        );
    }
    for (connection, id) in [one, two].iter().zip(&ids) {
        connection.close().await;
        sessions
            .wait("end", |seen| {
                seen.method == Method::DELETE && seen.session.as_ref() == Some(id)
            })
            .await;
    }
}

/// Field case M12: a stream on which nothing is said for long still carries the next word, and the session is the same.
#[tokio::test(flavor = "multi_thread")]
async fn field_m12_a_stream_that_is_silent_for_long_still_carries_the_next_word() {
    let (install, (sessions, address)) = (Install::start().await, Sessions::start().await);
    let bridge = Bridge::start(&install, address, "/mcp", &["one-agent"]).await;
    let connection = open(&install, &bridge).await;
    let id = session_of(&connection).await;
    sessions
        .wait("stream", |seen| {
            seen.method == Method::GET && seen.session.as_ref() == Some(&id)
        })
        .await;
    let opened = sessions
        .seen
        .borrow()
        .iter()
        .filter(|seen| seen.method == Method::GET)
        .count();
    let mut changed = connection.tools_changed();
    // The time itself is what is tested.
    tokio::time::sleep(silence()).await;
    sessions.push(
        &id,
        &json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }),
    );
    tokio::time::timeout(PATIENCE, changed.changed())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(session_of(&connection).await, id);
    let now = sessions
        .seen
        .borrow()
        .iter()
        .filter(|seen| seen.method == Method::GET)
        .count();
    assert_eq!(now, opened, "the stream was never opened again");
    connection.close().await;
}
