//! The bridge in front of a scripted server, called over mTLS.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use agentd_base::report::{Server, ServerState};
use agentd_identity::IdentitySource;
use agentd_net::{
    Declared, Destination, HttpClient, NetError, Options, Response, StreamedBody, Timeouts, TlsMode,
};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::routing::{any, post};
use axum::{Json, Router};
use bytes::Bytes;
use futures::StreamExt as _;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};

use crate::install::{Install, mount};
use crate::loopback::serve;
use crate::mcp_server::McpServer;
use crate::process::{Agentd, PATIENCE};

pub struct Bridge {
    pub agentd: Agentd,
    pub address: SocketAddr,
    admin: crate::a2a::Caller,
    pub live: PathBuf,
    pub bundle: String,
    _folder: TempDir,
}

impl Bridge {
    pub async fn start(install: &Install, upstream: SocketAddr, path: &str, allowed: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let live = folder.path().join("live");
        let bundle = install.bundle();
        mount(
            &live,
            "..1",
            &[("bridge.json", &list(install, allowed)), ("bundle.pem", &bundle)],
        );
        let mut document = install.document("fs-mcp", folder.path(), &live);
        let own = json!({
            "name": "fs", "listen": "127.0.0.1:0", "upstream_port": upstream.port(), "upstream_path": path,
            "observability": { "metrics_addr": "127.0.0.1:0" },
        });
        document
            .as_object_mut()
            .unwrap()
            .extend(own.as_object().unwrap().clone());
        let config = folder.path().join("bridge.json");
        std::fs::write(&config, document.to_string()).unwrap();
        let pod = [
            ("AGENTD_POD_NAME", "fs-mcp-0"),
            ("AGENTD_POD_UID", "u1"),
            ("AGENTD_POD_NAMESPACE", "team"),
            ("AGENTD_POD_IP", "127.0.0.2"),
        ];
        let mut agentd = Agentd::start(&["bridge", "-c", config.to_str().unwrap()], &pod, folder.path());
        let address = agentd.address("bridge.listen").await.parse().unwrap();
        let admin = crate::a2a::Caller::new(&agentd.address("metrics.serving").await);
        // Up is not ready: the SVID comes a moment later.
        agentd.event("identity.svid.renewed").await;
        Self {
            agentd,
            address,
            admin,
            live,
            bundle,
            _folder: folder,
        }
    }

    /// A client; without an identity it shows no certificate.
    fn client(&self, install: &Install, source: IdentitySource, with_certificate: bool) -> HttpClient {
        let expected = install.id("fs-mcp");
        let tls = if with_certificate {
            TlsMode::Spiffe { source, expected }
        } else {
            TlsMode::SpiffeServerOnly { source, expected }
        };
        let destination =
            Destination::declared(&format!("https://{}", self.address), Declared::Internal).unwrap();
        let timeouts = Timeouts {
            response: Some(PATIENCE),
            ..Timeouts::default()
        };
        HttpClient::new(
            destination,
            Options {
                tls,
                timeouts,
                ..Options::default()
            },
        )
        .unwrap()
    }
}

/// The reloadable half.
pub fn list(install: &Install, allowed: &[&str]) -> String {
    let allowed: Vec<String> = allowed
        .iter()
        .map(|account| install.id(account).to_string())
        .collect();
    json!({ "allowed": allowed }).to_string()
}

async fn status(client: &HttpClient, method: &str, path: &str) -> Result<(u16, String), NetError> {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .body(Bytes::from("{}"))
        .unwrap();
    let response = client.send(request).await?;
    let status = response.status.as_u16();
    Ok((
        status,
        String::from_utf8(response.body.bytes().await?.to_vec()).unwrap(),
    ))
}

