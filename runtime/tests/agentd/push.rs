//! Push notifications against the process: who may ask for them, where they go, and that they arrive.

use std::path::Path;
use std::sync::{Arc, Mutex};

use agentd_net::tls::WebRoots;
use agentd_net::{Declared, Destination, HttpClient, Options, TlsMode};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::a2a::Caller;
use crate::a2a_tasks::{agent, agent_in, judged, state};
use crate::loopback::serve;
use crate::model::Model;
use crate::peers::{TESTS, installed, node};
use crate::process::{Agentd, PATIENCE};
use crate::world::World;

const ON: [&str; 3] = [
    "--a2a.push.enabled",
    "--a2a.push.allow_private",
    "--store.kind=file",
];

/// A webhook: what it was sent, and what it answers, the last answer for ever.
struct Hook {
    url: String,
    told: mpsc::UnboundedReceiver<(HeaderMap, Value)>,
    answers: Arc<Mutex<Vec<StatusCode>>>,
}

#[derive(Clone)]
struct Hears {
    told: mpsc::UnboundedSender<(HeaderMap, Value)>,
    answers: Arc<Mutex<Vec<StatusCode>>>,
}

impl Hook {
    async fn answering(answers: &[StatusCode]) -> Self {
        let (sender, told) = mpsc::unbounded_channel();
        let answers = Arc::new(Mutex::new(answers.to_vec()));
        let hears = Hears {
            told: sender,
            answers: answers.clone(),
        };
        let router = Router::new().route("/hook", post(hear)).with_state(hears);
        let url = format!("http://{}/hook", serve(router).await);
        Self { url, told, answers }
    }

    /// The next notification.
    async fn told(&mut self) -> (HeaderMap, Value) {
        let told = tokio::time::timeout(PATIENCE, self.told.recv()).await;
        told.expect("nothing is told").unwrap()
    }

    /// Takes notifications until one is of this state.
    async fn hears(&mut self, state: &str) -> (HeaderMap, Value) {
        loop {
            let told = self.told().await;
            if told.1["task"]["status"]["state"] == state || told.1["status"]["state"] == state {
                return told;
            }
        }
    }
}

async fn hear(State(hears): State<Hears>, headers: HeaderMap, body: Bytes) -> (StatusCode, HeaderMap) {
    let answer = {
        let mut answers = hears.answers.lock().unwrap();
        match answers.len() {
            1 => answers[0],
            _ => answers.remove(0),
        }
    };
    let _ = hears.told.send((headers, serde_json::from_slice(&body).unwrap()));
    let elsewhere = (
        axum::http::header::LOCATION,
        "http://127.0.0.1:1/".parse().unwrap(),
    );
    (answer, HeaderMap::from_iter([elsewhere]))
}

fn config(url: &str) -> Value {
    json!({ "id": "a", "url": url, "token": "hush-token",
        "authentication": { "scheme": "Bearer", "credentials": "hush-credentials" } })
}

fn message(id: &str, text: &str, push: Value) -> Value {
    json!({
        "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] },
        "configuration": { "taskPushNotificationConfig": push, "returnImmediately": true },
    })
}

