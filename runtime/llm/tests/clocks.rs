//! The clocks of a model over real sockets: an answer may take its time as long as it comes, and silence ends it. What was
//! sent and not answered is not sent there again.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_llm::{
    CallContext, Endpoint, Failover, Message, Model as _, ModelClient, ModelError, ModelReply, ModelRequest,
    Setup, Sink, Stop,
};
use agentd_net::{Declared, Destination, HttpClient, Options, Pace};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use serde_json::{Value, json};
use tokio::time::Instant;

/// How a server answers a request.
enum Answer {
    /// Nothing, ever.
    Nothing,
    /// A stream that breaks off into silence.
    Half,
    /// So many pieces, with a pause before each.
    Slow(usize, Duration),
    /// As a whole, after so long.
    Whole(Duration),
    /// 400 with these words.
    Refused(&'static str),
}

#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Answer>>,
    /// Whether each request asked for a stream.
    seen: Mutex<Vec<bool>>,
}

fn event(text: &str) -> Bytes {
    let event = json!({"choices": [{"delta": {"content": text}}]});
    Bytes::from(format!("data: {event}\n\n"))
}

fn streamed(events: BoxStream<'static, Bytes>) -> Response {
    let body = Body::from_stream(events.map(Ok::<_, std::io::Error>));
    ([("content-type", "text/event-stream")], body).into_response()
}