async fn post_json(client: &HttpClient, path: &str, body: &Value) -> Value {
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("origin", "https://evil.example")
        .body(Bytes::from(body.to_string()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    assert_eq!(response.status.as_u16(), 200);
    serde_json::from_slice(&response.body.bytes().await.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_call_is_asked_at_every_request_and_a_removed_caller_is_cut_off() {
    let (install, server) = (Install::start().await, McpServer::start().await);
    let mut bridge = Bridge::start(&install, server.address, "/mcp", &["one-agent"]).await;
    let one = bridge.client(&install, install.identity("one-agent"), true);
    let two = bridge.client(&install, install.identity("two-agent"), true);
    let nobody = bridge.client(&install, install.identity("one-agent"), false);

    let echo = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "echo", "arguments": { "text": "hi" } } });
    assert_eq!(
        post_json(&one, "/mcp", &echo).await["result"]["content"][0]["text"],
        "echo: hi"
    );
    assert_eq!(status(&nobody, "POST", "/mcp").await.unwrap().0, 401);
    assert_eq!(status(&two, "POST", "/mcp").await.unwrap().0, 403);
    assert_eq!(status(&one, "POST", "/other").await.unwrap().0, 404);
    assert_eq!(status(&one, "POST", "/mcp/../other").await.unwrap().0, 404);
    assert_eq!(status(&one, "PUT", "/mcp").await.unwrap().0, 405);
    // A stranger learns nothing of what is there.
    assert_eq!(status(&two, "POST", "/other").await.unwrap().0, 403);

    // The server sees a plain client on loopback: no page of a browser, no name of a Service.
    let headers = server.headers().pop().unwrap();
    assert_eq!(headers["host"], format!("127.0.0.1:{}", server.address.port()));
    assert!(headers.get("origin").is_none());

    // The list changes: the other one is let in, the first one is not, on the connections that are open.
    let generation = list(&install, &["two-agent"]);
    mount(
        &bridge.live,
        "..2",
        &[("bridge.json", &generation), ("bundle.pem", &bridge.bundle)],
    );
    bridge.agentd.event("config.reloaded").await;
    assert_eq!(
        post_json(&two, "/mcp", &echo).await["result"]["content"][0]["text"],
        "echo: hi"
    );
    assert_eq!(status(&one, "POST", "/mcp").await.unwrap().0, 403);
    let metrics = bridge.admin.get("/metrics").await.unwrap().1;
    assert!(
        metrics.contains(r#"agent_bridge_requests_total{outcome="forwarded"} 2"#),
        "{metrics}"
    );
    assert_eq!(bridge.admin.get("/readyz").await.unwrap().0, 200);

    bridge.agentd.signal(Signal::SIGTERM);
    let (status, output, lines) = bridge.agentd.end().await;
    assert_eq!((status.code(), output.as_str()), (Some(0), ""), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_reports_what_it_proved_and_which_folder_it_runs_with() {
    let (install, server) = (Install::start().await, McpServer::start().await);
    let mut bridge = Bridge::start(&install, server.address, "/mcp", &["one-agent"]).await;
    let (id, report) = install
        .report(|report| report.servers[0].state == ServerState::Connected)
        .await;
    assert_eq!(id, install.id("fs-mcp"));
    assert_eq!(
        (report.pod_name.as_str(), report.pod_uid.as_str()),
        ("fs-mcp-0", "u1")
    );
    let [proven] = report.servers.as_slice() else {
        panic!("{report:#?}")
    };
    assert_eq!(
        (
            proven.name.as_str(),
            proven.tool_count,
            proven.tools[0].name.as_str()
        ),
        ("fs", 1, "echo")
    );
    assert_eq!(proven.info.as_ref().unwrap().protocol_version, "2025-11-25");
    assert_eq!(
        report.listens_on_all_addresses,
        Some(false),
        "it listens on 127.0.0.1 alone"
    );
    assert_eq!(bridge.agentd.inotify_instances(), 1);
    // The first report waited for the first look.
    assert_eq!(install.first_report().await, report);
    let running = report.running_digest.clone().unwrap();
    assert_eq!(running, agentd_config::live::read(&bridge.live).unwrap().digest);

    // A folder that is wrong is refused whole: the list before stays, and the report says so.
    mount(
        &bridge.live,
        "..2",
        &[
            ("bridge.json", r#"{"allowed":["nobody"]}"#),
            ("bundle.pem", &bridge.bundle),
        ],
    );
    bridge.agentd.event("config.reload.invalid").await;
    let (_, report) = install.report(|report| report.rejected.is_some()).await;
    let rejected = report.rejected.unwrap();
    assert_eq!(report.running_digest.as_ref(), Some(&running));
    assert_eq!(
        rejected.digest,
        agentd_config::live::read(&bridge.live).unwrap().digest
    );
    assert!(rejected.message.contains("allowed"), "{}", rejected.message);
    let one = bridge.client(&install, install.identity("one-agent"), true);
    assert_eq!(
        status(&one, "GET", "/mcp").await.unwrap().0,
        405,
        "the server's own answer"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_late_is_proven_and_one_that_goes_is_noticed() {
    let install = Install::start().await;
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let bridge = Bridge::start(&install, address, "/mcp", &["one-agent"]).await;
    let (_, report) = install
        .report(|report| report.servers[0].state == ServerState::Failed)
        .await;
    assert!(report.servers[0].message.is_some());
    // Nothing is known, which is not the same as nothing found.
    assert_eq!(
        (&report.servers[0].info, report.listens_on_all_addresses),
        (&None, None)
    );
    let one = bridge.client(&install, install.identity("one-agent"), true);
    assert_eq!(status(&one, "POST", "/mcp").await.unwrap().0, 502);

    // On every address this time, which is told.
    let server = McpServer::start_at(SocketAddr::new("0.0.0.0".parse().unwrap(), address.port())).await;
    let (_, report) = install
        .report(|report| report.servers[0].state == ServerState::Connected)
        .await;
    assert_eq!(report.listens_on_all_addresses, Some(true));

    // Away again: what it was is still known.
    let known = report.servers[0].clone();
    assert_eq!((known.tool_count, known.info.is_some()), (1, true));
    server.set_down(true);
    let caller = bridge.client(&install, install.identity("one-agent"), true);
    let _ = status(&caller, "POST", "/mcp").await;
    server.stop();
    let _ = status(&caller, "POST", "/mcp").await;
    let (_, report) = install
        .report(|report| report.servers[0].state == ServerState::Failed && report.servers[0].info.is_some())
        .await;
    let lost = Server {
        state: ServerState::Failed,
        message: report.servers[0].message.clone(),
        ..known
    };
    assert_eq!(report.servers, [lost]);
    assert_eq!(report.listens_on_all_addresses, Some(true));
}

/// Whether a server hides does not depend on whether it speaks MCP.
#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_speaks_something_else_is_looked_at_all_the_same() {
    let install = Install::start().await;
    for (address, is_open) in [("127.0.0.1:0", false), ("0.0.0.0:0", true)] {
        let listener = TcpListener::bind(address).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let app = Router::new().route("/mcp", any(|| async { "hello" }));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let upstream = SocketAddr::new("127.0.0.1".parse().unwrap(), port);
        let _bridge = Bridge::start(&install, upstream, "/mcp", &[]).await;
        let (_, report) = install
            .report(|report| report.listens_on_all_addresses == Some(is_open))
            .await;
        assert_eq!(report.servers[0].state, ServerState::Failed);
    }
}

/// Answers each chunk of a request as soon as it has come: both bodies must be streams.
async fn mirror(
    State(end): State<Arc<Mutex<mpsc::Sender<()>>>>,
    request: Request,
) -> axum::response::Response {
    let mut chunks = request.into_body().into_data_stream();
    let (sender, receiver) = mpsc::channel::<Result<Bytes, Infallible>>(1);
    tokio::spawn(async move {
        while let Some(Ok(chunk)) = chunks.next().await {
            if sender
                .send(Ok(Bytes::from([b"data: ", &chunk[..], b"\n\n"].concat())))
                .await
                .is_err()
            {
                break;
            }
        }
        // The caller hung up, or was done.
        sender.closed().await;
        let _ = end.lock().await.send(()).await;
    });
    let stream = futures::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    });
    axum::response::Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(stream))
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_stream_both_ways_and_a_caller_that_hangs_up_is_hung_up_on() {
    let install = Install::start().await;
    let (ended, mut end) = mpsc::channel(1);
    let app = Router::new()
        .route("/mirror", any(mirror))
        .with_state(Arc::new(Mutex::new(ended)))
        .route("/mcp", post(|Json(_): Json<Value>| async { "not MCP" }));
    let upstream = serve(app).await;
    let bridge = Bridge::start(&install, upstream, "/mirror", &["one-agent"]).await;
    let one = bridge.client(&install, install.identity("one-agent"), true);

    let (chunks, queue) = mpsc::channel::<std::io::Result<Bytes>>(1);
    let body: StreamedBody = futures::stream::unfold(queue, |mut queue| async {
        queue.recv().await.map(|chunk| (chunk, queue))
    })
    .boxed();
    chunks.send(Ok(Bytes::from("one"))).await.unwrap();
    let Response {
        status,
        headers,
        body,
    } = one
        .send_streamed(http::Request::post("/mirror").body(body).unwrap())
        .await
        .unwrap();
    assert_eq!(
        (status.as_u16(), headers["content-type"].to_str().unwrap()),
        (200, "text/event-stream")
    );
    let mut answers = body.chunks();
    assert_eq!(answers.next().await.unwrap().unwrap(), "data: one\n\n");
    chunks.send(Ok(Bytes::from("two"))).await.unwrap();
    assert_eq!(answers.next().await.unwrap().unwrap(), "data: two\n\n");
    drop(answers);
    drop(chunks);
    tokio::time::timeout(PATIENCE, end.recv()).await.unwrap().unwrap();

    // A stream that waits for notifications does not hold a drain up.
    let request = http::Request::get("/mirror").body(Bytes::new()).unwrap();
    let listening = one.send(request).await.unwrap();
    assert_eq!(listening.status.as_u16(), 200);
    let began = std::time::Instant::now();
    bridge.agentd.signal(Signal::SIGTERM);
    let (status, _, lines) = bridge.agentd.end().await;
    assert!(
        status.success() && began.elapsed().as_secs() < 10,
        "{:?} {lines:#?}",
        began.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s06_a_port_that_does_not_speak_mcp_is_not_proven() {
    let install = Install::start().await;
    let app = Router::new().route(
        "/mcp",
        any(|| async { axum::response::Html("<html>hello</html>") }),
    );
    let upstream = serve(app).await;
    let bridge = Bridge::start(&install, upstream, "/mcp", &["one-agent"]).await;
    let (_, report) = install
        .report(|report| report.servers[0].state == ServerState::Failed)
        .await;
    let message = report.servers[0].message.clone().unwrap();
    assert!(
        !message.is_empty() && report.servers[0].tool_count == 0,
        "{message}"
    );
    // It only informs: the bridge is ready all the same.
    assert_eq!(bridge.admin.get("/readyz").await.unwrap().0, 200);
}
