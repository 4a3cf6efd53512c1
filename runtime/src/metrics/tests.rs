use agentd_agent::Holder;
use agentd_mcp::ServerView;

use super::machine::Machine;
use super::*;
use crate::worker::frame::ToolOutcome;

/// Counts each once, so that each has a series.
fn used(process: Process) -> Metrics {
    let metrics = Metrics::new(process).unwrap();
    metrics.turn(Holder::Root).ended(Status::Completed);
    metrics.tool(&ToolCalled::begin(Action::Tool, "r", 0), &Document::default());
    let mut server = ServerView::new(serde_json::from_str(r#"{"name": "fs", "endpoint": "e"}"#).unwrap());
    server.failures = 2;
    metrics.servers(&ServersView {
        servers: vec![server],
        ..ServersView::default()
    });
    metrics.bridge_request("forwarded");
    metrics
}

fn levels() -> Levels {
    let machine = Machine {
        memory_max: Some(3),
        memory: Some(2),
        disk_free: Some(1),
    };
    Levels {
        budget: Some(9),
        machine,
        ..Levels::default()
    }
}

/// As the table has them: name, type, labels, where, help.
fn rows(process: Process, whose: &str) -> Vec<[String; 5]> {
    let metrics = used(process);
    metrics.render(true, Some(&levels()));
    let families = metrics.registry.gather().into_iter().map(|family| {
        let labels = family.get_metric()[0].get_label().iter();
        let labels: Vec<_> = labels.map(|pair| format!("`{}`", pair.name())).collect();
        let kind = format!("{:?}", family.get_field_type()).to_lowercase();
        let name = format!("`{}`", family.name());
        [
            name,
            kind,
            labels.join(" "),
            whose.to_owned(),
            family.help().to_owned(),
        ]
    });
    families.collect()
}

#[test]
fn the_table_has_every_metric_as_it_is_and_no_other() {
    let mut all = rows(Process::Agent, "agent");
    for row in rows(Process::Bridge, "bridge") {
        match all.iter_mut().find(|known| known[0] == row[0]) {
            Some(known) => known[3] = "agent bridge".to_owned(),
            None => all.push(row),
        }
    }
    all.sort();
    let written: Vec<String> = all.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    let table = include_str!("../../METRICS.md");
    let table: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(table, written, "\n{}\n", written.join("\n"));
}

fn has(metrics: &Metrics, line: &str) {
    let text = String::from_utf8(metrics.render(true, Some(&levels()))).unwrap();
    assert!(text.lines().any(|one| one == line), "{line} not in\n{text}");
}

#[test]
fn every_turn_that_begins_is_counted_as_ended_by_how_or_as_active() {
    let metrics = Metrics::new(Process::Agent).unwrap();
    for (status, kind) in [
        (Status::Completed, Holder::Root),
        (Status::Cancelled, Holder::Subagent),
        (Status::Deadline, Holder::Root),
        (Status::Refused, Holder::Root),
        (Status::Failed, Holder::Root),
    ] {
        metrics.turn(kind).ended(status);
    }
    // One whose process ends before it.
    drop(metrics.turn(Holder::Root));
    let _runs = metrics.turn(Holder::Root);
    for line in [
        "agent_runs_started_total 7",
        "agent_runs_active 1",
        "agent_runs_completed_total 1",
        "agent_runs_failed_total 3",
        "agent_runs_killed_total 1",
        "agent_limit_exceeded_total 1",
        "agent_refusals_total 1",
        r#"agent_runs_total{status="deadline"} 1"#,
        r#"agent_runs_total{status="loop_detected"} 0"#,
        r#"agent_turns_total{kind="root"} 4"#,
        r#"agent_turns_total{kind="subagent"} 1"#,
        "agent_turn_duration_ms_count 5",
    ] {
        has(&metrics, line);
    }
}

#[test]
fn a_model_is_down_when_no_endpoint_answered() {
    let metrics = Metrics::new(Process::Agent).unwrap();
    let call = |error: Option<&str>| ModelCalled {
        run_id: "r".into(),
        input_tokens: if error.is_some() { 0 } else { 7 },
        output_tokens: 2,
        error: error.map(str::to_owned),
        millis: 3,
    };
    has(&metrics, "agent_intel_up 1");
    for (error, up) in [
        (None, 1),
        (Some("unavailable"), 0),
        // It said no: somebody is there.
        (Some("denied"), 1),
        (Some("unavailable"), 0),
        (None, 1),
    ] {
        metrics.model(&call(error));
        has(&metrics, &format!("agent_intel_up {up}"));
        has(&metrics, &format!("agent_intel_all_down {}", 1 - up));
        has(&metrics, "agent_context_tokens 7");
    }
    has(&metrics, "agent_intel_calls_total 5");
    has(&metrics, "agent_loop_steps_total 5");
    has(&metrics, r#"agent_intel_errors_total{reason="unavailable"} 2"#);
    has(&metrics, r#"agent_tokens_total{type="input"} 14"#);
    has(&metrics, "agent_tokens_input_total 14");
    has(&metrics, "agent_tokens_output_total 10");
    has(&metrics, "agent_intel_duration_ms_sum 15");
}

#[test]
fn calls_and_failures_are_counted_by_the_names_of_the_document_alone() {
    let metrics = Metrics::new(Process::Agent).unwrap();
    let mut document = Document::default();
    let server = || serde_json::from_str(r#"{"name": "fs", "endpoint": "e"}"#).unwrap();
    document.mcp.servers.push(server());
    let call = |server: Option<&str>, action| ToolCalled {
        server: server.map(str::to_owned),
        outcome: ToolOutcome::Ok,
        ..ToolCalled::begin(action, "r", 0)
    };
    for (server, action) in [
        (None, Action::Tool),
        (Some("fs"), Action::Tool),
        (Some("made up"), Action::Tool),
        (Some("fs"), Action::Read),
    ] {
        metrics.tool(&call(server, action), &document);
    }
    for server in ["", "fs", "?"] {
        let line = format!(r#"agent_tool_calls_total{{outcome="ok",server="{server}"}} 1"#);
        has(&metrics, &line);
    }
    has(&metrics, "agent_loop_steps_total 3");
    // Failures are told as how many there were: some are never seen one by one, and none counts twice.
    let mut view = ServerView::new(server());
    for (failures, counted) in [(2, 2), (2, 2), (5, 5), (0, 5), (1, 6)] {
        view.failures = failures;
        metrics.servers(&ServersView {
            servers: vec![view.clone()],
            ..ServersView::default()
        });
        let line = format!(r#"agent_mcp_connect_failures_total{{server="fs"}} {counted}"#);
        has(&metrics, &line);
    }
    metrics.connect_failed("made up", &document);
    has(&metrics, r#"agent_mcp_connect_failures_total{server="?"} 1"#);
}

#[test]
fn what_is_not_known_has_no_series() {
    let metrics = Metrics::new(Process::Agent).unwrap();
    has(&metrics, "agent_budget_tokens_remaining 9");
    has(&metrics, "agent_disk_free_bytes 1");
    let text = String::from_utf8(metrics.render(false, Some(&Levels::default()))).unwrap();
    assert!(
        !text.contains("agent_budget") && !text.contains("_bytes"),
        "{text}"
    );
    assert!(text.contains("agent_ready 0"), "{text}");
}
