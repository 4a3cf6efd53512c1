//! Questions to people: put, bounded, shaped, answered on the stream or with the next request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_mcp::{
    Answer, Ask, CallError, CallMeta, Connection, Elicitor, Era, Hooks, Kind, Outbound, Question,
};
use async_trait::async_trait;
use serde_json::{Map, Value, json};

use crate::peer::Peer;
use crate::script::{Discover, Script};

/// A person who follows a script.
#[derive(Default)]
struct Person {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<Question>>,
    /// Never answers; time flies while it is asked.
    asleep: bool,
    urls: bool,
}

#[async_trait]
impl Elicitor for Person {
    async fn ask(&self, question: Question) -> Answer {
        self.asked.lock().unwrap().push(question);
        if self.asleep {
            let _awake = Flying::start();
            std::future::pending::<()>().await;
        }
        let next = self.answers.lock().unwrap().pop_front();
        next.unwrap_or(Answer::Cancel)
    }

    fn opens_urls(&self) -> bool {
        self.urls
    }
}

/// Time that does not wait for anybody; real again when this is dropped.
struct Flying;

impl Flying {
    fn start() -> Self {
        tokio::time::pause();
        Self
    }
}

impl Drop for Flying {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

fn answering(answers: impl IntoIterator<Item = Answer>) -> Arc<Person> {
    Arc::new(Person {
        answers: Mutex::new(answers.into_iter().collect()),
        ..Person::default()
    })
}

fn accept(values: Value) -> Answer {
    Answer::Accept(values.as_object().unwrap().clone())
}

async fn worker(peer: &Peer, era: Era, person: &Arc<Person>) -> Connection {
    let hooks = Hooks {
        elicitor: Some(person.clone()),
    };
    let kind = Kind::Worker { era: Some(era) };
    Connection::open(
        &peer.hasty(Duration::from_secs(60)),
        None,
        kind,
        &Outbound::default(),
        hooks,
    )
    .await
    .unwrap()
}

async fn call(connection: &Connection) -> Result<String, CallError> {
    let outcome = connection.call("echo", Map::new(), &CallMeta::default()).await?;
    Ok(outcome.text)
}

fn form(schema: Value) -> Value {
    json!({"message": "Who are\nyou?\u{7}", "requestedSchema": schema})
}

fn name_form() -> Value {
    json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "colour": {"type": "string", "default": "red"}}})
}

/// What goes back to the server, for each answer of the person.
async fn on_a_stream(params: Value, answer: Answer) -> (Value, Vec<Question>) {
    let question = json!({"jsonrpc": "2.0", "id": 103, "method": "elicitation/create", "params": params});
    let peer = Peer::start(Script {
        before_answer: vec![question],
        awaited: Some(1),
        ..Script::default()
    })
    .await;
    let person = answering([answer]);
    let connection = worker(&peer, Era::Legacy, &person).await;
    assert_eq!(call(&connection).await.unwrap(), "hello");
    let sent = peer.seen("answer").await;
    connection.close().await;
    let asked = person.asked.lock().unwrap().clone();
    (sent.body["result"].clone(), asked)
}

#[tokio::test]
async fn m13_a_question_is_put_and_its_answer_shaped() {
    let (sent, asked) = on_a_stream(form(name_form()), accept(json!({"name": "Al", "more": 1}))).await;
    assert_eq!(
        sent,
        json!({"action": "accept", "content": {"name": "Al", "colour": "red"}})
    );
    assert_eq!(
        asked,
        [Question {
            server: "s".into(),
            message: "Who are\nyou?".into(),
            ask: Ask::Form { schema: name_form() },
        }]
    );
    let (sent, _) = on_a_stream(form(name_form()), Answer::Decline).await;
    assert_eq!(sent, json!({"action": "decline"}));
}