fn with(mut config: Value, name: &str, value: &Value) -> Value {
    config[name] = value.clone();
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_push_is_off_by_default_and_its_configurations_are_kept_and_never_shown_whole() {
    let model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &[]).await;
    let caller = Caller::new(&address);
    let card = caller.get("/.well-known/agent-card.json").await.unwrap().1;
    assert!(card.contains(r#""pushNotifications":false"#), "{card}");
    let one = json!({ "taskId": "t", "id": "a", "url": "https://hook.example/" });
    for method in ["Create", "Get", "Delete"].map(|verb| format!("{verb}TaskPushNotificationConfig")) {
        let refused = caller.call(&method, one.clone()).await.unwrap();
        assert_eq!(refused["error"]["code"], -32003, "{refused}");
    }
    let refused = caller.call("ListTaskPushNotificationConfigs", one).await.unwrap();
    assert_eq!(refused["error"]["code"], -32003, "{refused}");
    let refused = caller
        .call("SendMessage", message("m", "hi", config("https://hook.example/")))
        .await
        .unwrap();
    assert_eq!(refused["error"]["code"], -32003, "{refused}");

    let (agentd, address, _folder) = agent(&model.url(), &ON).await;
    let caller = Caller::new(&address);
    let card = caller.get("/.well-known/agent-card.json").await.unwrap().1;
    assert!(card.contains(r#""pushNotifications":true"#), "{card}");
    let task = caller.send("m1", "hello", json!({})).await;
    let id = &task["id"];
    let shown = json!({ "id": "a", "taskId": id, "url": "https://hook.example/",
        "authentication": { "scheme": "Bearer" } });
    let of = |more: Value| with(more, "taskId", id);
    let call = async |method: &str, params: Value| caller.call(method, params).await.unwrap();
    let created = call(
        "CreateTaskPushNotificationConfig",
        of(config("https://hook.example/")),
    )
    .await;
    assert_eq!(created["result"], shown, "{created}");
    let path = format!("/tasks/{}/pushNotificationConfigs", id.as_str().unwrap());
    let (status, again) = caller.post(&path, config("https://hook.example/")).await;
    assert_eq!(
        (status, again),
        (200, shown.clone()),
        "the same id is the same configuration"
    );
    let named = of(json!({ "id": "a" }));
    assert_eq!(
        call("GetTaskPushNotificationConfig", named.clone()).await["result"],
        shown
    );
    let listed = call("ListTaskPushNotificationConfigs", of(json!({}))).await;
    assert_eq!(listed["result"], json!({ "configs": [shown] }));
    let before = [("a2a-version", "0.3")];
    let old = json!({ "id": id, "pushNotificationConfigId": "a" });
    let old = caller
        .call_with(&before, "tasks/pushNotificationConfig/get", old)
        .await
        .unwrap();
    assert_eq!(old["error"]["code"], -32009, "two versions are none: {old}");
    for _ in 0..2 {
        let deleted = call("DeleteTaskPushNotificationConfig", named.clone()).await;
        assert_eq!(deleted["result"], json!({}), "{deleted}");
    }
    let gone = call("GetTaskPushNotificationConfig", named).await;
    assert_eq!(gone["error"]["code"], -32001, "{gone}");
    let nobody = json!({ "taskId": "nobody", "id": "a", "url": "https://hook.example/" });
    let nobody = call("CreateTaskPushNotificationConfig", nobody).await;
    assert_eq!(nobody["error"]["code"], -32001, "{nobody}");

    // What may not be dialled is refused when it is given, wherever it stands.
    for url in [
        "https://169.254.169.254/latest",
        "http://10.0.0.1/",
        "http://hook.example/",
        "https://u:p@x.example/",
    ] {
        let refused = call("CreateTaskPushNotificationConfig", of(config(url))).await;
        let field = &refused["error"]["data"][0]["fieldViolations"][0]["field"];
        assert_eq!(
            (&refused["error"]["code"], field),
            (&json!(-32602), &json!("url")),
            "{refused}"
        );
        let refused = call("SendMessage", message("m2", "hi", config(url))).await;
        let field = &refused["error"]["data"][0]["fieldViolations"][0]["field"];
        assert_eq!(field, "configuration.taskPushNotificationConfig.url", "{refused}");
    }
    agentd.signal(Signal::SIGTERM);
    let lines = Value::from(agentd.end().await.2).to_string();
    assert!(
        !lines.contains("hush") && lines.contains("a2a.push.registered"),
        "{lines}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_without_the_second_switch_nothing_private_is_told() {
    let model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &["--a2a.push.enabled"]).await;
    let caller = Caller::new(&address);
    let id = caller.send("m1", "hello", json!({})).await["id"].clone();
    for url in [
        "https://localhost:1/",
        "https://127.0.0.1:1/",
        "http://127.0.0.1:1/",
        "https://10.1.2.3/",
        "https://[fd00::1]/",
        "https://[::ffff:10.0.0.1]/",
    ] {
        let params = with(config(url), "taskId", &id);
        let refused = caller
            .call("CreateTaskPushNotificationConfig", params)
            .await
            .unwrap();
        assert_eq!(refused["error"]["code"], -32602, "{url}: {refused}");
    }
}

/// The receiver fails twice, once by leading elsewhere, and is told in the end, each time with what it asked for.
#[tokio::test(flavor = "multi_thread")]
async fn s9_a_task_is_told_until_it_was_heard() {
    let mut model = Model::start().await;
    let (agentd, address, _folder) = agent(&model.url(), &ON).await;
    let caller = Caller::new(&address);
    let mut hook = Hook::answering(&[
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::FOUND,
        StatusCode::OK,
    ])
    .await;
    let sent = caller
        .call("SendMessage", message("m1", "hold one", config(&hook.url)))
        .await
        .unwrap();
    let task = &sent["result"]["task"];
    model.holds().await;
    for _ in 0..3 {
        let (headers, body) = hook.told().await;
        assert_eq!(headers["authorization"], "Bearer hush-credentials");
        assert_eq!(headers["x-a2a-notification-token"], "hush-token");
        assert_eq!(headers["content-type"], "application/a2a+json");
        assert_eq!(body["task"]["id"], task["id"]);
        assert_eq!(state(&body["task"]), "TASK_STATE_WORKING", "{body}");
    }
    model.release();
    let (_, body) = hook.hears("TASK_STATE_COMPLETED").await;
    assert_eq!(body["task"], caller.ended(task["id"].as_str().unwrap()).await);
    // Whoever speaks 0.3 is told in it.
    let mut old = Hook::answering(&[StatusCode::OK]).await;
    let client = HttpClient::new(
        Destination::declared(&format!("http://{address}/"), Declared::Mcp).unwrap(),
        Options::default(),
    )
    .unwrap();
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {
        "message": { "kind": "message", "messageId": "m2", "role": "user", "parts": [{ "kind": "text", "text": "two" }] },
        "configuration": { "blocking": true, "pushNotificationConfig": { "url": old.url, "token": "t" } },
    } });
    let request = http::Request::post("/")
        .header("content-type", "application/json")
        .body(bytes::Bytes::from(call.to_string()))
        .unwrap();
    let answer = client.send(request).await.unwrap().body.bytes().await.unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let (headers, body) = old.hears("completed").await;
    assert_eq!(body, answer["result"], "{answer}");
    assert_eq!(
        (&body["kind"], &headers["content-type"]),
        (&json!("task"), &"application/json".parse().unwrap())
    );
    agentd.signal(Signal::SIGTERM);
    let lines = Value::from(agentd.end().await.2).to_string();
    assert!(!lines.contains("hush"), "{lines}");
}

/// Between the end of a task and its notification the process is killed.
#[tokio::test(flavor = "multi_thread")]
async fn s9_what_was_not_heard_is_told_by_the_next_process() {
    let model = Model::start().await;
    let mut hook = Hook::answering(&[StatusCode::SERVICE_UNAVAILABLE]).await;
    let (agentd, address, folder) = agent(&model.url(), &ON).await;
    let caller = Caller::new(&address);
    let sent = caller
        .call("SendMessage", message("m1", "one", config(&hook.url)))
        .await
        .unwrap();
    let id = sent["result"]["task"]["id"].as_str().unwrap().to_owned();
    let task = caller.ended(&id).await;
    assert_eq!(state(&task), "TASK_STATE_COMPLETED");
    hook.told().await;
    agentd.signal(Signal::SIGKILL);
    agentd.end().await;
    while hook.told.try_recv().is_ok() {}
    *hook.answers.lock().unwrap() = vec![StatusCode::OK];

    let louder = [&ON[..], &["--observability.log_level=debug"]].concat();
    let (mut agentd, address) = agent_in(&folder, &model.url(), &louder).await;
    let (headers, body) = hook.hears("TASK_STATE_COMPLETED").await;
    assert_eq!(body["task"], task);
    assert_eq!(headers["authorization"], "Bearer hush-credentials");
    agentd.event("a2a.push.delivered").await;
    // It is kept with the rest.
    let caller = Caller::new(&address);
    let listed = caller
        .call("ListTaskPushNotificationConfigs", json!({ "taskId": id }))
        .await
        .unwrap();
    assert_eq!(listed["result"]["configs"][0]["id"], "a", "{listed}");
    agentd.signal(Signal::SIGKILL);
    agentd.end().await;
    // Heard is heard.
    let (_agentd, address) = agent_in(&folder, &model.url(), &ON).await;
    let done = Caller::new(&address).send("m2", "two", json!({})).await;
    assert_eq!(state(&done), "TASK_STATE_COMPLETED");
    assert!(hook.told.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_the_configuration_of_another_principals_task_does_not_exist() {
    let world = World::new().await;
    let folder = world.folder.path();
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("cert.pem"), certificate.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), certificate.signing_key.serialize_pem()).unwrap();
    let principal = |name: &str| {
        let file = folder.join(name);
        std::fs::write(&file, format!("{name}-token")).unwrap();
        json!({ "name": name, "role": "user", "bearer": format!("{{{{secret-file:{}}}}}", file.display()) })
    };
    let document = json!({
        "agent": { "instruction": "Be brief." },
        "intelligence": { "endpoints": [{ "url": world.model.url() }], "model": "scripted" },
        "store": { "kind": "memory" },
        "a2a": { "listen": "https://127.0.0.1:0", "principals": [principal("one"), principal("two")],
                 "push": { "enabled": true },
                 "tls": { "cert": folder.join("cert.pem"), "key": folder.join("key.pem") } },
    });
    std::fs::write(folder.join("agent.json"), document.to_string()).unwrap();
    let mut agentd = Agentd::start(&["--config", "agent.json"], &[], folder);
    let address = agentd.address("a2a.listen").await;
    agentd.event("proc.ready").await;
    let port = address.rsplit(':').next().unwrap();
    let destination = Destination::declared(&format!("https://localhost:{port}/"), Declared::Mcp).unwrap();
    let roots = WebRoots {
        ca_files: vec![folder.join("cert.pem")],
        ..WebRoots::default()
    };
    let options = Options {
        tls: TlsMode::WebRoots(roots),
        ..Options::default()
    };
    let client = HttpClient::new(destination, options).unwrap();
    let call = async |who: &str, method: &str, params: Value| {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = http::Request::post("/")
            .header("content-type", "application/json")
            .header("a2a-version", "1.0")
            .header("authorization", format!("Bearer {who}-token"))
            .body(bytes::Bytes::from(call.to_string()))
            .unwrap();
        let response = client.send(request).await.unwrap();
        serde_json::from_slice::<Value>(&response.body.bytes().await.unwrap()).unwrap()
    };
    let told = config("https://hook.example/");
    let mine = call("one", "SendMessage", message("m1", "hello", told.clone())).await;
    let id = &mine["result"]["task"]["id"];
    let named = json!({ "taskId": id, "id": "a" });
    assert_eq!(
        call("one", "GetTaskPushNotificationConfig", named.clone()).await["result"]["id"],
        "a"
    );
    for (method, params) in [
        ("CreateTaskPushNotificationConfig", with(told, "taskId", id)),
        ("GetTaskPushNotificationConfig", named.clone()),
        ("ListTaskPushNotificationConfigs", named.clone()),
        ("DeleteTaskPushNotificationConfig", named.clone()),
    ] {
        let refused = call("two", method, params).await;
        assert_eq!(refused["error"]["code"], -32001, "{method}: {refused}");
    }
    assert_eq!(
        call("one", "GetTaskPushNotificationConfig", named).await["result"]["id"],
        "a"
    );
}

/// Each gives a configuration, reads it back, takes it off, and has the hook told of a task.
#[tokio::test(flavor = "multi_thread")]
async fn s9_the_official_clients_of_both_versions_ask_to_be_told_and_are() {
    let model = Model::start().await;
    let (_agentd, address, _folder) = agent(&model.url(), &ON).await;
    let url = format!("http://{address}/");
    let mut hook = Hook::answering(&[StatusCode::OK]).await;
    let (python, npm) = (installed("python").await, installed("a2a-npm").await);
    let told = async |hook: &mut Hook, state: &str| {
        let (headers, _) = hook.hears(state).await;
        assert_eq!(headers["authorization"], "Bearer c");
        assert_eq!(headers["x-a2a-notification-token"], "t");
    };
    for binding in ["JSONRPC", "HTTP+JSON"] {
        let mut probe = Command::new(python.join("bin/python"));
        probe.arg(Path::new(TESTS).join("peers/python/a2a_sdk_probe.py"));
        probe.args([
            &url,
            "--transport",
            binding,
            "--text",
            "hi",
            "--checks",
            "send,get",
            "--hook",
            &hook.url,
        ]);
        judged(probe, &["push"]).await;
        told(&mut hook, "TASK_STATE_COMPLETED").await;
        let mut probe = node().await;
        probe
            .arg(Path::new(TESTS).join("peers/a2a-npm/probe.mjs"))
            .arg(&npm);
        probe.args([&url, binding]).env("A2A_HOOK", &hook.url);
        judged(probe, &["push"]).await;
        told(&mut hook, "TASK_STATE_COMPLETED").await;
    }
    let mut probe = Command::new(installed("a2a-old").await.join("bin/python"));
    probe
        .arg(Path::new(TESTS).join("peers/a2a-old/probe.py"))
        .args([&url, "--hook", &hook.url]);
    judged(probe, &["push"]).await;
    told(&mut hook, "completed").await;
}