async fn answer(State(script): State<Arc<Script>>, body: String) -> Response {
    let request: Value = serde_json::from_str(&body).unwrap();
    script.seen.lock().unwrap().push(request["stream"] == true);
    let next = script.answers.lock().unwrap().pop_front();
    match next.unwrap_or(Answer::Refused("the script is over")) {
        Answer::Nothing => std::future::pending().await,
        Answer::Half => streamed(
            stream::once(async { event("half") })
                .chain(stream::pending())
                .boxed(),
        ),
        Answer::Slow(count, pause) => {
            let pieces = stream::iter(0..count).then(move |_| async move {
                tokio::time::sleep(pause).await;
                event("x")
            });
            let end = stream::iter([
                Bytes::from_static(b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"),
                Bytes::from_static(b"data: [DONE]\n\n"),
            ]);
            streamed(pieces.chain(end).boxed())
        }
        Answer::Whole(pause) => {
            tokio::time::sleep(pause).await;
            let message = json!({"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]});
            ([("content-type", "application/json")], message.to_string()).into_response()
        }
        Answer::Refused(words) => {
            let body = json!({"error": {"message": words}}).to_string();
            (StatusCode::BAD_REQUEST, body).into_response()
        }
    }
}

async fn serve(answers: Vec<Answer>, silence: Duration) -> (Arc<dyn Endpoint>, Arc<Script>) {
    let script = Arc::new(Script {
        answers: Mutex::new(answers.into()),
        ..Script::default()
    });
    let router = axum::Router::new().fallback(answer).with_state(script.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let declared = Declared::Model {
        allow_plaintext: false,
    };
    let destination = Destination::declared(&url, declared).unwrap();
    let mut options = Options::default();
    options.timeouts.response = None;
    let setup = Setup {
        name: "slow".into(),
        model: "m".into(),
        silence: Some(silence),
        ..Setup::default()
    };
    let client = ModelClient::new(setup, HttpClient::new(destination, options).unwrap());
    (Arc::new(client), script)
}

fn model(endpoints: Vec<Arc<dyn Endpoint>>) -> Failover {
    let first = Duration::from_millis(1);
    Failover::with_pace(endpoints, Pace { first, max: first })
}

/// What is told; a restart is a bar.
#[derive(Default)]
struct Ear(Mutex<String>);

impl Sink for Ear {
    fn text(&self, delta: &str) {
        self.0.lock().unwrap().push_str(delta);
    }

    fn restart(&self) {
        self.0.lock().unwrap().push('|');
    }
}

async fn ask(model: &Failover) -> (Result<ModelReply, ModelError>, String) {
    let request = ModelRequest {
        messages: vec![Message::User("hello".into())].into(),
        ..ModelRequest::default()
    };
    let ear = Arc::new(Ear::default());
    let context = CallContext {
        run_id: "r".into(),
        traceparent: None,
        deadline: Instant::now() + Duration::from_secs(60),
        sink: Some(ear.clone()),
    };
    let outcome = model.complete(&request, &context).await;
    let told = ear.0.lock().unwrap().clone();
    (outcome, told)
}

#[tokio::test]
async fn an_answer_takes_longer_than_silence_may() {
    let silence = Duration::from_secs(3);
    let (slow, script) = serve(vec![Answer::Slow(40, Duration::from_millis(100))], silence).await;
    let began = Instant::now();
    let (outcome, told) = ask(&model(vec![slow])).await;
    let reply = outcome.unwrap();
    assert!(began.elapsed() > silence);
    assert_eq!((reply.text(), reply.stop), ("x".repeat(40), Stop::End));
    assert_eq!(told, "x".repeat(40));
    assert_eq!(*script.seen.lock().unwrap(), [true]);
}

#[tokio::test]
async fn silence_ends_a_try_which_is_not_made_there_again() {
    let silence = Duration::from_millis(700);
    for (first, heard) in [(Answer::Nothing, ""), (Answer::Half, "half")] {
        let (dumb, script) = serve(vec![first], silence).await;
        let (outcome, told) = ask(&model(vec![dumb])).await;
        let error = outcome.unwrap_err();
        assert!(matches!(error, ModelError::Silent { .. }), "{error}");
        assert_eq!(
            error.to_string(),
            "model endpoint slow said nothing for 700ms; if it is only slow, raise its timeout"
        );
        assert_eq!((told.as_str(), script.seen.lock().unwrap().len()), (heard, 1));
    }
    // Another endpoint is asked, and the text begins again.
    let (dumb, script) = serve(vec![Answer::Half], silence).await;
    let (other, _) = serve(vec![Answer::Slow(2, Duration::ZERO)], Duration::from_secs(60)).await;
    let (outcome, told) = ask(&model(vec![dumb, other])).await;
    assert_eq!(
        (outcome.unwrap().text().as_str(), told.as_str()),
        ("xx", "half|xx")
    );
    assert_eq!(script.seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn who_answers_as_a_whole_is_given_the_time_for_it() {
    let silence = Duration::from_secs(1);
    let late = Duration::from_millis(1500);
    // It was asked for a stream, and is known now not to have any.
    let answers = vec![Answer::Whole(Duration::ZERO), Answer::Whole(late)];
    let (whole, script) = serve(answers, silence).await;
    let model_of_it = model(vec![whole]);
    for _ in 0..2 {
        let (outcome, told) = ask(&model_of_it).await;
        assert_eq!(
            (outcome.unwrap().text().as_str(), told.as_str()),
            ("whole", "whole")
        );
    }
    assert_eq!(*script.seen.lock().unwrap(), [true, true]);
    // It refuses to stream: not asked for it again.
    let words = "Your organization must be verified to stream this model.";
    let answers = vec![Answer::Refused(words), Answer::Whole(late), Answer::Whole(late)];
    let (whole, script) = serve(answers, silence).await;
    let model_of_it = model(vec![whole]);
    for _ in 0..2 {
        assert_eq!(ask(&model_of_it).await.0.unwrap().text(), "whole");
    }
    assert_eq!(*script.seen.lock().unwrap(), [true, false, false]);
    // What is upstream is no stream.
    let answers = vec![Answer::Refused("the upstream provider is confused")];
    let (gateway, script) = serve(answers, silence).await;
    assert!(matches!(
        ask(&model(vec![gateway])).await.0,
        Err(ModelError::Rejected { .. })
    ));
    assert_eq!(*script.seen.lock().unwrap(), [true]);
}
