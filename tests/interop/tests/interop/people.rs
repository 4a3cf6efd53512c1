//! Questions of servers to people: asked, answered, declined, and what the server made of it.

use std::sync::{Arc, Mutex};

use agentd_interop::arguments;
use agentd_mcp::{Answer, Ask, Elicitor, Era, Hooks, Kind, Question};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::{both_eras, call, everything, open_with, stateless};

/// Says always the same, and keeps what it was asked.
struct Person {
    answer: Answer,
    asked: Mutex<Vec<Question>>,
}

#[async_trait]
impl Elicitor for Person {
    async fn ask(&self, question: Question) -> Answer {
        self.asked.lock().unwrap().push(question);
        self.answer.clone()
    }
}

fn person(answer: Answer) -> (Arc<Person>, Hooks) {
    let person = Arc::new(Person {
        answer,
        asked: Mutex::default(),
    });
    let elicitor: Arc<dyn Elicitor> = person.clone();
    (
        person,
        Hooks {
            elicitor: Some(elicitor),
        },
    )
}

fn accept(value: &Value) -> Answer {
    Answer::Accept(arguments(value))
}

const fn worker(era: Option<Era>) -> Kind {
    Kind::Worker { era }
}

/// M13 with sessions: the reference server asks in the middle of a call.
#[tokio::test(flavor = "multi_thread")]
async fn m13_the_reference_server_asks_and_is_answered() {
    let given = json!({ "name": "Ada Lovelace", "check": true, "email": "ada@example.org" });
    for (answer, expected) in [
        (accept(&given), "Ada Lovelace"),
        (Answer::Decline, "declined"),
        (Answer::Cancel, "cancel"),
        // The form has a bound of 100.
        (accept(&json!({ "name": "Ada", "integer": 5000 })), "cancel"),
    ] {
        let (person, hooks) = person(answer.clone());
        let connection = open_with(everything(), worker(None), hooks).await;
        let outcome = call(&connection, "trigger-elicitation-request", json!({})).await;
        assert!(
            outcome.text.to_lowercase().contains(&expected.to_lowercase()),
            "{answer:?}: {outcome:?}"
        );
        if answer == accept(&given) {
            assert!(
                outcome.text.contains("dark and stormy"),
                "the form's defaults are filled in: {outcome:?}"
            );
        }
        let asked = person.asked.lock().unwrap().clone();
        let [question] = asked.as_slice() else {
            panic!("{asked:?}")
        };
        assert_eq!(
            (question.server.as_str(), question.message.as_str()),
            ("peer", "Please provide inputs for the following fields:")
        );
        let Ask::Form { schema } = &question.ask else {
            panic!("{question:?}")
        };
        assert_eq!(schema["properties"]["integer"]["maximum"], 100);
        connection.close().await;
    }
}

/// M13 without sessions: the answer goes with the same call sent again.
#[tokio::test(flavor = "multi_thread")]
async fn m13_a_stateless_server_asks_and_is_answered() {
    for (answer, expected) in [
        (accept(&json!({ "name": "Ada" })), "hello Ada"),
        (Answer::Decline, "nobody said"),
        (Answer::Cancel, "nobody said"),
        // The form wants a name.
        (accept(&json!({})), "nobody said"),
    ] {
        let (person, hooks) = person(answer.clone());
        let connection = open_with(stateless(), worker(None), hooks).await;
        assert_eq!(connection.era(), Era::Stateless);
        let outcome = call(&connection, "ask", json!({})).await;
        assert_eq!(outcome.text, expected, "{answer:?}");
        assert_eq!(person.asked.lock().unwrap().len(), 1);
        connection.close().await;
    }
}

/// fastmcp asks in the older era alone: without sessions it says so to the caller.
#[tokio::test(flavor = "multi_thread")]
async fn m13_fastmcp_asks_and_is_answered() {
    for (answer, expected) in [
        (accept(&json!({ "value": "Ada" })), "accept: Ada"),
        (Answer::Decline, "decline: None"),
        (Answer::Cancel, "cancel: None"),
    ] {
        let (person, hooks) = person(answer);
        let connection = open_with(both_eras(), worker(Some(Era::Legacy)), hooks).await;
        let outcome = call(&connection, "ask", json!({})).await;
        assert_eq!((outcome.text.as_str(), outcome.is_error), (expected, false));
        assert_eq!(person.asked.lock().unwrap().len(), 1);
        connection.close().await;
    }
}

/// Nobody is there: the question is cancelled at once, and the call goes on.
#[tokio::test(flavor = "multi_thread")]
async fn m13_without_anybody_to_ask_the_question_is_cancelled() {
    for (port, tool, era, expected) in [
        (everything(), "trigger-elicitation-request", None, "cancel"),
        (stateless(), "ask", None, "nobody said"),
        (both_eras(), "ask", Some(Era::Legacy), "cancel"),
    ] {
        let connection = open_with(port, worker(era), Hooks::default()).await;
        let outcome = call(&connection, tool, json!({})).await;
        assert!(outcome.text.to_lowercase().contains(expected), "{outcome:?}");
        connection.close().await;
    }
}

/// M14: the reference server asks for roots and for sampling as soon as it may; it may not.
#[tokio::test(flavor = "multi_thread")]
async fn m14_roots_and_sampling_are_not_offered() {
    let (_, hooks) = person(Answer::Cancel);
    let connection = open_with(everything(), worker(None), hooks).await;
    let tools: Vec<String> = connection
        .tools()
        .await
        .unwrap()
        .into_iter()
        .map(|tool| tool.name)
        .collect();
    for offered in ["trigger-sampling-request", "get-roots-list"] {
        assert!(
            !tools.iter().any(|tool| tool == offered),
            "{offered} stands in {tools:?}"
        );
    }
    connection.close().await;
}
