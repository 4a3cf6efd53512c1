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
    Block, CallContext, Dialect, Endpoint, Failover, Message, Model as _, ModelClient, ModelError,
    ModelReply, ModelRequest, OutputSchema, Setup, Sink, Stop, StructuredOutput, Usage,
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
        messages: vec![Message::User("hello".into())].into(),
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

/// An endpoint that answers from a list, tells text first where it says so, and counts.
struct Listed {
    name: &'static str,
    answers: Mutex<VecDeque<(Option<&'static str>, Option<ModelError>)>>,
    asked: Arc<Mutex<Vec<(&'static str, Instant)>>>,
}

#[async_trait]
impl Endpoint for Listed {
    fn name(&self) -> &str {
        self.name
    }

    async fn attempt(&self, _: &ModelRequest, context: &CallContext) -> Result<ModelReply, ModelError> {
        self.asked.lock().unwrap().push((self.name, Instant::now()));
        let (told, error) = self.answers.lock().unwrap().pop_front().unwrap_or_default();
        if let (Some(text), Some(sink)) = (told, &context.sink) {
            sink.text(text);
        }
        match error {
            Some(error) => Err(error),
            None => Ok(ModelReply {
                blocks: vec![Block::Text(told.unwrap_or(self.name).into())],
                stop: Stop::End,
                usage: Usage::default(),
            }),
        }
    }
}

type Asked = Arc<Mutex<Vec<(&'static str, Instant)>>>;

/// What is told while an answer comes, and how it fails.
type Turnout = (Option<&'static str>, Option<ModelError>);

fn listed(endpoints: Vec<(&'static str, Vec<Turnout>)>) -> (Failover, Asked) {
    let asked = Asked::default();
    let endpoints = endpoints.into_iter().map(|(name, answers)| {
        let (answers, asked) = (Mutex::new(answers.into()), asked.clone());
        Arc::new(Listed { name, answers, asked }) as Arc<dyn Endpoint>
    });
    (Failover::new(endpoints.collect()), asked)
}

fn fails(count: usize) -> Vec<Turnout> {
    (0..count).map(|_| (None, Some(busy(None)))).collect()
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_failed_is_left_alone_and_tried_once_when_its_time_has_come() {
    let (model, asked) = listed(vec![("a", fails(4)), ("b", vec![])]);
    let names = || {
        asked
            .lock()
            .unwrap()
            .drain(..)
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    assert_eq!(ask(&model).await.unwrap().text(), "b");
    assert_eq!(names(), ["a", "a", "a", "b"]);
    assert_eq!(ask(&model).await.unwrap().text(), "b");
    assert_eq!(names(), ["b"], "the breaker of a is open");
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(ask(&model).await.unwrap().text(), "b");
    assert_eq!(names(), ["a", "b"], "one probe, and no second try of it");
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!(ask(&model).await.unwrap().text(), "b");
    assert_eq!(names(), ["b"], "twice as long");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(ask(&model).await.unwrap().text(), "a");
    assert_eq!(ask(&model).await.unwrap().text(), "a");
    assert_eq!(names(), ["a", "a"], "the primary is back");
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_the_only_endpoint_and_one_of_many_probes_it() {
    let (model, asked) = listed(vec![("a", fails(3))]);
    ask(&model).await.unwrap_err();
    let opened = Instant::now();
    asked.lock().unwrap().clear();
    let both = tokio::join!(ask(&model), ask(&model));
    assert_eq!(
        (both.0.unwrap().text(), both.1.unwrap().text()),
        ("a".into(), "a".into())
    );
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|(_, at)| *at >= opened + Duration::from_secs(5)));
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_was_given_up_does_not_close_the_door() {
    let (model, asked) = listed(vec![("a", fails(3))]);
    ask(&model).await.unwrap_err();
    tokio::time::advance(Duration::from_secs(5)).await;
    // Dropped before it was polled to its end.
    let times = Arc::new(Mutex::new(Vec::new()));
    let hanging = Failover::new(vec![Arc::new(Scripted(
        Mutex::new(vec![busy(None); 3].into()),
        times,
    ))]);
    let _ = hanging
        .complete(&request(), &context(Duration::from_secs(3)))
        .await;
    let given_up = tokio::time::timeout(Duration::from_secs(20), ask(&hanging)).await;
    assert!(given_up.is_err());
    let again = tokio::time::timeout(Duration::from_secs(1), ask(&hanging)).await;
    assert!(again.is_err(), "it is asked, and hangs");
    assert_eq!(ask(&model).await.unwrap().text(), "a");
    assert_eq!(asked.lock().unwrap().len(), 4);
}

/// What was heard, call by call.
#[derive(Default)]
struct Ear(Mutex<Vec<String>>);

impl Sink for Ear {
    fn text(&self, delta: &str) {
        self.0.lock().unwrap().push(delta.into());
    }

    fn restart(&self) {
        self.0.lock().unwrap().push("<restart>".into());
    }
}

async fn heard(model: &Failover) -> (Result<ModelReply, ModelError>, Vec<String>) {
    let ear = Arc::new(Ear::default());
    let context = CallContext {
        sink: Some(ear.clone()),
        ..context(Duration::from_secs(30))
    };
    let outcome = model.complete(&request(), &context).await;
    let heard = ear.0.lock().unwrap().clone();
    (outcome, heard)
}

#[tokio::test(start_paused = true)]
async fn nothing_is_tried_again_after_text_without_saying_so() {
    let answers = vec![
        (Some("half"), Some(busy(None))),
        (None, Some(busy(None))),
        (Some("whole"), None),
    ];
    let (model, _) = listed(vec![("a", answers)]);
    let (outcome, told) = heard(&model).await;
    assert_eq!(outcome.unwrap().text(), "whole");
    assert_eq!(told, ["half", "<restart>", "whole"]);
    // The next endpoint begins again too.
    let (model, _) = listed(vec![
        ("a", (0..3).map(|_| (Some("x"), Some(busy(None)))).collect()),
        ("b", vec![(Some("y"), None)]),
    ]);
    assert_eq!(
        heard(&model).await.1,
        ["x", "<restart>", "x", "<restart>", "x", "<restart>", "y"]
    );
}

fn typed(url: &str, dialect: Dialect, structured_output: StructuredOutput) -> Failover {
    let declared = Declared::Model {
        allow_plaintext: false,
    };
    let client = HttpClient::new(Destination::declared(url, declared).unwrap(), Options::default()).unwrap();
    let setup = Setup {
        name: "a".into(),
        model: "m".into(),
        dialect,
        structured_output,
        silence: None,
        declares_version: false,
    };
    quick(vec![Arc::new(ModelClient::new(setup, client))])
}

/// A request whose answer is to be an object.
fn of_an_object() -> ModelRequest {
    let schema = serde_json::from_value(json!({"type": "object"})).unwrap();
    let name = "answer".to_owned();
    ModelRequest {
        output_schema: Some(OutputSchema { name, schema }),
        ..request()
    }
}

/// Which of the requests asked for the shape of the answer by the provider's own means.
fn shaped(seen: &[Seen]) -> Vec<bool> {
    let asks = |seen: &Seen| seen.body.get("response_format").is_some();
    seen.iter().map(asks).collect()
}

#[tokio::test]
async fn what_an_endpoint_does_not_take_is_learnt_from_its_refusal() {
    let refusal = json!({"error": {"message": "response_format json_schema is not supported"}}).to_string();
    let answers = [
        (400, None, refusal.as_str()),
        (200, None, &said("{}")),
        (200, None, &said("{}")),
    ];
    let (url, script) = serve(&answers).await;
    let model = typed(&url, Dialect::Openai, StructuredOutput::Auto);
    let request = of_an_object();
    for _ in 0..2 {
        model
            .complete(&request, &context(Duration::from_secs(30)))
            .await
            .unwrap();
    }
    let seen = script.seen.lock().unwrap();
    let modes = shaped(&seen);
    assert_eq!(modes, [true, false, false], "once, and not again");
    assert!(
        seen[1].body["messages"][0]["content"]
            .as_str()
            .unwrap()
            .contains("JSON of this schema")
    );
}

#[tokio::test]
async fn what_did_not_help_is_not_learnt() {
    // One caller's schema is at fault, whatever it is asked in.
    let refusal = json!({"error": {"message": "the schema is not acceptable"}}).to_string();
    let answers = [
        (400, None, refusal.as_str()),
        (400, None, refusal.as_str()),
        (200, None, &said("{}")),
    ];
    let (url, script) = serve(&answers).await;
    let model = typed(&url, Dialect::Openai, StructuredOutput::Auto);
    let request = of_an_object();
    let context = context(Duration::from_secs(30));
    assert!(matches!(
        model.complete(&request, &context).await,
        Err(ModelError::Rejected { .. })
    ));
    model.complete(&request, &context).await.unwrap();
    let seen = script.seen.lock().unwrap();
    let modes = shaped(&seen);
    assert_eq!(modes, [true, false, true], "the next is asked as the first was");
}

#[tokio::test]
async fn field_l09_another_model_and_every_field_of_a_request_reach_the_wire() {
    // L09: a field that is taken and not sent would be a lie.
    for (dialect, model, most, path) in [
        (Dialect::Openai, "/model", "/max_tokens", "/v1/chat/completions"),
        (
            Dialect::OpenaiResponses,
            "/model",
            "/max_output_tokens",
            "/v1/responses",
        ),
        (Dialect::Anthropic, "/model", "/max_tokens", "/v1/messages"),
        (
            Dialect::Bedrock,
            "",
            "/inferenceConfig/maxTokens",
            "/v1/model/cheap/converse",
        ),
    ] {
        let (url, script) = serve(&[(400, None, "{}")]).await;
        let model_client = typed(&url, dialect, StructuredOutput::Prompt);
        let request = ModelRequest {
            system: "the system".into(),
            tools: vec![
                serde_json::from_value(
                    json!({"name": "the_tool", "description": "the words", "input_schema": {}}),
                )
                .unwrap(),
            ]
            .into(),
            output_schema: Some(OutputSchema {
                name: "answer".into(),
                schema: serde_json::from_value(json!({"type": "object", "title": "the shape"})).unwrap(),
            }),
            max_output_tokens: Some(77),
            model: Some("cheap".into()),
            ..request()
        };
        model_client
            .complete(&request, &context(Duration::from_secs(30)))
            .await
            .unwrap_err();
        let seen = script.seen.lock().unwrap();
        let text = seen[0].body.to_string();
        for part in ["the system", "hello", "the_tool", "the words", "the shape"] {
            assert!(text.contains(part), "{dialect:?} {part}: {text}");
        }
        assert_eq!(seen[0].uri, path);
        assert_eq!(seen[0].body.pointer(most), Some(&json!(77)), "{dialect:?}");
        if !model.is_empty() {
            assert_eq!(seen[0].body.pointer(model), Some(&json!("cheap")), "{dialect:?}");
        }
    }
}

#[tokio::test]
async fn field_l05_no_host_but_the_declared_one_hears_anything() {
    // Every place in which a server may name another: nothing of it is followed.
    let (other, untouched) = serve(&[]).await;
    for dialect in [
        Dialect::Openai,
        Dialect::OpenaiResponses,
        Dialect::Anthropic,
        Dialect::Bedrock,
    ] {
        for status in [200, 301, 302, 307, 308, 401, 404, 429, 503] {
            let body = json!({"error": {"message": other, "documentation_url": other}, "next": other, "url": other,
                "output": [{"type": "image", "url": other}], "content": [{"type": "x", "url": other}],
                "choices": [{"message": {"content": other, "image_url": other}}]});
            let location = other.clone();
            let router = axum::Router::new().fallback(move || {
                let (location, body) = (location.clone(), body.to_string());
                async move {
                    let status = StatusCode::from_u16(status).unwrap();
                    let link = format!("<{location}>; rel=\"next\"");
                    (
                        status,
                        [
                            ("location", location.clone()),
                            ("link", link),
                            ("alt-svc", format!("h2=\"{location}\"")),
                        ],
                        body,
                    )
                }
            });
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/v1", listener.local_addr().unwrap());
            let server = tokio::spawn(async move { axum::serve(listener, router).await });
            let _ = ask(&typed(&url, dialect, StructuredOutput::Auto)).await;
            server.abort();
        }
    }
    assert!(untouched.seen.lock().unwrap().is_empty());
    // And none is written into the program.
    for file in walk(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))) {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let is_test = file.to_string_lossy().contains("tests.rs");
        for line in code.filter(|_| !is_test) {
            assert!(!line.contains("://"), "{}: {line}", file.display());
        }
    }
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] });
    files
        .filter(|path| path.extension().is_some_and(|kind| kind == "rs"))
        .collect()
}
