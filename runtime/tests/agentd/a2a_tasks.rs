//! The methods of A2A against the process: lists, cancelling, streams while the model writes, and what the official
//! clients think of both bindings.

use std::path::Path;
use std::sync::Arc;

use agentd_net::{Declared, Destination, HttpClient, Options, Timeouts};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::Semaphore;

use crate::a2a::{Caller, answer, said};
use crate::loopback::serve;
use crate::model::Model;
use crate::peers::{TESTS, installed, node};
use crate::probes;
use crate::process::{Agentd, PATIENCE};

/// An agent with this model and no tools; where it listens.
pub async fn agent(model: &str, more: &[&str]) -> (Agentd, String, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (agentd, address) = agent_in(&folder, model, more).await;
    (agentd, address, folder)
}

/// The same, with what is kept in this folder.
pub async fn agent_in(folder: &TempDir, model: &str, more: &[&str]) -> (Agentd, String) {
    let store = folder.path().join("state");
    let mut arguments = vec![
        "--intelligence",
        model,
        "--model",
        "scripted",
        "--a2a.listen",
        "http://127.0.0.1:0",
        "--a2a.dev",
    ];
    arguments.extend(more);
    if !more.contains(&"memory") {
        arguments.extend(["--store.path", store.to_str().unwrap()]);
    }
    let mut agentd = Agentd::start(&arguments, &[], folder.path());
    let address = agentd.address("a2a.listen").await;
    agentd.event("proc.ready").await;
    (agentd, address)
}

pub fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_runs_is_cancelled_one_that_waits_never_begins_and_all_are_listed() {
    let mut model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &[]).await;
    let caller = Caller::new(&address);
    let at_once = |context: &str| json!({ "returnImmediately": true, "contextId": context });
    let runs = caller.send("m1", "hold one", at_once("c")).await;
    let waits = caller.send("m2", "two", at_once("c")).await;
    assert_eq!(model.holds().await, "hold one");
    let id = |task: &Value| json!({ "id": task["id"] });
    let cancel = async |task: &Value| caller.call("CancelTask", id(task)).await.unwrap();
    let canceled = cancel(&waits).await["result"].clone();
    assert_eq!(
        (state(&canceled), said(&canceled)),
        ("TASK_STATE_CANCELED", "it was cancelled before it began")
    );
    for _ in 0..2 {
        let canceled = cancel(&runs).await;
        assert_eq!(state(&canceled["result"]), "TASK_STATE_CANCELED", "{canceled}");
    }
    // The conversation goes on, and knows what was said in it.
    model.release();
    let after = caller.send("m3", "three", json!({ "contextId": "c" })).await;
    let answered = answer(&after);
    assert!(
        answered.starts_with("you said: one") && answered.ends_with("three"),
        "{answered}"
    );
    assert_eq!(cancel(&after).await["error"]["code"], json!(-32002));
    let said = model.requests();
    assert!(
        said.iter()
            .all(|request| !request["messages"].to_string().contains("\"two\""))
    );

    let list = async |params: Value| caller.call("ListTasks", params).await.unwrap()["result"].clone();
    let ids = |page: &Value| {
        let tasks = page["tasks"].as_array().unwrap().iter();
        tasks.map(|task| task["id"].clone()).collect::<Vec<_>>()
    };
    let first = list(json!({ "pageSize": 2 })).await;
    assert_eq!(ids(&first), [after["id"].clone(), runs["id"].clone()]);
    assert_eq!(first["totalSize"], json!(3));
    let second = list(json!({ "pageSize": 2, "pageToken": first["nextPageToken"] })).await;
    assert_eq!(
        (ids(&second), &second["nextPageToken"]),
        (vec![waits["id"].clone()], &json!(""))
    );
    let done = list(json!({ "status": "TASK_STATE_COMPLETED", "includeArtifacts": true })).await;
    assert_eq!(
        (ids(&done), answer(&done["tasks"][0])),
        (vec![after["id"].clone()], answered)
    );
    let since = after["status"]["timestamp"].clone();
    assert_eq!(
        ids(&list(json!({ "statusTimestampAfter": since })).await),
        ids(&done)
    );
    assert_eq!(list(json!({ "contextId": "d" })).await["totalSize"], json!(0));
}

