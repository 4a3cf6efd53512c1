//! What binds the process of a subagent, and what it begins with.

use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use crate::a2a::{answer, said};
use crate::process::stat;
use crate::tree::{World, calls, results};

/// The niceness of a process, by the system: that of the thread that works, which its first thread only waits for.
fn niceness(pid: u32) -> i64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let each = tasks.map(|task| stat(&task.unwrap().path()).unwrap()[16].parse().unwrap());
    each.max().unwrap()
}

/// The soft limit and the hard one.
fn limit(pid: u32, name: &str) -> Vec<String> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().take(2).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_the_process_of_a_subagent_has_its_limits_and_its_priority() {
    let mut world = World::new().await;
    let (agentd, caller) = world.start(json!({})).await;
    let limits = json!({ "memory": "4GiB", "cpu": "90s" });
    let run = json!({ "instruction": "hold echo x", "priority": "low", "limits": limits, "tools": ["echo"] });
    let task = calls(json!([
        ["subagent_run", { "instruction": "hi", "limits": { "memory": "1M" } }],
        ["subagent_run", run],
    ]));
    let sending = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.send("m1", &task, json!({})).await })
    };
    world.model.holds().await;
    let workers = agentd.workers();
    let (root, child) = (workers[0], *workers.last().unwrap());
    // Also where the whole agent runs with less than the usual priority; there is none below this.
    assert_eq!(niceness(child), (niceness(root) + 10).min(19));
    assert_eq!(limit(child, "Max address space"), ["4294967296", "4294967296"]);
    assert_eq!(limit(child, "Max cpu time"), ["90", "91"]);
    assert_eq!(limit(root, "Max cpu time")[0], "unlimited");
    world.model.release();
    sending.await.unwrap();
    let told = results(&world);
    assert!(
        told[0].as_str().unwrap().contains("at least 128 MiB"),
        "{told:#?}"
    );
    assert_eq!(told[1]["result"], "the tool said: echo: x", "{told:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_warm_subagent_that_is_retired_has_done_its_work() {
    let world = World::new().await;
    let (_agentd, caller) = world.start(json!({})).await;
    let task = calls(json!([
        ["subagent_run", { "instruction": "one", "mode": "warm" }],
        ["subagent_retire", { "handle": "$handle" }],
        ["subagent_send", { "handle": "$handle", "message": "two" }],
        ["subagent_retire", { "handle": "nobody" }],
    ]));
    caller.send("m1", &task, json!({})).await;
    let told = results(&world);
    let ended = |told: &Value| (told["status"].clone(), told["result"].clone());
    assert_eq!(ended(&told[0]), (json!("waiting"), json!("you said: one")));
    assert_eq!(ended(&told[1]), (json!("completed"), json!("you said: one")));
    for refused in &told[2..] {
        assert!(
            refused.as_str().unwrap().contains("no subagent of yours"),
            "{told:#?}"
        );
    }
}

/// A condition that takes a processor some time, and holds; each is another.
fn laborious(number: usize) -> Value {
    let list = vec!["1"; 200].join(",");
    let condition = format!("[{list}].all(x, [{list}].all(y, x + y > 0 && x - y < 1)) && {number} < 1000");
    json!(["await", { "condition": condition, "timeout": "60s" }])
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_subagent_that_uses_up_its_processor_time_fails_by_that_name_and_alone() {
    let world = World::new().await;
    let (agentd, caller) = world
        .start(json!({ "limits": { "run": { "steps": 1000 } } }))
        .await;
    let labour: Vec<Value> = (0..9).map(laborious).collect();
    let run = |limits: Value| json!(["subagent_run", { "instruction": calls(json!(labour)), "limits": limits, "tools": ["await"] }]);
    let task = calls(json!([run(json!({ "cpu": "1s" })), ["echo", { "text": "after" }]]));
    let task = caller.send("m1", &task, json!({})).await;
    let told = results(&world);
    assert_eq!(told[0]["status"], "failed", "{told:#?}");
    let reason = told[0]["reason"].as_str().unwrap();
    for part in ["SIGXCPU", "processor time", "limits.cpu"] {
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(answer(&task), "the tool said: echo: after", "{task:#}");
    // Those of the conversation are as they were.
    assert!(agentd.lines("turn.failed").len() <= 1);
}

/// Bytes of address space that a process has.
fn address_space(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmSize:"))
        .unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_given_no_more_memory_fails_its_turn_by_that_name_and_no_other() {
    let mut world = World::new().await;
    let (agentd, caller) = world.start(json!({})).await;
    let send = |id: &str, text: String| {
        let (caller, id) = (caller.clone(), id.to_owned());
        tokio::spawn(async move { caller.send(&id, &text, json!({ "contextId": id })).await })
    };
    let other = send("other", "hold echo other".to_owned());
    world.model.holds().await;
    let others = agentd.workers();
    let large = send("large", format!("hold echo {}", "x".repeat(512 * 1024)));
    world.model.holds().await;
    let hit = agentd
        .workers()
        .into_iter()
        .find(|pid| !others.contains(pid))
        .unwrap();
    let all = Rlimit {
        current: Some(address_space(hit)),
        maximum: None,
    };
    let pid = rustix::process::Pid::from_raw(i32::try_from(hit).unwrap());
    prlimit(pid, Resource::As, all).unwrap();
    world.model.release();
    world.model.release();
    let (large, other) = (large.await.unwrap(), other.await.unwrap());
    assert_eq!(large["status"]["state"], "TASK_STATE_FAILED", "{}", said(&large));
    for part in ["SIGABRT", "no memory"] {
        assert!(said(&large).contains(part), "{}", said(&large));
    }
    assert_eq!(answer(&other), "the tool said: echo: other", "{other:#}");
    assert_eq!(agentd.workers(), others);
    // The conversation goes on in another worker.
    let next = caller
        .send("next", "hello", json!({ "contextId": "large" }))
        .await;
    assert_eq!(answer(&next), "you said: hello", "{next:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_subagent_can_live_with_the_least_memory_that_may_be_asked_for() {
    let world = World::new().await;
    let (_agentd, caller) = world.start(json!({})).await;
    let run = json!({ "instruction": "echo small", "limits": { "memory": "128MiB" }, "tools": ["echo"] });
    caller
        .send("m1", &calls(json!([["subagent_run", run]])), json!({}))
        .await;
    let told = results(&world);
    assert_eq!(told[0]["result"], "the tool said: echo: small", "{told:#?}");
}
