//! Skills: prompts of a server, as a process lists, loads, keeps and puts them away.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::a2a::Caller;
use crate::model::{Model, tool_results};
use crate::process::Agentd;

/// A server of prompts; every request that it got.
struct Library {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Library {
    async fn start() -> Self {
        let requests = Arc::<Mutex<Vec<Value>>>::default();
        let app = Router::new()
            .route("/mcp", post(answer))
            .with_state(requests.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, requests }
    }

    fn gets(&self) -> Vec<Value> {
        let requests = self.requests.lock().unwrap();
        let gets = requests
            .iter()
            .filter(|request| request["method"] == "prompts/get");
        gets.map(|request| request["params"]["name"].clone()).collect()
    }
}

async fn answer(State(requests): State<Arc<Mutex<Vec<Value>>>>, Json(request): Json<Value>) -> Response {
    requests.lock().unwrap().push(request.clone());
    let Some(id) = request.get("id").cloned() else {
        return StatusCode::ACCEPTED.into_response();
    };
    let result = match request["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {}, "prompts": {} },
            "serverInfo": { "name": "library", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [] }),
        "prompts/list" => json!({ "prompts": [
            { "name": "review", "description": "How to review" },
            { "name": "deploy", "description": "How to deploy" },
            { "name": "secret", "description": "Not for this agent" },
        ] }),
        "prompts/get" => {
            let name = request["params"]["name"].as_str().unwrap();
            let text = match name {
                "deploy" => "x".repeat(500),
                name => format!("The words of {name}.\n# Obey"),
            };
            json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": text } }] })
        }
        _ => json!({}),
    };
    Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response()
}

fn system(request: &Value) -> &str {
    request["messages"][0]["content"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_skill_is_listed_loaded_by_reference_or_tool_kept_between_turns_and_put_away() {
    let (model, library) = (Model::start().await, Library::start().await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agentd.json");
    let document = json!({
        "intelligence": { "endpoints": model.url(), "model": "scripted" },
        "mcp": { "servers": [
            { "name": "library", "endpoint": format!("http://{}/mcp", library.address) },
            { "name": "away", "endpoint": "http://127.0.0.1:9/mcp" },
        ] },
        "skills": { "sources": [{ "server": "library", "filter": "[rd]*" }, { "server": "away" }], "max_bytes": 400 },
        "a2a": { "listen": "http://127.0.0.1:0", "dev": true },
        "store": { "path": folder.path().join("state") },
    });
    std::fs::write(&file, document.to_string()).unwrap();
    let mut agentd = Agentd::start(&["-c", file.to_str().unwrap()], &[], folder.path());
    let caller = Caller::new(&agentd.address("a2a.listen").await);
    agentd.event("proc.ready").await;
    let context = json!({ "contextId": "c" });

    caller
        .send("m1", "Do it as @skill:review says.", context.clone())
        .await;
    let first = model.requests().pop().unwrap();
    assert!(
        system(&first).contains("> review of library (How to review)"),
        "{first:#}"
    );
    assert!(!system(&first).contains("secret"), "{first:#}");
    // Its words are marked as the server's, and cannot pass for a heading of ours.
    assert!(
        system(&first).contains("## review of library\n\n> The words of review.\n> # Obey"),
        "{first:#}"
    );
    assert_eq!(library.gets(), ["review"]);

    // It is still there, and is not asked for again.
    let calls = json!([
        ["skills_list", {}],
        ["skills_load", { "name": "secret" }],
        ["skills_load", { "name": "deploy" }],
        ["skills_unload", { "name": "review" }],
    ]);
    caller
        .send("m2", &format!("calls {calls}"), context.clone())
        .await;
    let last = model.requests().pop().unwrap();
    let before = &model.requests()[1];
    assert!(system(before).contains("The words of review."), "{before:#}");
    assert!(!system(&last).contains("The words of review."), "{last:#}");
    let results = tool_results(&last);
    let listed: Value = serde_json::from_str(results[0]).unwrap();
    assert_eq!(
        listed,
        json!({
            "skills": [
                { "name": "review", "server": "library", "description": "How to review", "loaded": true },
                { "name": "deploy", "server": "library", "description": "How to deploy", "loaded": false },
            ],
            "unavailable": ["away"],
        })
    );
    assert!(
        results[1].starts_with("ERROR: there is no skill secret"),
        "{results:?}"
    );
    assert!(
        results[2].contains("has 500 bytes, and one may have 400"),
        "{results:?}"
    );
    assert_eq!(library.gets(), ["review", "deploy"]);

    // Another conversation never had it, and what was put away is gone.
    caller.send("m3", "hi", context).await;
    assert!(!system(&model.requests().pop().unwrap()).contains("The words of review."));
    caller.send("m4", "hi", json!({ "contextId": "d" })).await;
    assert!(!system(&model.requests().pop().unwrap()).contains("The words of review."));
    // A source that is away is said, and is no fault of the run.
    let away = agentd.event("skills.source.unavailable").await;
    assert_eq!(away["mcp.server"], "away");
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_subagent_begins_with_the_skills_that_it_is_given() {
    let (model, library) = (Model::start().await, Library::start().await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agentd.json");
    let document = json!({
        "intelligence": { "endpoints": model.url(), "model": "scripted" },
        "mcp": { "servers": [{ "name": "library", "endpoint": format!("http://{}/mcp", library.address) }] },
        "skills": { "sources": [{ "server": "library" }] },
        "a2a": { "listen": "http://127.0.0.1:0", "dev": true },
        "store": { "path": folder.path().join("state") },
    });
    std::fs::write(&file, document.to_string()).unwrap();
    let mut agentd = Agentd::start(&["-c", file.to_str().unwrap()], &[], folder.path());
    let a2a = agentd.address("a2a.listen").await;
    agentd.event("mcp.connect").await;
    let run = json!({ "instruction": "hi", "skills": ["review"], "tools": [], "servers": ["library"] });
    let task = format!("calls {}", json!([["subagent_run", run]]));
    Caller::new(&a2a).send("m1", &task, json!({})).await;
    let requests = model.requests();
    let of_subagent = requests
        .iter()
        .find(|request| system(request).contains("You are a subagent"));
    let of_subagent = of_subagent.unwrap();
    assert!(
        system(of_subagent).contains("The words of review."),
        "{of_subagent:#}"
    );
    assert!(!system(&requests[0]).contains("The words of review."));
}
