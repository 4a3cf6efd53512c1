//! What the MCP client costs on loopback, one JSON line for each measure: name, value, unit, n, limit; it fails where a
//! measure is above what the project promises. The server is this same
//! program in a process of its own, so that the client's time and memory are the client's.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs
)]

mod limits;

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use agentd_config::document::{Mcp, McpServer};
use agentd_mcp::supervised::PACE;
use agentd_mcp::{
    CallMeta, Change, Connection, Content, Hooks, Kind, Outbound, ResourceConsumer, Supervised,
};
use async_trait::async_trait;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Json, Router};
use futures::channel::mpsc;
use serde_json::{Map, Value, json};

use limits::{Limits, measure};

const ROUNDS: u32 = 5_000;
const NOTICES: u32 = 300;
const CYCLES: u32 = 1_000;
/// Before anything is counted: pools are filled, buffers have grown.
const WARM: u32 = 100;
/// Between a read and the next notification.
const PAUSE: Duration = Duration::from_millis(5);
/// CPU of one tool round.
const ROUND_US: f64 = 500.0;
/// From a notification to whom it wakes.
const NOTICE_US: f64 = 10_000.0;
/// What the allocator may keep of a thousand connections; one that leaked a single kilobyte each would be above.
const LEFT_KIB: f64 = 1_000.0;
/// Kernel ticks of `/proc/self/stat` (`getconf CLK_TCK` is 100 on every Linux that we run on).
const TICK_US: u64 = 10_000;

fn main() {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .expect("the first");
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    // `cargo bench` adds arguments of its own.
    if std::env::args().any(|argument| argument == "serve") {
        return runtime.block_on(serve());
    }
    runtime.block_on(async {
        let mut server = Server::start();
        let mut limits = Limits::default();
        tool_rounds(&server, &mut limits).await;
        cycles(&server, &mut limits).await;
        notices(&mut server, &mut limits).await;
        limits.hold();
    });
}

async fn open(server: &Server) -> Connection {
    let kind = Kind::Worker { era: None };
    Connection::open(
        &server.declared(),
        None,
        kind,
        &Outbound::default(),
        Hooks::default(),
    )
    .await
    .unwrap()
}

async fn call(connection: &Connection) {
    let arguments: Map<String, Value> = Map::from_iter([("text".to_owned(), "a few words".into())]);
    let meta = CallMeta {
        run_id: "run-1".into(),
        instance: "agent-0".into(),
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
        idempotency_key: "key-1".into(),
        ordinal: 1,
    };
    let outcome = connection.call("echo", arguments, &meta).await.unwrap();
    assert_eq!(outcome.text, "echo");
}

/// CPU of the client for one call and its answer; wall time beside it.
async fn tool_rounds(server: &Server, limits: &mut Limits) {
    let connection = open(server).await;
    for _ in 0..WARM {
        call(&connection).await;
    }
    let (cpu, began) = (cpu_us(), Instant::now());
    for _ in 0..ROUNDS {
        call(&connection).await;
    }
    let rounds = f64::from(ROUNDS);
    let round = (cpu_us() - cpu) as f64 / rounds;
    limits.judge("mcp.tool_round.cpu", round, "us", ROUNDS, ROUND_US);
    measure(
        "mcp.tool_round.wall",
        began.elapsed().as_secs_f64() * 1e6 / rounds,
        "us",
        ROUNDS,
    );
    connection.close().await;
}

/// What a thousand connections leave behind.
async fn cycles(server: &Server, limits: &mut Limits) {
    let cycle = async || {
        let connection = open(server).await;
        call(&connection).await;
        connection.close().await;
    };
    for _ in 0..WARM {
        cycle().await;
    }
    let (files, memory) = (open_files(), rss_kib());
    for _ in 0..CYCLES {
        cycle().await;
    }
    let (left, grown) = (
        open_files() as f64 - files as f64,
        rss_kib() as f64 - memory as f64,
    );
    // The connection that the last cycle has just closed.
    limits.judge("mcp.connect_close.files_left", left, "files", CYCLES, 1.0);
    measure("mcp.connect_close.rss_before", memory as f64, "KiB", 1);
    limits.judge("mcp.connect_close.rss_grown", grown, "KiB", CYCLES, LEFT_KIB);
}

/// Takes the time from the moment that the server wrote into the content, when it told of the change, to now.
#[derive(Default)]
struct Woken(Mutex<Vec<u64>>);

#[async_trait]
impl ResourceConsumer for Woken {
    async fn changed(&self, change: Change) {
        let now = clock_us();
        if let Some(Content::Text { text, .. }) = change.contents.first() {
            let told: u64 = text.parse().unwrap();
            self.0.lock().unwrap().push(now.saturating_sub(told));
        }
    }
}

/// The clock that the two processes share.
fn clock_us() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_micros()).unwrap()
}

