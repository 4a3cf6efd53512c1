//! A running agent takes up another configuration: SIGHUP, watched files, what is refused, and what it costs its peers.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::a2a::{Caller, answer};
use crate::mcp_server::McpServer;
use crate::model::Model;
use crate::process::Agentd;

struct World {
    model: Model,
    one: McpServer,
    other: McpServer,
    folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        Self {
            model: Model::start().await,
            one: McpServer::start().await,
            other: McpServer::start().await,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("etc/agentd.json")
    }

    /// A configuration with one server.
    fn document(&self) -> Value {
        json!({
            "agent": { "name": "reloads", "instruction": "Be brief." },
            "intelligence": { "endpoints": [self.model.url()], "model": "scripted" },
            "mcp": { "servers": [{ "name": "one", "endpoint": self.one.url() }] },
            "a2a": { "listen": "http://127.0.0.1:0", "dev": true },
            "store": { "path": self.folder.path().join("state") },
            "observability": { "metrics_addr": "127.0.0.1:0" },
        })
    }

    /// As an editor writes it: beside, then in its place.
    fn write(&self, document: &Value) {
        let beside = self.file().with_extension("new");
        std::fs::create_dir_all(beside.parent().unwrap()).unwrap();
        std::fs::write(&beside, document.to_string()).unwrap();
        std::fs::rename(beside, self.file()).unwrap();
    }

    async fn start(&self, document: &Value) -> (Agentd, Caller, Caller) {
        self.write(document);
        let mut agentd = Agentd::start(&["-c", self.file().to_str().unwrap()], &[], self.folder.path());
        let a2a = agentd.address("a2a.listen").await;
        let admin = agentd.address("metrics.serving").await;
        agentd.event("mcp.connect").await;
        agentd.event("proc.ready").await;
        (agentd, Caller::new(&a2a), Caller::new(&admin))
    }

