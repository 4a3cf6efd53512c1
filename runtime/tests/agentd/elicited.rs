//! Servers that ask a person, by either era of the protocol: the caller's task waits for the answer, and a page to visit
//! makes it wait for that.

use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::a2a::{Caller, answer, said};
use crate::a2a_tasks::{agent, state};
use crate::loopback::serve;
use crate::mcp_rich::Rich;
use crate::model::Model;

async fn reply(caller: &Caller, task: &Value, message_id: &str, part: Value) -> Value {
    let message =
        json!({ "messageId": message_id, "role": "ROLE_USER", "taskId": task["id"], "parts": [part] });
    let answered = caller
        .call("SendMessage", json!({ "message": message }))
        .await
        .unwrap();
    answered["result"]["task"].clone()
}

fn heard(task: &Value) -> Value {
    let text = answer(task)
        .strip_prefix("the tool said: ")
        .unwrap_or_else(|| panic!("{task}"));
    serde_json::from_str(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn m13_a_servers_question_makes_the_task_wait_for_its_caller() {
    let (model, server) = (Model::start().await, Rich::start().await);
    let mcp = format!("rich={}", server.url());
    let (mut agentd, address, _folder) = agent(&model.url(), &["--mcp", &mcp]).await;
    agentd.event("mcp.connect").await;
    let caller = Caller::new(&address);
    for (id, part, expected) in [
        (
            "m1",
            json!({ "text": "red" }),
            json!({ "action": "accept", "content": { "colour": "red" } }),
        ),
        (
            "m2",
            json!({ "data": { "colour": "blue" } }),
            json!({ "action": "accept", "content": { "colour": "blue" } }),
        ),
        ("m3", json!({ "text": "decline" }), json!({ "action": "decline" })),
        (
            "m4",
            json!({ "data": { "action": "cancel" } }),
            json!({ "action": "cancel" }),
        ),
    ] {
        let task = caller.send(id, r#"calls [["ask", {}]]"#, json!({})).await;
        assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED", "{task}");
        assert_eq!(said(&task), "The server rich asks: Which colour?");
        let parts = &task["status"]["message"]["parts"];
        assert_eq!(parts[1]["data"]["requestedSchema"]["required"], json!(["colour"]));
        let done = reply(&caller, &task, &format!("{id}-answer"), part).await;
        assert_eq!(heard(&done), expected);
    }
}

/// Keeps nothing: asks with the answer to a call, and is called again with what was said.
async fn stateless(Json(request): Json<Value>) -> Json<Value> {
    let url = |url: &str| {
        json!({ "method": "elicitation/create", "params": {
        "mode": "url", "message": "Log in.", "url": url, "elicitationId": "e1" } })
    };
    let form = json!({ "method": "elicitation/create", "params": { "mode": "form", "message": "How many?",
        "requestedSchema": { "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] } } });
    let params = &request["params"];
    let result = match request["method"].as_str().unwrap() {
        "server/discover" => json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "asker", "version": "1" } },
            "ttlMs": 0, "cacheScope": "private" }),
        "tools/list" => {
            let tool = |name| json!({ "name": name, "inputSchema": { "type": "object" } });
            json!({ "tools": [tool("login"), tool("lure"), tool("count")], "ttlMs": 0, "cacheScope": "private" })
        }
        _ if params.get("inputResponses").is_some() => {
            let said = params["inputResponses"]["q"].to_string();
            json!({ "content": [{ "type": "text", "text": said }] })
        }
        _ => {
            let question = match params["name"].as_str().unwrap() {
                "login" => url("https://login.example/start"),
                "lure" => url("http://login.example/start"),
                _ => form,
            };
            json!({ "resultType": "input_required", "inputRequests": { "q": question }, "requestState": "s" })
        }
    };
    let mut result = result;
    if result.get("resultType").is_none() {
        result["resultType"] = "complete".into();
    }
    Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_a_page_to_visit_makes_the_task_wait_for_that_and_is_shown_by_https_alone() {
    let model = Model::start().await;
    let server = serve(Router::new().route("/mcp", post(stateless))).await;
    let mcp = format!("asker=http://{server}/mcp");
    let (mut agentd, address, _folder) = agent(&model.url(), &["--mcp", &mcp]).await;
    agentd.event("mcp.connect").await;
    let caller = Caller::new(&address);
    for (id, words, action) in [("m1", "done", "accept"), ("m2", "decline", "decline")] {
        let task = caller.send(id, r#"calls [["login", {}]]"#, json!({})).await;
        assert_eq!(state(&task), "TASK_STATE_AUTH_REQUIRED", "{task}");
        assert!(said(&task).contains("https://login.example/start"), "{task}");
        let parts = &task["status"]["message"]["parts"];
        assert_eq!(
            parts[1],
            json!({ "data": { "url": "https://login.example/start" } })
        );
        let listed = caller
            .call("ListTasks", json!({ "status": "TASK_STATE_AUTH_REQUIRED" }))
            .await
            .unwrap();
        assert_eq!(listed["result"]["totalSize"], 1);
        let done = reply(&caller, &task, &format!("{id}-answer"), json!({ "text": words })).await;
        assert_eq!(heard(&done)["action"], action);
    }
    // What nobody should visit nobody is shown.
    let task = caller.send("m3", r#"calls [["lure", {}]]"#, json!({})).await;
    assert_eq!(
        (state(&task), heard(&task)["action"].as_str()),
        ("TASK_STATE_COMPLETED", Some("cancel"))
    );
    let task = caller.send("m4", r#"calls [["count", {}]]"#, json!({})).await;
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED", "{task}");
    let done = reply(&caller, &task, "m5", json!({ "data": { "n": 3 } })).await;
    assert_eq!(heard(&done)["content"], json!({ "n": 3 }));
}
