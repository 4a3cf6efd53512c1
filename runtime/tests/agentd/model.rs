//! A scripted model that speaks Chat Completions. What it answers depends on the conversation alone:
//! `echo X` calls the tool `echo`, `calls [["tool", {…}], …]` calls one after the other (`$cut` in the arguments is the URI
//! that the last result named to read on, `$handle` the handle of the last subagent; `"and"` as a third member makes the
//! next in the same round), a tool's result is repeated, `hold` waits until the test lets go and goes on
//! with what follows it, `refuse` is refused, anything else is said back. Asked for a summary it writes [`summary`].

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use crate::loopback::serve;

/// A running model.
pub struct Model {
    pub address: SocketAddr,
    script: Arc<Script>,
    held: mpsc::UnboundedReceiver<String>,
}

struct Script {
    requests: Mutex<Vec<Value>>,
    traces: Mutex<Vec<String>>,
    holding: mpsc::UnboundedSender<String>,
    release: Semaphore,
    status: Mutex<StatusCode>,
}

impl Model {
    pub async fn start() -> Self {
        Self::start_with(|app| app).await
    }

    /// As [`Self::start`], with something in front of it.
    pub async fn start_with(wrap: impl FnOnce(Router) -> Router) -> Self {
        let (holding, held) = mpsc::unbounded_channel();
        let script = Arc::new(Script {
            requests: Mutex::default(),
            traces: Mutex::default(),
            holding,
            release: Semaphore::new(0),
            status: Mutex::new(StatusCode::OK),
        });
        let app = Router::new()
            .route("/v1/chat/completions", post(complete))
            .with_state(script.clone());
        let app = wrap(app);
        let address = serve(app).await;
        Self {
            address,
            script,
            held,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Waits until a request with `hold` has arrived; its text.
    pub async fn holds(&mut self) -> String {
        self.held.recv().await.unwrap()
    }

    /// Lets one held request go.
    pub fn release(&self) {
        self.script.release.add_permits(1);
    }

    /// From now on every request is answered so.
    pub fn answer_with(&self, status: StatusCode) {
        *self.script.status.lock().unwrap() = status;
    }

    /// What each request so far said that it is part of.
    pub fn traces(&self) -> Vec<String> {
        self.script.traces.lock().unwrap().clone()
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Value> {
        self.script.requests.lock().unwrap().clone()
    }
}

/// The tools that a request offers, without those of our own that every turn has.
pub fn task_tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = tools
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap());
    let families = [
        "memory_",
        "artifact_",
        "plan_",
        "skills_",
        "subagent_",
        "workflow_",
        "instruction_",
    ];
    let alone = [
        "message_send",
        "ask_human",
        "think",
        "sleep",
        "await",
        "context_compact",
        "finish",
        "status",
    ];
    let ours = |name: &str| alone.contains(&name) || families.iter().any(|family| name.starts_with(family));
    names.filter(|name| !ours(name)).collect()
}

/// The results of tools that a request tells the model, in order.
pub fn tool_results(request: &Value) -> Vec<&str> {
    let messages = request["messages"].as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results
        .map(|message| message["content"].as_str().unwrap())
        .collect()
}

async fn complete(
    State(script): State<Arc<Script>>,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> Response {
    if let Some(trace) = headers.get("traceparent") {
        let trace = trace.to_str().unwrap().to_owned();
        script.traces.lock().unwrap().push(trace);
    }
    script.requests.lock().unwrap().push(request.clone());
    let status = *script.status.lock().unwrap();
    if status != StatusCode::OK {
        return (status, Json(json!({ "error": { "message": "scripted" } }))).into_response();
    }
    let last = request["messages"].as_array().unwrap().last().unwrap().clone();
    let text = last_said(last["content"].as_str().unwrap_or_default()).to_owned();
    if text.starts_with("hold") {
        script.holding.send(text.clone()).unwrap();
        script.release.acquire().await.unwrap().forget();
    }
    let text = text.strip_prefix("hold ").unwrap_or(&text);
    let message = match (last["role"].as_str().unwrap(), text.strip_prefix("echo ")) {
        _ if wants_summary(&request) => json!({ "role": "assistant", "content": summary().to_string() }),
        _ if next_call(&request).is_some() => next_call(&request).unwrap_or_default(),
        ("tool", _) => json!({ "role": "assistant", "content": format!("the tool said: {text}") }),
        (_, Some(rest)) => json!({
            "role": "assistant", "content": null,
            "tool_calls": [{
                "id": "call_1", "type": "function",
                "function": { "name": "echo", "arguments": json!({ "text": rest }).to_string() },
            }],
        }),
        (_, None) => json!({ "role": "assistant", "content": format!("you said: {text}") }),
    };
    let finish = if text == "refuse" {
        "content_filter"
    } else if message.get("tool_calls").is_some() {
        "tool_calls"
    } else {
        "stop"
    };
    Json(json!({
        "id": "c", "object": "chat.completion", "created": 0, "model": "scripted",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish }],
        "usage": { "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10 },
    }))
    .into_response()
}

/// What is asked for last, where nobody answered what was said before it: that stands in front of it.
fn last_said(text: &str) -> &str {
    let begins = ["\n\ncalls [", "\n\necho "].into_iter();
    let last = begins.filter_map(|begin| text.rfind(begin)).max();
    last.map_or(text, |at| text[at..].trim_start())
}

/// Whether a conversation that became too long is to be made shorter.
fn wants_summary(request: &Value) -> bool {
    let system = request["messages"][0]["content"].as_str().unwrap_or_default();
    system.contains("see only your summary")
}

/// What is left of a conversation.
fn summary() -> Value {
    let facts = ["the colour of the harbour"];
    json!({ "goals": [], "decisions": [], "open": [], "facts": facts, "narrative": "We talked." })
}

/// The next call of a `calls` that is under way.
fn next_call(request: &Value) -> Option<Value> {
    let messages = request["messages"].as_array()?;
    let at = messages.iter().rposition(|message| message["role"] == "user")?;
    let said = last_said(messages[at]["content"].as_str()?);
    let calls: Vec<Value> = serde_json::from_str(said.strip_prefix("calls ")?).ok()?;
    let done = messages[at..]
        .iter()
        .filter(|message| message["role"] == "tool")
        .count();
    let first = calls.get(done..).filter(|calls| !calls.is_empty())?;
    let together = 1 + first.iter().take_while(|call| call[2] == "and").count();
    let last = messages.last()?["content"].as_str().unwrap_or_default();
    let cut = last
        .rsplit_once("the URI ")
        .map_or("", |(_, uri)| uri.trim_end_matches(']'));
    let results = messages.iter().filter(|message| message["role"] == "tool");
    let handle = results
        .rev()
        .filter_map(|message| serde_json::from_str::<Value>(message["content"].as_str()?).ok())
        .find_map(|result| result["handle"].as_str().map(str::to_owned));
    let handle = handle.unwrap_or_default();
    let calls: Vec<Value> = first
        .iter()
        .take(together)
        .zip(done..)
        .map(|(call, place)| {
            let arguments = call[1]
                .to_string()
                .replace("$cut", cut)
                .replace("$handle", &handle);
            json!({
                "id": format!("call_{at}_{place}"), "type": "function",
                "function": { "name": call[0], "arguments": arguments },
            })
        })
        .collect();
    Some(json!({ "role": "assistant", "content": null, "tool_calls": calls }))
}
