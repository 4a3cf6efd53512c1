//! One task and out.

use axum::http::StatusCode;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::mcp_server::McpServer;
use crate::model::Model;
use crate::process::Agentd;

fn arguments(model: &Model, server: &str, prompt: &str) -> Vec<String> {
    let mcp = format!("fs={server}");
    [
        "--instruction",
        "Be brief.",
        "--intelligence",
        &model.url(),
        "--model",
        "scripted",
        "--mcp",
        &mcp,
        "--prompt",
        prompt,
    ]
    .map(str::to_owned)
    .to_vec()
}

fn audit(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["event"] == "audit").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_on_stdout_and_json_lines_on_stderr() {
    let (model, server, folder) = (
        Model::start().await,
        McpServer::start().await,
        tempfile::tempdir().unwrap(),
    );
    let agentd = Agentd::start(
        &arguments(&model, &server.url(), "echo hello"),
        &[],
        folder.path(),
    );
    let (status, output, lines) = agentd.end().await;
    assert_eq!(output, "the tool said: echo: hello\n", "{lines:#?}");
    assert_eq!(status.code(), Some(0));
    assert!(lines.iter().all(Value::is_object), "{lines:#?}");

    // The supervisor and the worker each shook hands, as the contract says.
    let handshakes = server.requests("initialize");
    assert_eq!(handshakes.len(), 2);
    assert_eq!(handshakes[0]["params"]["capabilities"], serde_json::json!({}));
    assert_eq!(
        handshakes[1]["params"]["capabilities"],
        serde_json::json!({ "elicitation": {} })
    );
    assert!(handshakes[0]["params"]["clientInfo"]["title"].is_string());
    assert!(handshakes[1]["params"]["clientInfo"].get("title").is_none());

    // The call carries who, and the audit line says what, without the arguments.
    let calls = server.requests("tools/call");
    assert_eq!(calls.len(), 1);
    let run_id = calls[0]["params"]["_meta"]["agent/run_id"].as_str().unwrap();
    assert!(calls[0]["params"]["_meta"]["agent/instance"].is_string());
    let audit = audit(&lines);
    assert_eq!(audit.len(), 1);
    assert_eq!(audit[0]["request_id"], format!("{run_id}/0"));
    assert_eq!(audit[0]["target"], "fs/echo");
    assert_eq!(audit[0]["outcome"], "ok");
    assert!(!audit[0].to_string().contains("hello"));
    assert!(
        lines.iter().all(|line| !line.to_string().contains("hello")),
        "content in the log"
    );

    // The instruction and the server's own instructions reach the model.
    let system = model.requests()[0]["messages"][0]["content"].to_string();
    assert!(
        system.contains("Be brief.") && system.contains("echo is safe"),
        "{system}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn m18_a_server_that_is_down_is_left_out_and_the_run_goes_on() {
    let (model, folder) = (Model::start().await, tempfile::tempdir().unwrap());
    let agentd = Agentd::start(
        &arguments(&model, "http://127.0.0.1:9/mcp", "hi"),
        &[],
        folder.path(),
    );
    let (status, output, lines) = agentd.end().await;
    assert_eq!(
        (status.code(), output.as_str()),
        (Some(0), "you said: hi\n"),
        "{lines:#?}"
    );
    assert!(
        lines.iter().any(|line| line["event"] == "mcp.connect.fail"),
        "{lines:#?}"
    );
    assert!(
        std::fs::read_dir(folder.path()).unwrap().next().is_none(),
        "a one-shot leaves no file"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_refuses_the_credential_ends_with_four() {
    let (model, server, folder) = (
        Model::start().await,
        McpServer::start().await,
        tempfile::tempdir().unwrap(),
    );
    model.answer_with(StatusCode::UNAUTHORIZED);
    let agentd = Agentd::start(&arguments(&model, &server.url(), "hi"), &[], folder.path());
    let (status, output, lines) = agentd.end().await;
    assert_eq!((status.code(), output.as_str()), (Some(4), ""), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_is_used_up_ends_with_seven() {
    let (model, server, folder) = (
        Model::start().await,
        McpServer::start().await,
        tempfile::tempdir().unwrap(),
    );
    let mut arguments = arguments(&model, &server.url(), "echo hello");
    arguments.extend(["--limits.run.steps".into(), "1".into()]);
    let (status, _, lines) = Agentd::start(&arguments, &[], folder.path()).end().await;
    assert_eq!(status.code(), Some(7), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_task_is_not_a_done_one() {
    let (mut model, server, folder) = (
        Model::start().await,
        McpServer::start().await,
        tempfile::tempdir().unwrap(),
    );
    let agentd = Agentd::start(&arguments(&model, &server.url(), "hold"), &[], folder.path());
    model.holds().await;
    agentd.signal(Signal::SIGTERM);
    let (status, output, _) = agentd.end().await;
    assert_eq!((status.code(), output.as_str()), (Some(1), ""));
}
