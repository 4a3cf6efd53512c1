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

const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_part_of_its_caller_s_trace_where_that_is_one() {
    let world = World::new().await;
    let (agentd, caller) = world.start(json!({})).await;
    let send = async |id: &str, traces: &[&str]| {
        let headers: Vec<_> = traces.iter().map(|trace| ("traceparent", *trace)).collect();
        let message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": "echo x" }] });
        let told = caller.call_with(&headers, "SendMessage", json!({ "message": message }));
        let told = told.await.unwrap();
        assert_eq!(
            told["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED",
            "{told}"
        );
        let run_id = told["result"]["task"]["id"].as_str().unwrap().to_owned();
        let lines = of_run(&agentd, &run_id);
        assert!(lines.iter().any(|line| line["event"] == "inbox.accepted"));
        let [_, _, trace, _, parent] = place(&lines[0]);
        assert!(lines.iter().all(|line| line["trace_id"] == trace), "{lines:#?}");
        (run_id.replace('-', ""), trace.to_owned(), parent.to_owned())
    };
    let unsampled = GIVEN.replace("-01", "-00");
    for (id, given) in [("m1", GIVEN), ("m2", unsampled.as_str())] {
        let (_, trace, parent) = send(id, &[given]).await;
        assert_eq!([trace.as_str(), parent.as_str()], [&given[3..35], &given[36..52]]);
    }
    // Whatever else a caller writes there costs it nothing, and leads nowhere.
    let endless = format!("cc{}-{}", &GIVEN[2..], "x".repeat(4000));
    let capitals = GIVEN.to_uppercase();
    let others: [&[&str]; 5] = [&[], &["yesterday"], &[&endless], &[&capitals], &[GIVEN, GIVEN]];
    for (at, given) in others.into_iter().enumerate() {
        let (own, trace, parent) = send(&format!("n{at}"), given).await;
        assert_eq!((trace, parent.as_str()), (own, ""), "{given:?}");
    }
    // Models and servers are told of the same trace, and whether anybody keeps it.
    let calls = world.fs.requests("tools/call");
    let calls: Vec<&str> = calls
        .iter()
        .map(|call| call["params"]["_meta"]["traceparent"].as_str().unwrap())
        .collect();
    for told in [
        calls,
        world
            .model
            .traces()
            .iter()
            .step_by(2)
            .map(String::as_str)
            .collect(),
    ] {
        assert_eq!(told.len(), 7);
        assert!(
            told[0].starts_with(&GIVEN[..36]) && told[0].ends_with("-01"),
            "{told:?}"
        );
        assert!(
            told[1].starts_with(&GIVEN[..36]) && told[1].ends_with("-00"),
            "{told:?}"
        );
        assert!(
            !told[2..].iter().any(|told| told.starts_with(&GIVEN[..36])),
            "{told:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_task_is_a_part_of_what_started_the_process() {
    let world = World::new().await;
    for (given, is_taken) in [(GIVEN, true), ("yesterday", false)] {
        let url = world.model.url();
        let arguments = ["--prompt", "hi", "--model", "scripted", "--intelligence", &url];
        let agentd = Agentd::start(&arguments, &[("TRACEPARENT", given)], world.folder.path());
        let (status, _, lines) = agentd.end().await;
        assert_eq!(status.code(), Some(0), "{lines:#?}");
        let done = lines.iter().find(|line| line["event"] == "turn.done").unwrap();
        assert_eq!(done["trace_id"] == GIVEN[3..35], is_taken, "{done}");
        assert_eq!(done["parent_span_id"] == GIVEN[36..52], is_taken, "{done}");
    }
}
