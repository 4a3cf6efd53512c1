//! `ask_human`: through whoever can put a question to a person, as servers' questions go.

use std::sync::Arc;

use agentd_agent::Reply;
use agentd_agent::request::AskHuman;
use agentd_mcp::{Answer, Ask, Question};
use serde_json::json;

use super::Caller;
use crate::supervisor::asking::{Asked, Human, Later};
use crate::supervisor::question;

/// Asks, and waits; dropped with the turn.
pub(super) async fn ask(human: Option<&Arc<dyn Human>>, caller: &Caller, asked: AskHuman) -> Reply {
    let refused = |why: &str| {
        tracing::info!(event = "human.ask.failed", run.id = caller.run_id, "{why}");
        Reply::Refused(why.to_owned())
    };
    let Some(human) = human else {
        return refused("nobody can be asked here; decide without, or say what you would need to know");
    };
    let form = asked
        .schema
        .map_or_else(question::words, |schema| Ask::Form { schema });
    if !form.is_answerable() {
        return refused("a person can only be asked a flat object of texts, numbers, booleans and choices");
    }
    tracing::info!(event = "human.ask", run.id = caller.run_id);
    let message = match asked.recommend {
        None => asked.question,
        Some(recommend) => format!("{}\n\nThe agent recommends: {recommend}", asked.question),
    };
    let message = match asked.to {
        None => message,
        Some(to) => format!("To {to}: {message}"),
    };
    let question = Question {
        server: String::new(),
        message,
        ask: form.clone(),
    };
    let later = Later::default();
    let asking = human.ask(Asked {
        run_id: caller.run_id.clone(),
        root: caller.root.clone(),
        timeout: asked.timeout.map(|timeout| timeout.0),
        so_far: asked.so_far,
        later: later.clone(),
        conversation: caller.conversation.clone(),
        question,
    });
    let timeout = async {
        match asked.timeout {
            None => std::future::pending().await,
            Some(timeout) => tokio::time::sleep(timeout.0).await,
        }
    };
    let answer = tokio::select! {
        biased;
        () = later.given_up() => return Reply::Later,
        answer = asking => answer,
        () = timeout => return if later.go_on() { told(&form, None) } else { Reply::Later },
    };
    let reply = told(&form, Some(answer));
    if let Reply::Refused(why) = &reply {
        tracing::info!(event = "human.ask.failed", run.id = caller.run_id, "{why}");
    }
    reply
}

/// What the model is told of an answer; none when its time was over.
pub fn told(form: &Ask, answer: Option<Answer>) -> Reply {
    let is_words = *form == question::words();
    match answer {
        None => Reply::Done(json!({"timed_out": true})),
        Some(Answer::Accept(given)) => match form.shape(given) {
            Some(reply) if is_words => {
                Reply::Done(json!({"reply": question::said(reply), "timed_out": false}))
            }
            Some(reply) => Reply::Done(json!({"reply": reply, "timed_out": false})),
            None => Reply::Refused("the answer does not fit the question".to_owned()),
        },
        Some(Answer::Decline) => Reply::Done(json!({"declined": true, "timed_out": false})),
        Some(Answer::Cancel) => Reply::Refused("nobody answered".to_owned()),
    }
}