    /// What the model was told to be, last.
    fn system(&self) -> String {
        let requests = self.model.requests();
        requests.last().unwrap()["messages"][0]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

fn handshakes(server: &McpServer) -> usize {
    server.requests("initialize").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn m24_a_reload_shakes_hands_only_where_something_changed_and_lists_tools_anew() {
    let world = World::new().await;
    let mut document = world.document();
    let (mut agentd, caller, admin) = world.start(&document).await;
    assert_eq!((handshakes(&world.one), handshakes(&world.other)), (1, 0));
    let listed = world.one.requests("tools/list").len();

    document["agent"]["instruction"] = json!("Be long.");
    let other = json!({ "name": "other", "endpoint": world.other.url(), "ns": "o" });
    document["mcp"]["servers"].as_array_mut().unwrap().push(other);
    world.write(&document);
    agentd.signal(Signal::SIGHUP);
    let reloaded = agentd.event("config.reloaded").await;
    assert_eq!(
        (&reloaded["changed"], &reloaded["generation"]),
        (&json!("agent.instruction, mcp.servers"), &json!(2)),
        "{reloaded}"
    );
    agentd.event("mcp.connect").await;
    assert_eq!((handshakes(&world.one), handshakes(&world.other)), (1, 1));
    admin.metric("agent_config_generation 2").await;
    while world.one.requests("tools/list").len() == listed {
        tokio::task::yield_now().await;
    }
    let said = caller.send("m1", "hello", json!({})).await;
    assert_eq!(answer(&said), "you said: hello");
    assert!(world.system().contains("Be long."), "{}", world.system());

    // Another header is another connection, to that server alone.
    let before = (handshakes(&world.one), handshakes(&world.other));
    document["mcp"]["servers"][1]["headers"] = json!({ "X-Team": "blue" });
    world.write(&document);
    agentd.signal(Signal::SIGHUP);
    assert_eq!(agentd.event("config.reloaded").await["changed"], "mcp.servers");
    agentd.event("mcp.connect").await;
    assert_eq!(
        (handshakes(&world.one), handshakes(&world.other)),
        (before.0, before.1 + 1)
    );

    // Nothing has changed: it is a reload even so, since it was asked for, and it costs no handshake.
    let listed = world.other.requests("tools/list").len();
    agentd.signal(Signal::SIGHUP);
    let reloaded = agentd.event("config.reloaded").await;
    assert_eq!(
        (&reloaded["changed"], &reloaded["generation"]),
        (&json!(""), &json!(4))
    );
    while world.other.requests("tools/list").len() == listed {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        (handshakes(&world.one), handshakes(&world.other)),
        (before.0, before.1 + 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_takes_all_or_nothing_and_says_what_is_wrong() {
    let world = World::new().await;
    let good = world.document();
    let (mut agentd, caller, admin) = world.start(&good).await;

    // Two faults beside a good change: each is named, nothing counts.
    let mut wrong = good.clone();
    wrong["agent"]["instruction"] = json!("Be long.");
    wrong["mcp"]["servers"][0]["endpoint"] = json!("http://mcp.example/mcp");
    wrong["mcp"]["default_timeout"] = json!("0s");
    world.write(&wrong);
    agentd.signal(Signal::SIGHUP);
    let refused = agentd.event("config.reload.invalid").await;
    let why = refused["err"].as_str().unwrap();
    assert!(
        why.contains("mcp.servers[one].endpoint: is plain http")
            && why.contains("mcp.default_timeout: is zero"),
        "{why}"
    );
    caller.send("m1", "hello", json!({})).await;
    assert!(world.system().contains("Be brief."), "{}", world.system());
    admin
        .metric(r#"agent_config_reload_total{result="rejected"} 1"#)
        .await;

    // What needs a new process is named, and keeps the rest out too.
    let mut restart = good.clone();
    restart["agent"]["instruction"] = json!("Be long.");
    restart["store"] = json!({ "kind": "memory" });
    restart["lifecycle"] = json!({ "drain_timeout": "3s" });
    world.write(&restart);
    agentd.signal(Signal::SIGHUP);
    let refused = agentd.event("config.reload.restart_required").await;
    assert_eq!(
        refused["paths"], "store.path, store.kind, lifecycle.drain_timeout",
        "{refused}"
    );
    assert!(
        refused["err"]
            .as_str()
            .unwrap()
            .ends_with("nothing was taken up; restart it")
    );
    caller.send("m2", "hello", json!({})).await;
    assert!(world.system().contains("Be brief."), "{}", world.system());

    // No file at all.
    std::fs::remove_file(world.file()).unwrap();
    agentd.signal(Signal::SIGHUP);
    let refused = agentd.event("config.reload.invalid").await;
    assert!(
        refused["err"].as_str().unwrap().contains("does not exist"),
        "{refused}"
    );
    assert_eq!(
        handshakes(&world.one),
        3,
        "the supervisor's, and one for each conversation"
    );

    let mut mended = good;
    mended["limits"] = json!({ "run": { "steps": 7 } });
    world.write(&mended);
    agentd.signal(Signal::SIGHUP);
    let reloaded = agentd.event("config.reloaded").await;
    assert_eq!(
        (&reloaded["changed"], &reloaded["generation"]),
        (&json!("limits.run.steps"), &json!(2))
    );
    admin
        .metric(r#"agent_config_reload_total{result="applied"} 2"#)
        .await;
    assert!(agentd.lines("config.watch.armed").is_empty() && agentd.lines("config.watch.fired").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn watched_files_are_taken_up_by_themselves_whichever_way_they_are_written() {
    let world = World::new().await;
    let mut document = world.document();
    document["lifecycle"] = json!({ "watch_config": true });
    let (mut agentd, _, admin) = world.start(&document).await;
    let folder = world.file().parent().unwrap().canonicalize().unwrap();
    let armed = agentd.event("config.watch.armed").await;
    let folders = armed["folders"].as_str().unwrap();
    assert!(folders.contains(folder.to_str().unwrap()), "{armed}");
    assert_eq!(agentd.inotify_instances(), 1);

    // In its place.
    document["limits"] = json!({ "run": { "steps": 2 } });
    world.write(&document);
    agentd.event("config.watch.fired").await;
    assert_eq!(
        agentd.event("config.reloaded").await["changed"],
        "limits.run.steps"
    );

    // Over itself, in two steps: the half that is seen in between, if it is, is refused and then mended.
    document["limits"] = json!({ "run": { "steps": 3 } });
    std::fs::write(world.file(), document.to_string()).unwrap();
    assert_eq!(
        agentd.event("config.reloaded").await["changed"],
        "limits.run.steps"
    );

    // What is wrong is said once, however often the folder changes, and what was is good again.
    let good = document.clone();
    document["limits"]["run"]["stepz"] = json!(1);
    world.write(&document);
    let is_about_it = |line: &Value| {
        line["err"]
            .as_str()
            .unwrap()
            .contains("limits.run.stepz: unknown key")
    };
    while !is_about_it(&agentd.event("config.reload.invalid").await) {}
    std::fs::write(folder.join("unrelated"), "x").unwrap();
    world.write(&good);
    agentd.event("config.valid").await;
    let said = agentd.lines("config.reload.invalid");
    assert_eq!(said.iter().filter(|line| is_about_it(line)).count(), 1);

    // A kubelet's way: the file becomes a link through `..data`, which is swapped.
    for (dated, steps) in [("..1", 4), ("..2", 5)] {
        document = good.clone();
        document["limits"] = json!({ "run": { "steps": steps } });
        std::fs::create_dir(folder.join(dated)).unwrap();
        std::fs::write(folder.join(dated).join("agentd.json"), document.to_string()).unwrap();
        std::os::unix::fs::symlink(dated, folder.join("..data_tmp")).unwrap();
        std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
        if steps == 4 {
            let _ = std::fs::remove_file(world.file());
            std::os::unix::fs::symlink("..data/agentd.json", world.file()).unwrap();
        }
        let reloaded = agentd.event("config.reloaded").await;
        assert_eq!(reloaded["changed"], "limits.run.steps");
    }
    // Without inotify instances of its own, and without a restart.
    assert_eq!(agentd.inotify_instances(), 1);
    admin.metric("agent_config_generation 5").await;
    assert_eq!(handshakes(&world.one), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_from_a_pipe_outlives_the_pipe() {
    let world = World::new().await;
    let fifo = world.folder.path().join("63");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (to, text) = (fifo.clone(), world.document().to_string());
    let writer = std::thread::spawn(move || std::fs::write(to, text).unwrap());
    let mut agentd = Agentd::start(&["-c", fifo.to_str().unwrap()], &[], world.folder.path());
    writer.join().unwrap();
    agentd.event("proc.ready").await;
    agentd.signal(Signal::SIGHUP);
    assert_eq!(agentd.event("config.reloaded").await["changed"], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_as_a_configuration_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let agentd = Agentd::start(&["-c", "/dev/zero", "--prompt", "x"], &[], folder.path());
    let (status, _, lines) = agentd.end().await;
    assert_eq!(status.code(), Some(2));
    assert!(
        json!(lines)
            .to_string()
            .contains("/dev/zero: is not a regular file"),
        "{lines:#?}"
    );
}
