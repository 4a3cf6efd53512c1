//! The metrics of a process that works: each counted once, where it happens, and the levels as they are when asked for.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::a2a::Caller;
use crate::mcp_server::McpServer;
use crate::model::Model;
use crate::process::Agentd;

fn calls(calls: Value) -> String {
    format!("calls {calls}")
}

/// The value of a series.
fn value(text: &str, series: &str) -> f64 {
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    rest.unwrap_or_else(|| panic!("no {series} in\n{text}"))
        .parse()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_does_is_counted_and_where_it_stands_is_shown() {
    let (mut model, server, folder) = (
        Model::start().await,
        McpServer::start().await,
        tempfile::tempdir().unwrap(),
    );
    let document = json!({
        "agent": { "instruction": "Be brief.", "max_parallel_turns": 1 },
        "intelligence": {
            "endpoints": model.url(),
            "model": "scripted",
            "budget": { "lifetime_tokens": 10_000, "reserve": { "fixed": 8 } },
        },
        "mcp": { "servers": [
            { "name": "fs", "endpoint": server.url() },
            // Nobody listens there.
            { "name": "gone", "endpoint": "http://127.0.0.1:1/mcp" },
        ] },
        "a2a": { "listen": "http://127.0.0.1:0", "dev": true },
        "observability": { "metrics_addr": "0.0.0.0:0" },
        "store": { "kind": "file", "path": folder.path().join("state") },
    });
    let file = folder.path().join("agentd.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let mut agentd = Agentd::start(&["-c", file.to_str().unwrap()], &[], folder.path());
    let caller = Caller::new(&agentd.address("a2a.listen").await);
    let open = agentd.event("metrics.bound_all_interfaces").await;
    assert_eq!(open["address"], "0.0.0.0:0");
    let admin = agentd.address("metrics.serving").await;
    let admin = Caller::new(&admin.replace("0.0.0.0", "127.0.0.1"));
    agentd.event("mcp.connect").await;
    agentd.event("mcp.connect.fail").await;

    // Three calls of the model, one to a server and two to us, one of which is a turn of its own.
    let work = calls(json!([
        ["echo", { "text": "a" }],
        ["memory_set", { "key": "k", "value": "v" }],
        ["subagent_run", { "instruction": "hi" }],
    ]));
    caller.send("m1", &work, json!({})).await;
    let text = admin.get("/metrics").await.unwrap().1;
    for (series, expected) in [
        ("agent_up", 1.0),
        ("agent_ready", 1.0),
        ("agent_runs_started_total", 2.0),
        ("agent_runs_completed_total", 2.0),
        (r#"agent_runs_total{status="completed"}"#, 2.0),
        ("agent_runs_failed_total", 0.0),
        ("agent_runs_active", 0.0),
        (r#"agent_turns_total{kind="root"}"#, 1.0),
        (r#"agent_turns_total{kind="subagent"}"#, 1.0),
        ("agent_turn_duration_ms_count", 2.0),
        (r#"agent_tool_calls_total{outcome="ok",server="fs"}"#, 1.0),
        (r#"agent_tool_calls_total{outcome="ok",server=""}"#, 2.0),
        ("agent_tool_duration_ms_count", 3.0),
        ("agent_intel_calls_total", 5.0),
        ("agent_intel_duration_ms_count", 5.0),
        ("agent_intel_up", 1.0),
        ("agent_intel_all_down", 0.0),
        ("agent_loop_steps_total", 8.0),
        ("agent_tokens_input_total", 35.0),
        ("agent_tokens_output_total", 15.0),
        ("agent_context_tokens", 7.0),
        ("agent_budget_tokens_remaining", 9950.0),
        ("agent_subagents_spawned_total", 1.0),
        ("agent_subagents_exited_total", 1.0),
        ("agent_active_subagents", 0.0),
        ("agent_tree_depth", 0.0),
        ("agent_inbox_pending", 0.0),
        ("agent_turns_queued", 0.0),
        (r#"agent_mcp_up{server="fs"}"#, 1.0),
        (r#"agent_mcp_up{server="gone"}"#, 0.0),
        (r#"agent_mcp_connect_failures_total{server="fs"}"#, 0.0),
        (r#"agent_store_ops_total{result="unavailable"}"#, 0.0),
        ("agent_workers_idle", 1.0),
    ] {
        assert_eq!(value(&text, series), expected, "{series} in\n{text}");
    }
    for series in [
        r#"agent_mcp_connect_failures_total{server="gone"}"#,
        r#"agent_store_ops_total{result="ok"}"#,
        "agent_store_latency_ms_sum",
        "agent_memory_max_bytes",
        "agent_memory_current_bytes",
        "agent_disk_free_bytes",
    ] {
        assert!(value(&text, series) > 0.0, "{series} in\n{text}");
    }

    // One turn holds the only slot, two messages of other conversations wait for it.
    let send = |id: &str, text: &str| {
        let (caller, id, text) = (caller.clone(), id.to_owned(), text.to_owned());
        tokio::spawn(async move { caller.send(&id, &text, json!({})).await })
    };
    let first = send("m2", "hold one");
    model.holds().await;
    let others = [send("m3", "two"), send("m4", "three")];
    for line in [
        "agent_inbox_pending 2",
        "agent_turns_queued 2",
        "agent_runs_active 1",
    ] {
        admin.metric(line).await;
    }
    model.release();
    first.await.unwrap();
    for other in others {
        other.await.unwrap();
    }
    admin.metric("agent_inbox_pending 0").await;

    // A subagent that lives.
    let parent = send("m5", &calls(json!([["subagent_run", { "instruction": "hold" }]])));
    model.holds().await;
    for line in [
        "agent_active_subagents 1",
        "agent_tree_depth 1",
        "agent_tree_breadth 1",
        "agent_runs_active 2",
    ] {
        admin.metric(line).await;
    }
    model.release();
    parent.await.unwrap();

    // The end, of which the last turn is waited for.
    let last = send("m6", "hold last");
    model.holds().await;
    agentd.signal(Signal::SIGTERM);
    admin.metric(r#"agent_drains_total{phase="start"} 1"#).await;
    admin.metric(r#"agent_drains_total{phase="done"} 0"#).await;
    model.release();
    let _ = last.await;
    let (status, _, lines) = agentd.end().await;
    assert_eq!(status.code(), Some(0), "{lines:#?}");
}
