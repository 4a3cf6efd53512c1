//! An instruction that is a resource of a server, as a process reads it, follows it, changes to another, and ends when
//! nobody has it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use serde_json::{Value, json};

use crate::a2a::Caller;
use crate::loopback::serve;
use crate::model::{Model, tool_results};
use crate::process::Agentd;

/// Where what is told to one listener goes.
type Stream = UnboundedSender<Result<Bytes, Infallible>>;

/// A server of resources that says when one changed.
#[derive(Clone, Default)]
struct Scrolls {
    texts: Arc<Mutex<BTreeMap<&'static str, &'static str>>>,
    streams: Arc<Mutex<Vec<Stream>>>,
}

impl Scrolls {
    async fn start(self) -> SocketAddr {
        let app = Router::new()
            .route("/mcp", post(answer).get(stream))
            .with_state(self);
        serve(app).await
    }

    fn write(&self, uri: &'static str, text: &'static str) {
        self.texts.lock().unwrap().insert(uri, text);
        let said = json!({
            "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri },
        });
        let event = Bytes::from(format!("data: {said}\n\n"));
        let mut streams = self.streams.lock().unwrap();
        streams.retain(|stream| stream.unbounded_send(Ok(event.clone())).is_ok());
    }
}

async fn stream(State(scrolls): State<Scrolls>) -> Response {
    let (sender, events) = unbounded();
    let _ = sender.unbounded_send(Ok(Bytes::from_static(b": hello\n\n")));
    scrolls.streams.lock().unwrap().push(sender);
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(events),
    )
        .into_response()
}

async fn answer(State(scrolls): State<Scrolls>, Json(request): Json<Value>) -> Response {
    let Some(id) = request.get("id").cloned() else {
        return StatusCode::ACCEPTED.into_response();
    };
    let uri = request["params"]["uri"].as_str().unwrap_or_default();
    let result = match request["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {}, "resources": { "subscribe": true } },
            "serverInfo": { "name": "scrolls", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [] }),
        "resources/list" => json!({ "resources": [{ "uri": "scroll://first", "name": "first" }] }),
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        "resources/read" => match scrolls.texts.lock().unwrap().get(uri) {
            Some(text) => json!({ "contents": [{ "uri": uri, "text": text }] }),
            None => {
                let error =
                    json!({ "code": -32002, "message": "Resource not found", "data": { "uri": uri } });
                return Json(json!({ "jsonrpc": "2.0", "id": id, "error": error })).into_response();
            }
        },
        "resources/subscribe" | "resources/unsubscribe" | "ping" => json!({}),
        _ => {
            let error = json!({ "code": -32601, "message": "method not found" });
            return Json(json!({ "jsonrpc": "2.0", "id": id, "error": error })).into_response();
        }
    };
    Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response()
}

fn system(model: &Model) -> String {
    let request = model.requests().pop().unwrap();
    request["messages"][0]["content"].as_str().unwrap().to_owned()
}

fn document(model: &Model, server: SocketAddr, uri: &str) -> Value {
    json!({
        "agent": { "instruction": uri },
        "intelligence": { "endpoints": model.url(), "model": "scripted" },
        "mcp": { "servers": [{ "name": "scrolls", "endpoint": format!("http://{server}/mcp") }] },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_an_instruction_that_is_a_resource_is_read_followed_and_changed_to_another_of_its_server() {
    let (model, scrolls) = (Model::start().await, Scrolls::default());
    scrolls.write("scroll://first", "Be the first.");
    scrolls.write("scroll://second", "Be the second.");
    let server = scrolls.clone().start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agentd.json");
    let mut document = document(&model, server, "scroll://first");
    document["a2a"] = json!({ "listen": "http://127.0.0.1:0", "dev": true });
    document["store"] = json!({ "path": folder.path().join("state") });
    std::fs::write(&file, document.to_string()).unwrap();
    let mut agentd = Agentd::start(&["-c", file.to_str().unwrap()], &[], folder.path());
    let caller = Caller::new(&agentd.address("a2a.listen").await);
    let context = json!({ "contextId": "c" });
    let calls = |calls: Value| format!("calls {calls}");

    // The first turn waits until it is there.
    caller
        .send("m1", &calls(json!([["instruction_read", {}]])), context.clone())
        .await;
    assert!(system(&model).starts_with("Be the first."), "{}", system(&model));
    let loaded = agentd.event("instruction.loaded").await;
    let last = model.requests().pop().unwrap();
    let told: Value = serde_json::from_str(tool_results(&last)[0]).unwrap();
    assert_eq!(
        told,
        json!({
            "text": "Be the first.", "source": "resource", "uri": "scroll://first", "version": loaded["version"],
        })
    );

    // The server says that it changed: the next turn has the new text.
    agentd.event("proc.ready").await;
    scrolls.write("scroll://first", "Be the very first.");
    let updated = agentd.event("instruction.updated").await;
    assert_ne!(updated["version"], loaded["version"]);
    caller.send("m2", "hi", context.clone()).await;
    assert!(
        system(&model).starts_with("Be the very first."),
        "{}",
        system(&model)
    );

    // Another one of the same server, and nothing that it does not have.
    let asks = json!([
        ["instruction_subscribe", { "uri": "scroll://none" }],
        ["instruction_subscribe", { "uri": "scroll://second" }],
    ]);
    caller.send("m3", &calls(asks), json!({ "contextId": "d" })).await;
    let last = model.requests().pop().unwrap();
    let told = tool_results(&last);
    assert_eq!(told[0], "ERROR: server scrolls has no such resource");
    let second: Value = serde_json::from_str(told[1]).unwrap();
    assert_eq!(second["uri"], "scroll://second");
    caller.send("m4", "hi", context.clone()).await;
    assert!(system(&model).starts_with("Be the second."), "{}", system(&model));
    let switched = agentd.event("instruction.updated").await;
    assert_eq!(switched["version"], second["version"]);
    // It is followed as the first was.
    scrolls.write("scroll://second", "Be second to none.");
    agentd.event("instruction.updated").await;
    caller.send("m5", "hi", context.clone()).await;
    assert!(
        system(&model).starts_with("Be second to none."),
        "{}",
        system(&model)
    );
    // To a text that is none the agent does not listen.
    scrolls.write("scroll://second", " ");
    agentd.event("instruction.update.fail").await;
    caller.send("m6", "hi", context).await;
    assert!(
        system(&model).starts_with("Be second to none."),
        "{}",
        system(&model)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_an_instruction_that_nobody_serves_ends_the_process_with_6() {
    let (model, scrolls) = (Model::start().await, Scrolls::default());
    let server = scrolls.start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agentd.json");
    for service in [false, true] {
        let mut document = document(&model, server, "scroll://none");
        if service {
            document["a2a"] = json!({ "listen": "http://127.0.0.1:0", "dev": true });
            document["store"] = json!({ "kind": "memory" });
        }
        std::fs::write(&file, document.to_string()).unwrap();
        let mut agentd = Agentd::start(&["-c", file.to_str().unwrap()], &[], folder.path());
        let failed = agentd.event("instruction.subscribe.fail").await;
        assert_eq!(failed["uri"], "scroll://none");
        assert_eq!(agentd.event("proc.exit").await["code"], 6, "{service}");
    }
    assert!(model.requests().is_empty());
}
