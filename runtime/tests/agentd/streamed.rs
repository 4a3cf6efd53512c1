//! An answer that is heard while it is written: through the model's client, the worker, the frames and the supervisor.

use std::sync::{Arc, Mutex};

use agentd::origin::Origin;
use agentd::supervisor::turns::{Listener, TurnEnd, TurnInput};
use agentd_agent::Status;
use agentd_state::Retention;
use agentd_store::MemoryStore;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use futures::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::process::PATIENCE;
use crate::runner::runner;

/// A model whose last answer waits in its middle until the test lets it go on.
struct Script {
    asked: Mutex<Vec<Value>>,
    go_on: Semaphore,
}

fn event(delta: &Value, finish: Option<&str>) -> Bytes {
    let event = json!({ "choices": [{ "delta": delta, "finish_reason": finish }] });
    Bytes::from(format!("data: {event}\n\n"))
}

fn text(text: &str) -> Bytes {
    event(&json!({ "content": text }), None)
}

/// A call after some words; an answer that breaks off; the answer.
async fn complete(State(script): State<Arc<Script>>, body: String) -> Response {
    let nth = {
        let mut asked = script.asked.lock().unwrap();
        asked.push(serde_json::from_str(&body).unwrap());
        asked.len()
    };
    let call = json!({ "tool_calls": [
        { "index": 0, "id": "c1", "type": "function", "function": { "name": "status", "arguments": "{}" } }] });
    let events = match nth {
        1 => stream::iter(vec![
            text("I will "),
            text("look."),
            event(&call, Some("tool_calls")),
        ])
        .boxed(),
        2 => stream::iter(vec![text("No")]).boxed(),
        _ => stream::iter(vec![text("Hel")])
            .chain(stream::once(async move {
                script.go_on.acquire().await.unwrap().forget();
                text("lo.")
            }))
            .chain(stream::iter(vec![event(&json!({}), Some("stop"))]))
            .boxed(),
    };
    let body = Body::from_stream(events.map(Ok::<_, std::io::Error>));
    ([("content-type", "text/event-stream")], body).into_response()
}

/// What was heard; a restart is a bar.
#[derive(Debug)]
struct Ear(watch::Sender<String>);

impl Listener for Ear {
    fn heard(&self, text: &str, restart: bool) {
        self.0.send_modify(|heard| {
            if restart {
                heard.push('|');
            }
            heard.push_str(text);
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_heard_while_it_is_written() {
    let script = Arc::new(Script {
        asked: Mutex::default(),
        go_on: Semaphore::new(0),
    });
    let app = Router::new().fallback(complete).with_state(script.clone());
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", socket.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(socket, app).await.unwrap() });
    let store = Arc::new(MemoryStore::new(Retention::MEMORY));
    let (runner, _settings) = runner(&url, &store);
    let ear = Arc::new(Ear(watch::Sender::default()));
    let mut heard = ear.0.subscribe();
    let input = TurnInput {
        run_id: "run-1".into(),
        owner: "alice".into(),
        conversation: "c".into(),
        transcript: Value::Null,
        text: "hello".into(),
        hops: 0,
        resumed: None,
        used: Default::default(),
        charge: None,
        origin: Origin::agent("a", None),
        listener: Some(ear.clone()),
    };
    let stop = CancellationToken::new();
    let both = async {
        tokio::join!(runner.run(input, &stop), async {
            // The model has more to say, and this much was heard.
            heard.wait_for(|heard| heard.ends_with("Hel")).await.unwrap();
            script.go_on.add_permits(1);
        })
    };
    let (end, ()) = tokio::time::timeout(PATIENCE, both).await.unwrap();
    let TurnEnd::Done(result) = end else {
        panic!("{end:?}")
    };
    assert_eq!(
        (result.status, result.text.as_str()),
        (Status::Completed, "Hello.")
    );
    // What a round said before its call stays until the next says something; what broke off is void. What is void before
    // it was told is not told: of the first, as much as was told by then.
    let heard = ear.0.borrow().clone();
    let first = heard.strip_suffix("|No|Hello.");
    assert!(
        first.is_some_and(|first| "I will look.".starts_with(first)),
        "{heard}"
    );
    let asked = script.asked.lock().unwrap();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|request| request["stream"] == true));
}
