//! Where an agent keeps its state: at an MCP server, at an HTTP service, in a folder; and how one looks into it.

#[path = "../../store/tests/support/mod.rs"]
pub mod support;

mod full;
mod spoilt;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use self::support::kv::Held;
use self::support::server::Server;
use crate::a2a::Caller;
use crate::process::{Agentd, kill_worker};
use crate::world::World;

impl World {
    /// Writes the document of an agent with this store; where.
    fn document(&self, name: &str, store: &Value, servers: &Value) -> String {
        let path = self.folder.path().join(format!("{name}.json"));
        let document = json!({
            "agent": { "name": "keeper", "instruction": "Be brief." },
            "intelligence": { "endpoints": [{ "url": self.model.url() }], "model": "scripted" },
            "mcp": { "servers": servers },
            "a2a": { "listen": "http://127.0.0.1:0", "dev": true },
            "store": store,
        });
        std::fs::write(&path, document.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn run(&self, document: &str) -> Agentd {
        Agentd::start(&["run", "-c", document], &[], self.folder.path())
    }

    async fn start(&self, document: &str) -> (Agentd, Caller) {
        let mut agentd = self.run(document);
        let a2a = agentd.address("a2a.listen").await;
        agentd.event("proc.ready").await;
        (agentd, Caller::new(&a2a))
    }

    /// `agentd store <verb>`: its exit code, what it said, its log.
    async fn look(&self, verb: &str, document: &str) -> (i32, String, Vec<Value>) {
        let agentd = Agentd::start(&["store", verb, "-c", document], &[], self.folder.path());
        let (status, out, log) = agentd.end().await;
        (status.code().unwrap(), out, log)
    }
}

/// An address at which nobody listens.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn of_mcp(endpoint: &str) -> (Value, Value) {
    (
        json!({ "kind": "mcp", "mcp": { "server": "ledger" } }),
        json!([{ "name": "ledger", "endpoint": endpoint, "tags": { "*": ["sensitive"] } }]),
    )
}

fn of_http(base_url: &str) -> (Value, Value) {
    (
        json!({ "kind": "http", "http": { "base_url": base_url } }),
        json!([]),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn m18_a_store_whose_server_is_down_at_the_start_ends_the_agent_with_6_and_names_the_server() {
    let world = World::new().await;
    let url = nobody();
    for ((store, servers), part) in [
        (of_mcp(&url), "MCP server `ledger` (store.mcp.server)".to_owned()),
        (
            of_http(&url),
            format!("HTTP store at {}", url.trim_start_matches("http://")),
        ),
    ] {
        let document = world.document("down", &store, &servers);
        let (status, out, log) = world.run(&document).end().await;
        assert_eq!((status.code(), out.as_str()), (Some(6), ""), "{log:#?}");
        let failed = log
            .iter()
            .find(|line| line["event"] == "store.open.fail")
            .unwrap();
        let text = failed["err"].as_str().unwrap();
        assert!(text.contains(&part), "{text}");
        if store["kind"] == "mcp" {
            assert!(
                log.iter()
                    .any(|line| line["event"] == "mcp.connect.fail" && line["mcp.server"] == "ledger")
            );
        }
        // Whoever looks into it is told the same.
        let (code, out, log) = world.look("check", &document).await;
        assert_eq!((code, out.as_str()), (6, ""), "{log:#?}");
    }
}

/// Killed and started again: what was said is there, and goes on being there.
async fn survives(world: &World, document: &str) {
    let (agentd, caller) = world.start(document).await;
    let first = caller.send("m1", "hello one", json!({})).await;
    assert_eq!(first["status"]["state"], "TASK_STATE_COMPLETED", "{first:#}");
    kill_worker(agentd.pid());
    agentd.end().await;
    let (agentd, caller) = world.start(document).await;
    let id = first["id"].as_str().unwrap();
    assert_eq!(caller.task(id).await, first);
    let again = caller.send("m1", "hello one", json!({})).await;
    assert_eq!(again["id"], first["id"], "the same message is the same task");

    let (code, out, log) = world.look("check", document).await;
    assert_eq!(code, 0, "{out} {log:#?}");
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&found["ok"], &found["unreadable"]), (&json!(true), &json!(0)));
    let counts: BTreeMap<String, u64> = serde_json::from_value(found["counts"].clone()).unwrap();
    for kind in ["task", "inbox", "context"] {
        assert_eq!(counts[kind], 1, "{counts:?}");
    }
    let (code, out, log) = world.look("export", document).await;
    assert_eq!(code, 0, "{log:#?}");
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len() as u64, counts.values().sum::<u64>());
    let task = lines.iter().find(|line| line["kind"] == "task").unwrap();
    assert_eq!(
        (&task["record"]["id"], &task["record"]["state"]),
        (&first["id"], &json!("completed"))
    );
    // The agent did not notice.
    let second = caller.send("m2", "hello two", json!({})).await;
    assert_eq!(second["status"]["state"], "TASK_STATE_COMPLETED", "{second:#}");
    drop(agentd);
}

#[tokio::test(flavor = "multi_thread")]
async fn state_at_an_mcp_server_survives_a_kill_and_is_looked_into() {
    let (world, server) = (World::new().await, Server::start(&Held::default()).await);
    let (store, servers) = of_mcp(&server.endpoint());
    survives(&world, &world.document("mcp", &store, &servers)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn state_at_an_http_service_survives_a_kill_and_is_looked_into() {
    let (world, server) = (World::new().await, Server::start(&Held::default()).await);
    let (store, servers) = of_http(&server.base_url());
    survives(&world, &world.document("http", &store, &servers)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn state_in_a_folder_survives_a_kill_and_is_looked_into() {
    let world = World::new().await;
    let store = json!({ "kind": "file", "path": world.folder.path().join("state") });
    survives(&world, &world.document("file", &store, &json!([]))).await;
}

/// Two agents of one name: the one that came later goes on, the other ends before it answers to anything.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_no_longer_has_its_store_ends_with_6() {
    let (world, server) = (World::new().await, Server::start(&Held::default()).await);
    let (store, servers) = of_http(&server.base_url());
    let document = world.document("twins", &store, &servers);
    let (first, caller) = world.start(&document).await;
    let (_second, other) = world.start(&document).await;
    let _ = caller
        .try_send("m1", "hello", json!({ "returnImmediately": true }))
        .await;
    let (status, _, log) = first.end().await;
    assert_eq!(status.code(), Some(6), "{log:#?}");
    let lost = log.iter().find(|line| line["event"] == "store.conflict").unwrap();
    assert!(
        lost["err"]
            .as_str()
            .unwrap()
            .contains("two agents have the same name and store"),
        "{lost}"
    );
    let answered = other.send("m2", "hello", json!({})).await;
    assert_eq!(answered["status"]["state"], "TASK_STATE_COMPLETED");
}
