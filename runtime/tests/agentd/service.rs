//! The long-lived agent over its loopback listener.

use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::a2a::{Caller, answer, said};
use crate::mcp_server::McpServer;
use crate::model::{Model, task_tools};
use crate::process::{Agentd, kill_worker, stat, stop};

struct World {
    model: Model,
    server: McpServer,
    folder: TempDir,
}

impl World {
    async fn new() -> Self {
        Self {
            model: Model::start().await,
            server: McpServer::start().await,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Starts the agent and waits for its ports: A2A and admin.
    async fn start(&self, more: &[&str]) -> (Agentd, Caller, Caller) {
        let mut arguments: Vec<String> = [
            "--intelligence",
            &self.model.url(),
            "--model",
            "scripted",
            "--instruction",
            "Be brief.",
            "--mcp",
            &format!("fs={}", self.server.url()),
            "--a2a.listen",
            "http://127.0.0.1:0",
            "--a2a.dev",
            "--observability.metrics_addr",
            "127.0.0.1:0",
            "--store.path",
            self.folder.path().join("state").to_str().unwrap(),
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.extend(more.iter().map(|s| (*s).to_owned()));
        let mut agentd = Agentd::start(&arguments, &[], self.folder.path());
        let a2a = agentd.address("a2a.listen").await;
        let admin = agentd.address("metrics.serving").await;
        agentd.event("proc.ready").await;
        (agentd, Caller::new(&a2a), Caller::new(&admin))
    }
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_default()
}

/// A send in the background.
fn send(caller: &Caller, id: &str, text: &str, more: Value) -> tokio::task::JoinHandle<Value> {
    let (caller, id, text) = (caller.clone(), id.to_owned(), text.to_owned());
    tokio::spawn(async move { caller.send(&id, &text, more).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_answered_by_a_tool_and_the_conversation_goes_on_in_a_warm_worker() {
    let world = World::new().await;
    let (mut agentd, caller, admin) = world.start(&[]).await;
    agentd.event("mcp.connect").await;

    let first = caller.send("m1", "echo one", json!({})).await;
    assert_eq!(
        (state(&first), answer(&first)),
        ("TASK_STATE_COMPLETED", "the tool said: echo: one"),
        "{first:#}"
    );
    let workers = agentd.workers();
    assert_eq!(workers.len(), 1);

    let context = first["contextId"].as_str().unwrap();
    let second = caller
        .send("m2", "echo two", json!({ "contextId": context }))
        .await;
    assert_eq!(
        (second["contextId"].as_str(), answer(&second)),
        (Some(context), "the tool said: echo: two")
    );
    assert_eq!(agentd.workers(), workers, "the worker stays warm");
    // One handshake of the supervisor, one of the worker, and what was said before is known.
    assert_eq!(world.server.requests("initialize").len(), 2);
    let messages = world.model.requests().last().unwrap()["messages"].to_string();
    assert!(messages.contains("echo one") && messages.contains("echo two"));
    // Every call has a key of its own, and none is that of another turn.
    let keys: Vec<String> = world
        .server
        .requests("tools/call")
        .iter()
        .map(|call| {
            call["params"]["_meta"]["agent/idempotency_key"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1]);

    let got = caller.task(second["id"].as_str().unwrap()).await;
    assert_eq!(got, second);
    assert_eq!(admin.get("/healthz").await.unwrap().0, 200);
    assert_eq!(admin.get("/readyz").await.unwrap(), (200, "ok\n".into()));
    for line in [
        r#"agent_runs_total{status="completed"} 2"#,
        r#"agent_tool_calls_total{outcome="ok",server="fs"} 2"#,
        "agent_intel_calls_total 4",
        r#"agent_tokens_total{type="input"} 28"#,
        r#"agent_mcp_up{server="fs"} 1"#,
    ] {
        admin.metric(line).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_message_twice_is_one_task() {
    let mut world = World::new().await;
    let (_agentd, caller, _) = world.start(&[]).await;
    let first = caller
        .send("m1", "hold", json!({ "returnImmediately": true }))
        .await;
    assert!(
        ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state(&first)),
        "{first}"
    );
    let again = caller
        .send("m1", "hold", json!({ "returnImmediately": true }))
        .await;
    assert_eq!(again["id"], first["id"]);
    // A retry that blocks gets the answer of the first.
    let blocking = send(&caller, "m1", "hold", json!({}));
    world.model.holds().await;
    world.model.release();
    let task = blocking.await.unwrap();
    assert_eq!(
        (task["id"].clone(), state(&task)),
        (first["id"].clone(), "TASK_STATE_COMPLETED")
    );
    assert_eq!(world.model.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_runs_in_order_and_another_beside_it() {
    let mut world = World::new().await;
    let (_agentd, caller, _) = world.start(&[]).await;
    let now = json!({ "returnImmediately": true, "contextId": "one" });
    caller.send("m1", "hold first", now.clone()).await;
    assert_eq!(world.model.holds().await, "hold first");
    let second = caller.send("m2", "hold second", now).await;
    // The other conversation is not kept waiting.
    let other = caller.send("m3", "hi", json!({ "contextId": "two" })).await;
    assert_eq!(state(&other), "TASK_STATE_COMPLETED");
    assert_eq!(
        state(&caller.task(second["id"].as_str().unwrap()).await),
        "TASK_STATE_SUBMITTED"
    );
    world.model.release();
    assert_eq!(world.model.holds().await, "hold second");
    world.model.release();
    assert_eq!(
        state(&caller.ended(second["id"].as_str().unwrap()).await),
        "TASK_STATE_COMPLETED"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_fails_one_turn_truthfully_and_the_next_message_works() {
    let mut world = World::new().await;
    let (agentd, caller, admin) = world.start(&[]).await;
    let context = json!({ "contextId": "c" });
    caller.send("m0", "hi", context.clone()).await;
    let sending = send(&caller, "m1", "hold", context.clone());
    world.model.holds().await;
    let workers = agentd.workers();
    assert_eq!(workers.len(), 1);
    kill_worker(workers[0]);
    let task = sending.await.unwrap();
    assert_eq!(state(&task), "TASK_STATE_FAILED");
    assert!(said(&task).contains("SIGKILL"), "{task:#}");
    let next = caller.send("m2", "still there?", context).await;
    assert_eq!(
        (state(&next), answer(&next)),
        ("TASK_STATE_COMPLETED", "you said: still there?")
    );
    // What was said before the crash is still known.
    assert!(
        world.model.requests().last().unwrap()["messages"]
            .to_string()
            .contains("\"hi\"")
    );
    assert_ne!(agentd.workers(), workers);
    admin.metric("agent_worker_crashes_total 1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_supervisor_keeps_its_tasks_and_takes_its_workers_along() {
    let mut world = World::new().await;
    let (agentd, caller, _) = world.start(&[]).await;
    let context = json!({ "returnImmediately": true, "contextId": "c" });
    let done = caller
        .send("m0", "remember the milk", json!({ "contextId": "c" }))
        .await;
    let running = caller.send("m1", "hold", context.clone()).await;
    world.model.holds().await;
    let waiting = caller.send("m2", "what was it?", context).await;
    let workers = agentd.workers();
    assert_eq!(workers.len(), 1);
    agentd.signal(Signal::SIGKILL);
    agentd.end().await;
    let gone = async {
        let worker = format!("/proc/{}", workers[0]);
        while stat(Path::new(&worker)).is_some_and(|stat| stat[0] != "Z") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::process::PATIENCE, gone)
        .await
        .expect("an orphaned worker");

    let (_agentd, caller, _) = world.start(&[]).await;
    assert_eq!(caller.task(done["id"].as_str().unwrap()).await, done);
    let lost = caller.task(running["id"].as_str().unwrap()).await;
    assert_eq!(state(&lost), "TASK_STATE_FAILED");
    assert!(said(&lost).contains("restarted"), "{lost:#}");
    let resumed = caller.ended(waiting["id"].as_str().unwrap()).await;
    assert_eq!(
        (state(&resumed), answer(&resumed)),
        ("TASK_STATE_COMPLETED", "you said: what was it?")
    );
    let messages = world.model.requests().last().unwrap()["messages"].to_string();
    assert!(messages.contains("remember the milk"), "{messages}");
}

#[tokio::test(flavor = "multi_thread")]
async fn field_c05_a_drain_lets_a_turn_end() {
    let mut world = World::new().await;
    let (mut agentd, caller, _) = world.start(&[]).await;
    let sending = send(&caller, "m1", "hold", json!({}));
    world.model.holds().await;
    agentd.signal(Signal::SIGTERM);
    agentd.event("drain.start").await;
    world.model.release();
    assert_eq!(state(&sending.await.unwrap()), "TASK_STATE_COMPLETED");
    let (status, _, lines) = agentd.end().await;
    assert_eq!(status.code(), Some(0), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn field_c05_a_drain_that_cannot_wait_leaves_nothing_working() {
    let mut world = World::new().await;
    let (agentd, caller, _) = world.start(&["--lifecycle.drain_timeout", "4s"]).await;
    let context = json!({ "contextId": "c" });
    let sending = send(&caller, "m1", "hold", context.clone());
    world.model.holds().await;
    let waiting = caller
        .send(
            "m2",
            "later",
            json!({ "contextId": "c", "returnImmediately": true }),
        )
        .await;
    let began = std::time::Instant::now();
    agentd.signal(Signal::SIGTERM);
    let (status, _, lines) = agentd.end().await;
    assert_eq!(status.code(), Some(0), "{lines:#?}");
    assert!(began.elapsed().as_secs() < 6, "{:?}", began.elapsed());
    // Nothing of it was done: it waits for the next start.
    assert_eq!(state(&sending.await.unwrap()), "TASK_STATE_SUBMITTED");

    world.model.release();
    let (_agentd, caller, _) = world.start(&[]).await;
    for id in [&waiting["id"]] {
        assert_eq!(
            state(&caller.ended(id.as_str().unwrap()).await),
            "TASK_STATE_COMPLETED"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn field_m05_a_tool_server_that_comes_late_is_used_when_it_is_there() {
    let mut world = World::new().await;
    // A port that nobody listens on yet.
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let late = format!("late=http://{address}/mcp");
    let (mut agentd, caller, _) = world.start(&["--mcp", &late]).await;
    agentd.event("mcp.connect.fail").await;
    let before = caller.send("m1", "hi", json!({})).await;
    assert_eq!(state(&before), "TASK_STATE_COMPLETED");
    world.server = McpServer::start_at(address).await;
    while agentd.event("mcp.connect").await["mcp.server"] != "late" {}
    caller.send("m2", "hi", json!({})).await;
    assert_eq!(task_tools(world.model.requests().last().unwrap()).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_is_killed_and_its_turn_used_up_its_time() {
    let mut world = World::new().await;
    let (agentd, caller, _) = world.start(&["--limits.run.deadline", "1s"]).await;
    let sending = send(&caller, "m1", "hold", json!({ "contextId": "c" }));
    world.model.holds().await;
    let workers = agentd.workers();
    stop(workers[0]);
    let task = sending.await.unwrap();
    assert_eq!(state(&task), "TASK_STATE_FAILED");
    assert!(said(&task).contains("limits.run.deadline"), "{task:#}");
    let gone = !Path::new(&format!("/proc/{}/exe", workers[0])).exists();
    assert!(gone, "the stopped worker is still there");
    let next = caller.send("m2", "hi", json!({ "contextId": "c" })).await;
    assert_eq!(state(&next), "TASK_STATE_COMPLETED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_died_while_it_waited_costs_nothing() {
    let world = World::new().await;
    let (agentd, caller, _) = world.start(&[]).await;
    let context = json!({ "contextId": "c" });
    caller.send("m1", "hi", context.clone()).await;
    kill_worker(agentd.workers()[0]);
    let next = caller.send("m2", "still there?", context).await;
    assert_eq!(
        (state(&next), answer(&next)),
        ("TASK_STATE_COMPLETED", "you said: still there?")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_before_it_began_costs_nothing() {
    let world = World::new().await;
    let (mut agentd, caller, _) = world.start(&[]).await;
    let context = json!({ "contextId": "c" });
    caller.send("m1", "hi", context.clone()).await;
    agentd.event("turn.start").await;
    let waiting = agentd.workers()[0];
    // It hangs, so that the turn is in its socket and not begun.
    stop(waiting);
    let sending = send(&caller, "m2", "still there?", context);
    agentd.event("turn.start").await;
    kill_worker(waiting);
    let next = sending.await.unwrap();
    assert_eq!(
        (state(&next), answer(&next)),
        ("TASK_STATE_COMPLETED", "you said: still there?")
    );
    assert_eq!(world.model.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_caller_may_not_do_is_said_and_changes_nothing() {
    let world = World::new().await;
    let (_agentd, caller, _) = world.start(&[]).await;
    let done = caller.send("m1", "hi", json!({})).await;
    let (id, context) = (done["id"].clone(), done["contextId"].clone());
    let code =
        async |more: Value| caller.try_send("m2", "again", more).await.unwrap()["error"]["code"].clone();
    assert_eq!(code(json!({ "taskId": "no-such-task" })).await, -32001);
    assert_eq!(code(json!({ "taskId": id })).await, -32004);
    assert_eq!(
        code(json!({ "taskId": id, "contextId": "another" })).await,
        -32602
    );
    assert_eq!(code(json!({ "taskId": id, "contextId": context })).await, -32004);
    assert_eq!(
        caller
            .call("GetTask", json!({ "id": "no-such-task" }))
            .await
            .unwrap()["error"]["code"],
        -32001
    );
    assert_eq!(world.model.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_is_noticed_by_the_call_that_fails_and_comes_back_by_itself() {
    let world = World::new().await;
    let (mut agentd, caller, admin) = world.start(&[]).await;
    agentd.event("mcp.connect").await;
    caller.send("m1", "echo one", json!({ "contextId": "c" })).await;
    world.server.set_down(true);
    let failed = caller.send("m2", "echo two", json!({ "contextId": "c" })).await;
    // The model is told, and the turn goes on.
    assert_eq!(state(&failed), "TASK_STATE_COMPLETED");
    assert!(answer(&failed).contains("ERROR"), "{failed:#}");
    agentd.event("mcp.connect.fail").await;
    admin.metric(r#"agent_mcp_up{server="fs"} 0"#).await;
    world.server.set_down(false);
    agentd.event("mcp.connect").await;
    let third = caller.send("m3", "echo three", json!({ "contextId": "c" })).await;
    assert_eq!(answer(&third), "the tool said: echo: three");
    let outcomes: Vec<Value> = agentd
        .lines("audit")
        .iter()
        .map(|line| line["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["ok", "unavailable", "ok"]);
}

/// The same when no call is made: a new worker that cannot connect is a sign as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_is_noticed_by_a_new_worker() {
    let world = World::new().await;
    let (mut agentd, caller, admin) = world.start(&[]).await;
    agentd.event("mcp.connect").await;
    world.server.set_down(true);
    let without = caller.send("m1", "hi", json!({})).await;
    assert_eq!(state(&without), "TASK_STATE_COMPLETED");
    admin.metric(r#"agent_mcp_up{server="fs"} 0"#).await;
    world.server.set_down(false);
    admin.metric(r#"agent_mcp_up{server="fs"} 1"#).await;
}
