//! Endpoints over real sockets, and the order and pace in which they are tried.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_base::class::{Class, Classified as _};
use agentd_llm::{
    Block, CallContext, Endpoint, Failover, Message, Model as _, ModelClient, ModelError, ModelReply,
    ModelRequest, Setup, Stop, Usage,
};
use agentd_net::{Declared, Destination, HttpClient, Options, Pace, StaticSigner, Timeouts};
use async_trait::async_trait;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::time::Instant;

/// A request as the server saw it.
#[derive(Debug)]
struct Seen {
    uri: String,
    headers: HeaderMap,
    body: Value,
}

/// Status, `Retry-After`, body.
type Answer = (u16, Option<&'static str>, String);

#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

async fn answer(State(script): State<Script>, uri: Uri, headers: HeaderMap, body: String) -> Response {
    let body = serde_json::from_str(&body).unwrap();
    script.seen.lock().unwrap().push(Seen {
        uri: uri.to_string(),
        headers,
        body,
    });
    let next = script.answers.lock().unwrap().pop_front();
    let (status, retry_after, body) = next.unwrap_or((500, None, "the script is over".into()));
    let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert("retry-after", seconds.parse().unwrap());
    }
    response
}

/// A scripted server; its base URL.
async fn serve(answers: &[(u16, Option<&'static str>, &str)]) -> (String, Script) {
    let script = Script::default();
    let queue = answers
        .iter()
        .map(|(status, after, body)| (*status, *after, (*body).to_owned()));
    *script.answers.lock().unwrap() = queue.collect();
    let router = axum::Router::new().fallback(answer).with_state(script.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, script)
}

fn client(name: &str, url: &str) -> Arc<dyn Endpoint> {
    let destination = Destination::declared(
        url,
        Declared::Model {
            allow_plaintext: false,
        },
    )
    .unwrap();
    let token = Arc::new(|| Ok(SecretString::from("t0ken-canary")));
    let timeouts = Timeouts {
        total: Some(Duration::from_secs(20)),
        ..Timeouts::default()
    };
    let signer: Arc<dyn agentd_net::RequestSigner> = Arc::new(StaticSigner::bearer(token));
    let options = Options {
        timeouts,
        signer: Some(signer),
        ..Options::default()
    };
    let setup = Setup {
        name: name.into(),
        model: "m".into(),
        ..Setup::default()
    };
    Arc::new(ModelClient::new(
        setup,
        HttpClient::new(destination, options).unwrap(),
    ))
}

fn quick(endpoints: Vec<Arc<dyn Endpoint>>) -> Failover {
    Failover::with_pace(
        endpoints,
        Pace {
            first: Duration::from_millis(1),
            max: Duration::from_millis(2),
        },
    )
}

fn request() -> ModelRequest {
    ModelRequest {
        messages: vec![Message::User("hello".into())],
        ..ModelRequest::default()
    }
}

fn context(left: Duration) -> CallContext {
    CallContext {
        run_id: "r".into(),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        deadline: Instant::now() + left,
        sink: None,
    }
}

async fn ask(model: &Failover) -> Result<ModelReply, ModelError> {
    model
        .complete(&request(), &context(Duration::from_secs(30)))
        .await
}

fn said(text: &str) -> String {
    json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
        .to_string()
}

#[tokio::test]
async fn a_request_arrives_whole_and_its_answer_is_read() {
    let (url, script) = serve(&[(200, None, &said("hi"))]).await;
    let reply = ask(&quick(vec![client("a", &format!("{url}/?api-version=1"))]))
        .await
        .unwrap();
    let usage = Usage {
        input: 1,
        output: 1,
        cached: 0,
    };
    assert_eq!(
        reply,
        ModelReply {
            blocks: vec![Block::Text("hi".into())],
            stop: Stop::End,
            usage
        }
    );
    let seen = script.seen.lock().unwrap();
    assert_eq!(seen[0].uri, "/v1/chat/completions?api-version=1");
    assert_eq!(seen[0].headers["authorization"], "Bearer t0ken-canary");
    assert_eq!(seen[0].headers["content-type"], "application/json");
    assert!(
        seen[0].headers["traceparent"]
            .to_str()
            .unwrap()
            .starts_with("00-0af7")
    );
    assert_eq!(
        seen[0].body["messages"],
        json!([{"role": "user", "content": "hello"}])
    );
}

#[tokio::test]
async fn a_refused_credential_ends_it_and_never_shows_what_the_server_said() {
    for status in [401, 403] {
        let words = json!({"error": {"message": "bad key t0ken-canary"}}).to_string();
        let (url, script) = serve(&[(status, None, &words)]).await;
        let (other, untouched) = serve(&[(200, None, &said("hi"))]).await;
        let error = ask(&quick(vec![client("a", &url), client("b", &other)]))
            .await
            .unwrap_err();
        assert_eq!(error.class(), Class::Denied);
        assert_eq!(
            error.to_string(),
            format!("model endpoint a refused: status {status}; check its auth and headers")
        );
        assert_eq!(script.seen.lock().unwrap().len(), 1);
        assert!(untouched.seen.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_refused_request_ends_it_with_the_servers_words() {
    let words = json!({"error": {"message": "no model m\nhere"}}).to_string();
    let (url, script) = serve(&[(404, None, &words)]).await;
    let error = ask(&quick(vec![client("a", &url)])).await.unwrap_err();
    assert_eq!(error.class(), Class::Invalid);
    assert!(
        error.to_string().contains("404 Not Found: no model m here"),
        "{error}"
    );
    assert_eq!(script.seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn too_many_and_unavailable_are_tried_again() {
    let (url, script) = serve(&[
        (429, Some("0"), "{}"),
        (503, None, "<html>"),
        (200, None, &said("third")),
    ])
    .await;
    assert_eq!(
        ask(&quick(vec![client("a", &url)])).await.unwrap().text(),
        "third"
    );
    assert_eq!(script.seen.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_success_that_is_no_answer_is_tried_again() {
    let (url, _) = serve(&[(200, None, "<html>busy</html>"), (200, None, &said("second"))]).await;
    assert_eq!(
        ask(&quick(vec![client("a", &url)])).await.unwrap().text(),
        "second"
    );
}

#[tokio::test]
async fn an_endpoint_that_stays_away_gives_way_to_the_next() {
    let (down, script) = serve(&[]).await;
    let (up, _) = serve(&[(200, None, &said("from b"))]).await;
    assert_eq!(
        ask(&quick(vec![client("a", &down), client("b", &up)]))
            .await
            .unwrap()
            .text(),
        "from b"
    );
    assert_eq!(script.seen.lock().unwrap().len(), 3);
}

/// A port on which nobody listens.
async fn closed() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/v1", listener.local_addr().unwrap())
}

#[tokio::test]
async fn a_refused_connection_goes_to_the_next_endpoint_and_the_last_error_is_told() {
    let (up, _) = serve(&[(200, None, &said("from b"))]).await;
    let (first, second) = (closed().await, closed().await);
    assert_eq!(
        ask(&quick(vec![client("a", &first), client("b", &up)]))
            .await
            .unwrap()
            .text(),
        "from b"
    );
    let error = ask(&quick(vec![client("a", &first), client("b", &second)]))
        .await
        .unwrap_err();
    assert_eq!(error.class(), Class::Unavailable);
    assert!(
        error
            .to_string()
            .starts_with("model endpoint b: cannot connect to 127.0.0.1"),
        "{error}"
    );
}

#[tokio::test]
async fn no_endpoint_is_an_error_of_the_configuration() {
    assert_eq!(ask(&quick(vec![])).await.unwrap_err().class(), Class::Invalid);
}

/// An endpoint without sockets, for tests of time.
struct Scripted(Mutex<VecDeque<ModelError>>, Arc<Mutex<Vec<Instant>>>);

#[async_trait]
impl Endpoint for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn attempt(&self, _: &ModelRequest, _: &CallContext) -> Result<ModelReply, ModelError> {
        self.1.lock().unwrap().push(Instant::now());
        let next = self.0.lock().unwrap().pop_front();
        match next {
            Some(error) => Err(error),
            None => std::future::pending().await,
        }
    }
}

fn busy(seconds: Option<u64>) -> ModelError {
    let retry_after = seconds.map(Duration::from_secs);
    let (endpoint, message) = ("scripted".to_owned(), String::new());
    ModelError::Busy {
        endpoint,
        status: StatusCode::TOO_MANY_REQUESTS,
        retry_after,
        message,
    }
}

async fn timed(errors: Vec<ModelError>, left: u64) -> (ModelError, Vec<u64>) {
    let times = Arc::new(Mutex::new(Vec::new()));
    let model = Failover::new(vec![Arc::new(Scripted(Mutex::new(errors.into()), times.clone()))]);
    let began = Instant::now();
    let error = model
        .complete(&request(), &context(Duration::from_secs(left)))
        .await
        .unwrap_err();
    let mut times: Vec<_> = times
        .lock()
        .unwrap()
        .iter()
        .map(|time| time.duration_since(began).as_secs())
        .collect();
    times.push(began.elapsed().as_secs());
    (error, times)
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed_within_the_deadline() {
    let (error, times) = timed(vec![busy(Some(30)), busy(Some(60)), busy(Some(1))], 3600).await;
    assert!(matches!(error, ModelError::Busy { .. }));
    assert_eq!(times, [0, 30, 90, 90]);
    // It would come after the deadline, or another day: told at once.
    assert_eq!(timed(vec![busy(Some(30))], 20).await.1, [0, 0]);
    assert_eq!(timed(vec![busy(Some(121))], 3600).await.1, [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_hangs_is_left_at_the_deadline() {
    let (error, times) = timed(vec![busy(None)], 40).await;
    assert!(matches!(error, ModelError::Deadline));
    assert_eq!(times, [0, 0, 40]);
    assert_eq!(error.class(), Class::Unavailable);
}
