//! What binds the process of a subagent, and what it begins with.

use serde_json::{Value, json};

use crate::tree::{World, calls, results};

/// The niceness of a process, by the system.
fn niceness(pid: u32) -> i64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name, which may hold spaces, the state is the first.
    let rest = stat.rsplit_once(") ").unwrap().1;
    rest.split(' ').nth(16).unwrap().parse().unwrap()
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
    assert_eq!(limit(child, "Max cpu time"), ["90", "90"]);
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
