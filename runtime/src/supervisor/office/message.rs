//! `message.send`: a message into another conversation of the same principal. It is a task like any other, so it is in
//! the store before its sender goes on. How many messages led to one another is kept with its task, and bounded.

use std::sync::Arc;

use agentd_agent::Reply;
use agentd_agent::request::{MessageSend, SaidPart};
use agentd_state::{TaskState, conversation_key};
use serde_json::json;

use super::Caller;
use crate::supervisor::tasks::Tasks;

/// Messages that may lead to one another: agents that answer each other for ever end here.
const DEPTH: u32 = 8;
/// The conversation that `root` means.
const ROOT: &str = "root";

/// Sends it; with `wait` the reply has the answer.
pub(super) async fn send(tasks: Option<Arc<Tasks>>, caller: &Caller, id: String, send: MessageSend) -> Reply {
    let Some(tasks) = tasks else {
        return Reply::Refused("there are no other conversations here".to_owned());
    };
    let said = match said(send.text, send.parts) {
        Ok(said) => said,
        Err(why) => return Reply::Refused(why),
    };
    let depth = caller.hops.saturating_add(1);
    if depth > DEPTH {
        return Reply::Refused(format!("{DEPTH} messages led to one another, and no more may"));
    }
    let context = match send.to.as_str() {
        "new" => None,
        ROOT => Some(ROOT.to_owned()),
        other => Some(other.to_owned()),
    };
    let is_own = context
        .as_ref()
        .is_some_and(|context| conversation_key(&caller.owner, context) == caller.root);
    if is_own && send.wait {
        return Reply::Refused("this conversation would wait for itself; send without wait".to_owned());
    }
    let waits = match send.wait.then(|| tasks.begin_to_wait()) {
        Some(None) => {
            return Reply::Refused(
                "too many turns wait for one another already; send without wait and ask later".to_owned(),
            );
        }
        waits => waits,
    };
    let delivered = tasks.deliver(&caller.owner, context, id, said, depth, caller.trace());
    let task = match delivered.await {
        Ok(task) => task,
        Err(error) => return Reply::Refused(error.to_string()),
    };
    tracing::info!(event = "message.delivered", run.id = caller.run_id, task, depth);
    let told = tasks.told(&task, send.wait).await;
    drop(waits);
    match told {
        Ok(Some((task, answer))) => {
            let mut told = json!({
                "task": task.id, "context": task.context_id, "state": task.state,
            });
            if let (true, Some(told), Some(answer)) = (task.state.is_terminal(), told.as_object_mut(), answer)
            {
                told.insert("answer".to_owned(), answer.into());
            }
            Reply::Done(told)
        }
        Ok(None) => Reply::Done(json!({"task": task, "context": "", "state": TaskState::Submitted})),
        Err(error) => Reply::Refused(error.to_string()),
    }
}

/// What a message says, as one text: parts are read as those of a caller are.
fn said(text: Option<String>, parts: Vec<SaidPart>) -> Result<String, String> {
    let said = match (text, parts.as_slice()) {
        (Some(text), []) => text,
        (None, [_, ..]) => {
            let parts = parts.into_iter().map(|part| match part {
                SaidPart::Text(text) => text,
                SaidPart::Data(data) => data.to_string(),
            });
            parts.collect::<Vec<_>>().join("\n\n")
        }
        (Some(_), _) => return Err("give text or parts, not both".to_owned()),
        (None, []) => return Err("say something with text or parts".to_owned()),
    };
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m2_a_message_is_a_text_or_parts() {
        let parts = || vec![SaidPart::Text("a".into()), SaidPart::Data(json!({"b": 1}))];
        assert_eq!(said(Some("x".into()), vec![]), Ok("x".into()));
        assert_eq!(said(None, parts()), Ok("a\n\n{\"b\":1}".into()));
        assert!(said(None, vec![]).is_err() && said(Some("x".into()), parts()).is_err());
    }
}
