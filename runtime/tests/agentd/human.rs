//! A server that asks a person in the middle of a call, with a worker of its own process and a person who is scripted.

use std::sync::Arc;
use std::time::Duration;

use agentd::origin::Origin;
use agentd::reload::Settings;
use agentd::supervisor::asking::{Asked, Human};
use agentd::supervisor::turns::{TurnEnd, TurnInput, TurnRunner};
use agentd::worker::frame::TurnResult;
use agentd_agent::Status;
use agentd_config::Document;
use agentd_mcp::{Answer, Ask, Outbound, Supervised};
use agentd_state::Retention;
use agentd_store::MemoryStore;
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::mcp_rich::Rich;
use crate::model::Model;
use crate::process::PATIENCE;
use crate::runner::{Parts, runner_of};

/// Gives the question to the test, and what the test says to the server.
#[derive(Debug)]
struct Person(mpsc::UnboundedSender<(Asked, oneshot::Sender<Answer>)>);

#[async_trait]
impl Human for Person {
    async fn ask(&self, asked: Asked) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.0.send((asked, answer)).unwrap();
        answered.await.unwrap_or(Answer::Cancel)
    }
}

type Questions = mpsc::UnboundedReceiver<(Asked, oneshot::Sender<Answer>)>;

struct World {
    model: Model,
    server: Rich,
    runner: Arc<TurnRunner>,
    _servers: Supervised,
    _settings: watch::Sender<Arc<Settings<Document>>>,
    questions: Questions,
}

impl World {
    async fn new(with_person: bool, deadline: &str) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (model, server) = (Model::start().await, Rich::start().await);
        let document: Document = serde_json::from_value(json!({
            "intelligence": { "endpoints": [{ "url": model.url() }], "model": "scripted" },
            "limits": { "run": { "deadline": deadline } },
            "mcp": { "servers": [{ "name": "rich", "endpoint": server.url() }] },
        }))
        .unwrap();
        let pace = agentd_mcp::supervised::PACE;
        let servers = Supervised::start(&document.mcp, "a".into(), Outbound::default(), pace);
        let mut view = servers.view();
        view.wait_for(|view| view.settled()).await.unwrap();
        let (person, questions) = mpsc::unbounded_channel();
        let person: Arc<dyn Human> = Arc::new(Person(person));
        let (runner, sender) = runner_of(Parts {
            document,
            store: Arc::new(MemoryStore::new(Retention::MEMORY)),
            servers: view,
            lines: servers.lines(),
            human: with_person.then_some(person),
        });
        Self {
            model,
            server,
            runner,
            _servers: servers,
            _settings: sender,
            questions,
        }
    }

    /// The end of a turn in which the model calls `ask`; meanwhile `person` has the question.
    async fn turn(
        mut self,
        stop: &CancellationToken,
        person: impl AsyncFnOnce(Questions),
    ) -> (Box<TurnResult>, Self) {
        let input = TurnInput {
            run_id: "run-1".into(),
            owner: "alice".into(),
            conversation: "c".into(),
            transcript: Value::Null,
            hops: 0,
            resumed: None,
            used: Default::default(),
            charge: None,
            origin: Origin::agent("a", None),
            listener: None,
            text: r#"calls [["ask", {}]]"#.into(),
        };
        let questions = std::mem::replace(&mut self.questions, mpsc::unbounded_channel().1);
        let both = async { tokio::join!(self.runner.run(input, stop), person(questions)) };
        let (end, ()) = tokio::time::timeout(PATIENCE, both).await.unwrap();
        match end {
            TurnEnd::Done(result) => (result, self),
            TurnEnd::Broken { reason, .. } => panic!("{reason}"),
        }
    }

    /// What the tool saw of the answer.
    fn seen(&self) -> Value {
        let messages = self.model.requests().last().unwrap()["messages"].clone();
        let tool = messages.as_array().unwrap().last().unwrap()["content"].clone();
        serde_json::from_str(tool.as_str().unwrap()).unwrap()
    }
}

fn form(given: Value) -> Answer {
    Answer::Accept(serde_json::from_value(given).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn m13_a_servers_question_is_answered_by_a_person() {
    for (answer, seen) in [
        (
            form(json!({ "colour": "red" })),
            json!({ "action": "accept", "content": { "colour": "red" } }),
        ),
        (form(json!({ "colour": "green" })), json!({ "action": "cancel" })),
        (Answer::Decline, json!({ "action": "decline" })),
        (Answer::Cancel, json!({ "action": "cancel" })),
    ] {
        let world = World::new(true, "1m").await;
        let stop = CancellationToken::new();
        let answering = async |mut questions: Questions| {
            let (asked, reply) = questions.recv().await.unwrap();
            assert_eq!(
                (asked.run_id.as_str(), asked.conversation.as_str()),
                ("run-1", "c")
            );
            assert_eq!(asked.question.server, "rich");
            assert_eq!(asked.question.message, "Which colour?");
            let Ask::Form { schema } = asked.question.ask else {
                panic!("no form")
            };
            assert_eq!(schema["required"], json!(["colour"]));
            reply.send(answer.clone()).unwrap();
        };
        let (result, world) = world.turn(&stop, answering).await;
        assert_eq!(
            (result.status, result.tool_calls),
            (Status::Completed, 1),
            "{result:?}"
        );
        assert_eq!(world.seen(), seen);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m13_with_nobody_to_ask_the_answer_is_cancel_at_once() {
    let world = World::new(false, "1m").await;
    let (result, world) = world.turn(&CancellationToken::new(), async |_| {}).await;
    assert_eq!(result.status, Status::Completed);
    assert_eq!(world.seen(), json!({ "action": "cancel" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn m13_a_turn_that_is_cancelled_takes_its_question_back() {
    let world = World::new(true, "1m").await;
    let stop = CancellationToken::new();
    let cancelling = async |mut questions: Questions| {
        let (_, mut reply) = questions.recv().await.unwrap();
        stop.cancel();
        reply.closed().await;
    };
    let (result, world) = world.turn(&stop, cancelling).await;
    assert_eq!(result.status, Status::Cancelled);
    // The server is told that nobody waits for its tool any more.
    world.server.request("notifications/cancelled").await;
}

/// The turn's own time runs while a person thinks.
#[tokio::test(flavor = "multi_thread")]
async fn m13_nobody_holds_a_turn_by_not_answering() {
    let world = World::new(true, "3s").await;
    let began = std::time::Instant::now();
    let thinking = async |mut questions: Questions| {
        let (_, mut reply) = questions.recv().await.unwrap();
        reply.closed().await;
    };
    let (result, _world) = world.turn(&CancellationToken::new(), thinking).await;
    assert_eq!(result.status, Status::Deadline);
    assert!(began.elapsed() < Duration::from_secs(30));
}
