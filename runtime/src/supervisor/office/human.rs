//! `ask_human`: through whoever can put a question to a person, as servers' questions go.

use std::sync::Arc;

use agentd_agent::Reply;
use agentd_agent::request::AskHuman;
use agentd_mcp::{Answer, Ask, Question};
use serde_json::json;

use super::Caller;
use crate::supervisor::asking::{Asked, Human};
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
    let words = asked.schema.is_none();
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
    let asking = human.ask(Asked {
        run_id: caller.run_id.clone(),
        root: caller.root.clone(),
        conversation: caller.conversation.clone(),
        question,
    });
    let answer = match asked.timeout {
        None => asking.await,
        Some(timeout) => match tokio::time::timeout(timeout.0, asking).await {
            Ok(answer) => answer,
            Err(_) => return Reply::Done(json!({"timed_out": true})),
        },
    };
    match answer {
        Answer::Accept(given) => match form.shape(given) {
            Some(reply) if words => Reply::Done(json!({"reply": question::said(reply), "timed_out": false})),
            Some(reply) => Reply::Done(json!({"reply": reply, "timed_out": false})),
            None => refused("the answer does not fit the question"),
        },
        Answer::Decline => Reply::Done(json!({"declined": true, "timed_out": false})),
        Answer::Cancel => refused("nobody answered"),
    }
}
