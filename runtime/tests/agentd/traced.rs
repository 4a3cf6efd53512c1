//! One trace through the log: supervisor, worker, model, the tool call, a subagent and its call, by what each line says of
//! its place (contract/runtime.md section 14) and by what servers and models are told.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::process::Agentd;
use crate::tree::{World, calls};

/// Where a line says that it is.
fn place(line: &Value) -> [&str; 5] {
    ["agent_id", "agent_path", "trace_id", "span_id", "parent_span_id"]
        .map(|member| line[member].as_str().unwrap_or_default())
}

/// The lines of a run.
fn of_run(agentd: &Agentd, run_id: &str) -> Vec<Value> {
    let lines = agentd.lines.lock().unwrap();
    let own = lines.iter().filter(|line| line["run_id"] == run_id);
    own.cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_leads_through_supervisor_worker_subagent_and_tool_calls() {
    let world = World::new().await;
    let (agentd, caller) = world.start(json!({ "agent": { "name": "triage" } })).await;
    let inner = calls(json!([["echo", { "text": "inner" }]]));
    let task = calls(json!([
        ["echo", { "text": "outer" }],
        ["subagent_run", { "instruction": inner, "tools": ["echo"] }],
    ]));
    let done = caller.send("m1", &task, json!({})).await;
    let run_id = done["id"].as_str().unwrap();
    let handle = agentd.lines("subagent.spawn")[0]["subagent"].clone();
    let handle = handle.as_str().unwrap();

    let (turn, subturn) = (of_run(&agentd, run_id), of_run(&agentd, handle));
    let trace = run_id.replace('-', "");
    let [_, _, _, span, _] = place(&turn[0]);
    let own = ["triage", "triage", trace.as_str(), span, ""];
    let path = format!("triage/{handle}");
    let [_, _, _, subspan, _] = place(&subturn[0]);
    let sub = [handle, path.as_str(), trace.as_str(), subspan, span];
    for (lines, place_of_all) in [(&turn, own), (&subturn, sub)] {
        for line in lines {
            // Its calls may be spans of their own, in a build that sends them.
            let [agent, path, trace, _, _] = place(line);
            assert_eq!([agent, path, trace], place_of_all[..3], "{line}");
        }
        let told = |event: &str, component: &str| {
            let found = lines
                .iter()
                .find(|line| line["event"] == event && line["comp"] == component);
            found.unwrap_or_else(|| panic!("{event} {component}: {lines:#?}"))
        };
        for (event, component) in [
            ("turn.start", "supervisor"),
            ("tool.call", "agent"),
            ("tool.result", "agent"),
            ("turn.done", "agent"),
        ] {
            told(event, component);
        }
        assert_eq!(place(told("turn.start", "supervisor")), place_of_all);
        assert_eq!(place(told("turn.done", "agent")), place_of_all);
        let processes: BTreeSet<u64> = lines.iter().filter_map(|line| line["pid"].as_u64()).collect();
        assert_eq!(processes.len(), 2, "{lines:#?}");
    }
    // The servers are told of the same trace, and the audit of each call too.
    let requests = world.fs.requests("tools/call");
    let told: Vec<&str> = requests
        .iter()
        .map(|request| request["params"]["_meta"]["traceparent"].as_str().unwrap())
        .collect();
    assert_eq!(told.len(), 2);
    assert!(
        told.iter().all(|told| told.starts_with(&format!("00-{trace}-"))),
        "{told:?}"
    );
    let audited = agentd.lines("audit");
    let at_server = audited.iter().filter(|line| line["target"] == "fs/echo");
    let traces: Vec<&str> = at_server.map(|line| line["trace"].as_str().unwrap()).collect();
    assert_eq!(traces, told);
}