#[tokio::test]
async fn m13_what_does_not_fit_or_was_not_declared_is_cancelled() {
    let cancelled = json!({"action": "cancel"});
    // Not what was asked for.
    let (sent, asked) = on_a_stream(form(name_form()), accept(json!({"colour": "blue"}))).await;
    assert_eq!((sent, asked.len()), (cancelled.clone(), 1));
    // Nested: no form of the protocol. Nobody is asked.
    let nested = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}});
    let (sent, asked) = on_a_stream(form(nested), accept(json!({"a": {}}))).await;
    assert_eq!((sent, asked.len()), (cancelled.clone(), 0));
    // A URL, on a connection that declared `{}`.
    let url = json!({"mode": "url", "message": "m", "url": "https://x.example/", "elicitationId": "1"});
    let (sent, asked) = on_a_stream(url, accept(json!({}))).await;
    assert_eq!((sent, asked.len()), (cancelled, 0));
}

/// The clock of the question runs, that of the call stands still.
#[tokio::test]
async fn m13_a_person_has_300_seconds_and_the_call_waits() {
    let ask = input_required(
        json!({"q": {"method": "elicitation/create", "params": form(name_form())}}),
        Some("s"),
    );
    let peer = stateless(vec![ask, done("late but well")]).await;
    let person = Arc::new(Person {
        asleep: true,
        ..Person::default()
    });
    let connection = worker(&peer, Era::Stateless, &person).await;
    // Nobody answers: after 300 s the question is cancelled, long after the call's own 60 s.
    let began = tokio::time::Instant::now();
    assert_eq!(call(&connection).await.unwrap(), "late but well");
    let took = began.elapsed();
    assert!(
        took >= Duration::from_secs(300) && took < Duration::from_secs(360),
        "{took:?}"
    );
    let again = peer.seen_times("tools/call", 2).await;
    assert_eq!(
        again.body["params"]["inputResponses"],
        json!({"q": {"action": "cancel"}})
    );
    connection.close().await;
}

fn input_required(requests: Value, state: Option<&str>) -> Value {
    let mut result = json!({"resultType": "input_required", "inputRequests": requests});
    if let Some(state) = state {
        result["requestState"] = state.into();
    }
    json!({ "result": result })
}

fn done(text: &str) -> Value {
    json!({"result": {"resultType": "complete", "content": [{"type": "text", "text": text}]}})
}

async fn stateless(answers: Vec<Value>) -> Peer {
    Peer::start(Script {
        discover: Discover::Modern,
        first: answers.into(),
        capabilities: json!({"tools": {}, "resources": {}}),
        ..Script::default()
    })
    .await
}

/// SEP-2322: the same request under a new id, with the answers and the state byte for byte.
#[tokio::test]
async fn m13_a_stateless_server_gets_the_call_again_with_the_answers() {
    let state = "opaque \u{e9} {\"not\": \"ours\"}\\n";
    let questions = json!({
        "one": {"method": "elicitation/create", "params": form(name_form())},
        "two": {"method": "elicitation/create", "params": form(json!({"type": "object", "properties": {"a": {"type": "object"}}}))},
    });
    let only_state = json!({"result": {"resultType": "input_required", "requestState": "second"}});
    let peer = stateless(vec![
        input_required(questions, Some(state)),
        only_state,
        done("done"),
    ])
    .await;
    let person = answering([accept(json!({"name": "Al"}))]);
    let connection = worker(&peer, Era::Stateless, &person).await;
    let meta = CallMeta {
        run_id: "run-1".into(),
        idempotency_key: "key-1".into(),
        ..CallMeta::default()
    };
    let arguments: Map<String, Value> = json!({"a": 1}).as_object().unwrap().clone();
    let outcome = connection.call("echo", arguments, &meta).await.unwrap();
    assert_eq!(outcome.text, "done");
    let calls: Vec<Value> = peer
        .log()
        .into_iter()
        .filter(|seen| seen.what() == "tools/call")
        .map(|seen| seen.body)
        .collect();
    assert_eq!(calls.len(), 3);
    let answers = json!({"one": {"action": "accept", "content": {"name": "Al", "colour": "red"}}, "two": {"action": "cancel"}});
    assert_eq!(calls[1]["params"]["inputResponses"], answers);
    assert_eq!(calls[1]["params"]["requestState"], state);
    assert_eq!(calls[2]["params"]["requestState"], "second");
    assert_eq!(calls[2]["params"].get("inputResponses"), None);
    let ids: std::collections::BTreeSet<String> = calls.iter().map(|call| call["id"].to_string()).collect();
    assert_eq!(ids.len(), 3);
    for call in &calls {
        assert_eq!(call["params"]["arguments"], json!({"a": 1}));
        assert_eq!(call["params"]["_meta"]["agent/idempotency_key"], "key-1");
    }
    connection.close().await;
}