/// A model whose answer waits in its middle until the test lets it go on.
async fn writing_model(go_on: Arc<Semaphore>) -> String {
    fn event(text: &str) -> Bytes {
        let event = json!({ "choices": [{ "delta": { "content": text }, "finish_reason": null }] });
        Bytes::from(format!("data: {event}\n\n"))
    }
    async fn complete(State(go_on): State<Arc<Semaphore>>) -> Response {
        let end = json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] });
        let events = stream::iter([event("Hel")])
            .chain(stream::once(async move {
                go_on.acquire().await.unwrap().forget();
                event("lo.")
            }))
            .chain(stream::iter([Bytes::from(format!("data: {end}\n\n"))]));
        let body = Body::from_stream(events.map(Ok::<_, std::io::Error>));
        ([("content-type", "text/event-stream")], body).into_response()
    }
    let app = Router::new().fallback(complete).with_state(go_on);
    format!("http://{}/v1", serve(app).await)
}

/// The events of a call, as they come.
pub struct Events(BoxStream<'static, Value>);

impl Events {
    pub async fn of(address: &str, method: &str, params: Value) -> Self {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        Self::begin(address, "POST", "/", body.to_string()).await
    }

    pub async fn begin(address: &str, verb: &str, path: &str, body: String) -> Self {
        let destination = Destination::declared(&format!("http://{address}/"), Declared::Mcp).unwrap();
        let timeouts = Timeouts {
            response: Some(PATIENCE),
            total: Some(PATIENCE),
            ..Timeouts::default()
        };
        let options = Options {
            timeouts,
            ..Options::default()
        };
        let client = HttpClient::new(destination, options).unwrap();
        let request = http::Request::builder()
            .method(verb)
            .uri(path)
            .header("content-type", "application/json")
            .header("a2a-version", "1.0");
        let response = client
            .send(request.body(Bytes::from(body)).unwrap())
            .await
            .unwrap();
        assert_eq!(response.headers["content-type"], "text/event-stream");
        let mut left = String::new();
        let parsed = response.body.chunks().flat_map(move |chunk| {
            left.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
            let mut events = Vec::new();
            while let Some((event, rest)) = left.split_once("\n\n") {
                if let Some(json) = event.strip_prefix("data: ") {
                    let event: Value = serde_json::from_str(json).unwrap();
                    events.push(event.get("result").unwrap_or(&event).clone());
                }
                left = rest.to_owned();
            }
            stream::iter(events)
        });
        Self(parsed.boxed())
    }

    pub async fn next(&mut self) -> Value {
        tokio::time::timeout(PATIENCE, self.0.next())
            .await
            .unwrap()
            .unwrap()
    }

    /// The next one, in short.
    pub async fn told(&mut self) -> String {
        short(&self.next().await)
    }

    pub async fn rest(self) -> Vec<String> {
        self.0.map(|event| short(&event)).collect().await
    }
}

fn short(event: &Value) -> String {
    let text = |artifact: &Value| {
        artifact["parts"][0]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    if let Some(task) = event.get("task") {
        return format!("{} {}", state(task), text(&task["artifacts"][0]));
    }
    if let Some(update) = event.get("artifactUpdate") {
        let sign = if update["append"] == true { '+' } else { '=' };
        return format!("{sign}{}", text(&update["artifact"]));
    }
    state(&event["statusUpdate"]).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_an_answer_is_streamed_while_the_model_writes_it_and_who_comes_late_misses_nothing() {
    let go_on = Arc::new(Semaphore::new(0));
    let (_agentd, address, _folder) = agent(&writing_model(go_on.clone()).await, &[]).await;
    let message =
        json!({ "message": { "messageId": "m1", "role": "ROLE_USER", "parts": [{ "text": "hi" }] } });
    let mut first = Events::of(&address, "SendStreamingMessage", message.clone()).await;
    let task = first.next().await["task"].clone();
    let mut so_far = String::new();
    while so_far != "=Hel" {
        so_far = first.told().await;
        assert!(
            ["TASK_STATE_WORKING", "=Hel"].contains(&so_far.as_str()),
            "{so_far}"
        );
    }
    let id = task["id"].as_str().unwrap();
    let mut late = Events::of(&address, "SubscribeToTask", json!({ "id": id })).await;
    let path = format!("/tasks/{id}:subscribe");
    let mut other = Events::begin(&address, "GET", &path, String::new()).await;
    for late in [&mut late, &mut other] {
        assert_eq!(late.told().await, "TASK_STATE_WORKING Hel");
    }
    go_on.add_permits(1);
    for events in [first, late, other] {
        assert_eq!(events.rest().await, ["+lo.", "TASK_STATE_COMPLETED"]);
    }
    let caller = Caller::new(&address);
    let whole = caller.task(id).await;
    assert_eq!(answer(&whole), "Hello.");
    // The message again: the task as it is, and nothing happens any more.
    let again = Events::of(&address, "SendStreamingMessage", message).await;
    assert_eq!(again.rest().await, ["TASK_STATE_COMPLETED Hello."]);
    let over = caller.call("SubscribeToTask", json!({ "id": id })).await.unwrap();
    assert_eq!(over["error"]["code"], json!(-32004));
}

/// At this the agent asks back.
const ASK: &str = r#"calls [["ask_human", {"question": "Which colour?"}]]"#;

/// Runs a probe; every check must pass, and all must have been made.
pub async fn judged(mut probe: Command, checks: &[&str]) {
    let run = probe.kill_on_drop(true).output().await.unwrap();
    let said = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    assert!(run.status.success(), "{said}");
    for check in checks {
        assert!(probes::passed(&said, check), "{check}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_clients_in_python_and_javascript_are_content_with_both_bindings() {
    let model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &[]).await;
    let url = format!("http://{address}/");
    let (python, npm) = (installed("python").await, installed("a2a-npm").await);
    let checks = [&probes::CHECKS[..], &["ask"]].concat();
    for binding in ["JSONRPC", "HTTP+JSON"] {
        let mut probe = Command::new(python.join("bin/python"));
        probe.arg(Path::new(TESTS).join("peers/python/a2a_sdk_probe.py"));
        probe.args([
            &url,
            "--transport",
            binding,
            "--text",
            "hi",
            "--slow-text",
            "hold",
            "--ask",
            ASK,
        ]);
        judged(probe, &checks).await;
        let mut probe = node().await;
        probe
            .arg(Path::new(TESTS).join("peers/a2a-npm/probe.mjs"))
            .arg(&npm);
        probe.args([&url, binding]).env("A2A_ASK", ASK);
        judged(probe, &checks).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_clients_of_0_3_are_content() {
    let model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &[]).await;
    let url = format!("http://{address}/");
    let checks = [&probes::CHECKS_BEFORE[..], &["ask"]].concat();
    let mut probe = Command::new(installed("a2a-old").await.join("bin/python"));
    probe
        .arg(Path::new(TESTS).join("peers/a2a-old/probe.py"))
        .args([&url, "--ask", ASK]);
    judged(probe, &checks).await;
    let mut probe = node().await;
    probe
        .arg(Path::new(TESTS).join("peers/a2a-npm-old/probe.mjs"))
        .arg(installed("a2a-npm-old").await)
        .args([&url, "hi"])
        .env("A2A_ASK", ASK);
    judged(probe, &checks).await;
}