/// From a notification on the stream to the read that it causes, as the server sees both; and to the consumer, which has
/// what was read.
async fn notices(server: &mut Server, limits: &mut Limits) {
    let mcp = Mcp {
        servers: vec![server.declared()],
        ..Mcp::default()
    };
    let supervised = Supervised::start(&mcp, "agent-0".into(), Outbound::default(), PACE);
    let woken = Arc::new(Woken::default());
    let watch = supervised.watch("bench", "note://one", woken.clone(), None);
    let read = server.notices().await;
    drop(watch);
    supervised.close().await;
    // The first read after the subscription is of no notification.
    let woken = woken.0.lock().unwrap().split_off(1);
    assert!(
        woken.len() * 2 > NOTICES as usize,
        "the consumer saw {}",
        woken.len()
    );
    for (what, mut times) in [("read", read), ("consumer", woken)] {
        times.sort_unstable();
        let median = format!("mcp.notify_to_{what}.p50");
        limits.judge(&median, times[times.len() / 2] as f64, "us", NOTICES, NOTICE_US);
        let slow = format!("mcp.notify_to_{what}.p99");
        measure(&slow, times[times.len() * 99 / 100] as f64, "us", NOTICES);
    }
}

fn cpu_us() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // After the program's name, which may hold anything: state is field 3, utime and stime are 14 and 15.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * TICK_US
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The server's process; it ends with ours.
struct Server {
    port: u16,
    stdin: ChildStdin,
    stdout: Option<BufReader<ChildStdout>>,
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        Self {
            port: line.trim().parse().unwrap(),
            stdin: child.stdin.take().unwrap(),
            stdout: Some(stdout),
            child,
        }
    }

    fn declared(&self) -> McpServer {
        McpServer {
            name: "bench".into(),
            endpoint: format!("http://127.0.0.1:{}/mcp", self.port),
            ..McpServer::default()
        }
    }

    /// Lets it say that the resource changed, again and again; microseconds to each read.
    async fn notices(&mut self) -> Vec<u64> {
        self.stdin.write_all(b"go\n").unwrap();
        let mut stdout = self.stdout.take().unwrap();
        let read = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            line
        });
        serde_json::from_str(&read.await.unwrap()).unwrap()
    }
}

#[derive(Default)]
struct Shared {
    streams: Mutex<Vec<mpsc::UnboundedSender<Result<Bytes, Infallible>>>>,
    read: tokio::sync::Notify,
    /// When the last notification was sent.
    told: AtomicU64,
    subscribed: tokio::sync::Notify,
}

async fn serve() {
    let shared = Arc::new(Shared::default());
    let app = Router::new()
        .route("/mcp", any(answer))
        .with_state(shared.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let go = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()).unwrap());
    if go.await.unwrap() == 0 {
        return;
    }
    // Subscribed, and read for the first time.
    shared.subscribed.notified().await;
    shared.read.notified().await;
    let mut times = Vec::new();
    for _ in 0..NOTICES {
        tokio::time::sleep(PAUSE).await;
        let updated = json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": "note://one" } });
        let event = Bytes::from(format!("data: {updated}\n\n"));
        let began = Instant::now();
        shared.told.store(clock_us(), Ordering::SeqCst);
        for stream in &*shared.streams.lock().unwrap() {
            let _ = stream.unbounded_send(Ok(event.clone()));
        }
        shared.read.notified().await;
        times.push(u64::try_from(began.elapsed().as_micros()).unwrap());
    }
    println!("{}", json!(times));
    // Until the other process ends us.
    std::future::pending().await
}

async fn answer(State(shared): State<Arc<Shared>>, method: Method, body: Bytes) -> Response {
    if method == Method::GET {
        let (sender, receiver) = mpsc::unbounded();
        shared.streams.lock().unwrap().push(sender);
        return (
            [("content-type", "text/event-stream")],
            Body::from_stream(receiver),
        )
            .into_response();
    }
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let result = match request["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25", "serverInfo": { "name": "bench", "version": "1" },
            "capabilities": { "tools": {}, "resources": { "subscribe": true } },
        }),
        Some("tools/list") => json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] }),
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": "echo" }] }),
        Some("resources/list") => json!({ "resources": [{ "uri": "note://one", "name": "one" }] }),
        Some("resources/read") => {
            shared.read.notify_one();
            let told = shared.told.load(Ordering::SeqCst).to_string();
            json!({ "contents": [{ "uri": "note://one", "text": told }] })
        }
        Some("resources/subscribe") => {
            shared.subscribed.notify_one();
            json!({})
        }
        Some("server/discover") => return StatusCode::BAD_REQUEST.into_response(),
        Some("ping" | "resources/unsubscribe" | "resources/templates/list") => {
            json!({ "resourceTemplates": [] })
        }
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    // The streams of connections that were closed go with them.
    if request["method"] == "initialize" {
        shared
            .streams
            .lock()
            .unwrap()
            .retain(|stream| !stream.is_closed());
    }
    let answer = Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    // Without a session nobody asks for the notification stream.
    ([("mcp-session-id", "one")], answer).into_response()
}