#[tokio::test]
async fn m13_a_read_can_be_answered_by_a_question_too() {
    let question = json!({"q": {"method": "elicitation/create", "params": form(name_form())}});
    let peer = stateless(vec![input_required(question, None)]).await;
    let person = answering([accept(json!({"name": "Al"}))]);
    let connection = worker(&peer, Era::Stateless, &person).await;
    assert_eq!(
        connection.read("a:1", &CallMeta::default()).await.unwrap().len(),
        1
    );
    let again = peer.seen_times("resources/read", 2).await;
    assert_eq!(again.body["params"]["inputResponses"]["q"]["action"], "accept");
    connection.close().await;
}

/// A server that asks for ever, for something that was not declared, or of a connection that declared nothing.
#[tokio::test]
async fn m13_questions_are_bounded_and_only_what_was_declared_is_answered() {
    let ask = || json!({"q": {"method": "elicitation/create", "params": form(name_form())}});
    let peer = stateless((0..20).map(|_| input_required(ask(), Some("s"))).collect()).await;
    let person = answering((0..20).map(|_| accept(json!({"name": "Al"}))));
    let connection = worker(&peer, Era::Stateless, &person).await;
    assert_eq!(call(&connection).await.unwrap_err(), CallError::InputRequired);
    assert_eq!(peer.count("tools/call"), 10);
    peer.script().first = [input_required(json!({"q": {"method": "roots/list"}}), Some("s"))].into();
    assert_eq!(call(&connection).await.unwrap_err(), CallError::InputRequired);
    connection.close().await;

    let peer = stateless(vec![input_required(ask(), Some("s"))]).await;
    let boot = peer.boot().await;
    assert_eq!(call(&boot).await.unwrap_err(), CallError::InputRequired);
    assert_eq!(peer.count("tools/call"), 1);
    boot.close().await;
}

/// URLs are declared on stateless connections alone, and only where somebody can open them.
#[tokio::test]
async fn m12_a_url_is_for_those_who_declared_it() {
    for (urls, declared) in [(false, json!({})), (true, json!({"form": {}, "url": {}}))] {
        let url = json!({"mode": "url", "message": "m", "url": "https://x.example/", "elicitationId": "e1"});
        let question = json!({"q": {"method": "elicitation/create", "params": url}});
        let peer = stateless(vec![input_required(question, Some("s")), done("done")]).await;
        let person = Arc::new(Person {
            answers: Mutex::new([accept(json!({"x": 1}))].into()),
            urls,
            ..Person::default()
        });
        let connection = worker(&peer, Era::Stateless, &person).await;
        assert_eq!(call(&connection).await.unwrap(), "done");
        let calls = peer.seen_times("tools/call", 2).await;
        let meta = &calls.body["params"]["_meta"];
        assert_eq!(
            meta["io.modelcontextprotocol/clientCapabilities"],
            json!({"elicitation": declared})
        );
        let action = if urls { "accept" } else { "cancel" };
        assert_eq!(
            calls.body["params"]["inputResponses"],
            json!({"q": {"action": action}})
        );
        let asked = person.asked.lock().unwrap().clone();
        let expected = Ask::Url {
            url: "https://x.example/".into(),
            id: "e1".into(),
        };
        assert_eq!(
            asked.first().map(|question| question.ask.clone()),
            urls.then_some(expected)
        );
        connection.close().await;
    }
}
