//! What commands are answered with. Pure: no secret, and to nobody but an operator what others do.

use agentd_mcp::ServersView;
use agentd_state::Task;
use serde_json::{Value, json};

use crate::supervisor::record::{answer_of, text_of};
use crate::supervisor::settings::Settings;

/// Of a message and of its answer, so that a page of them fits into one answer; the task has the whole.
const SAID_CHARS: usize = 2000;

/// How the agent is.
pub(super) struct Now<'a> {
    pub(super) instance: &'a str,
    pub(super) settings: &'a Settings,
    pub(super) is_draining: bool,
    /// That run.
    pub(super) turns: usize,
    /// Messages that no turn works on yet.
    pub(super) pending: usize,
    /// Conversations that wait for a turn.
    pub(super) queued: usize,
    pub(super) subagents: usize,
    /// Tokens.
    pub(super) budget: Option<u64>,
    pub(super) servers: &'a ServersView,
}

impl Now<'_> {
    pub(super) fn told(&self, to_operator: bool) -> Value {
        let document = &self.settings.document;
        let limits = &document.limits.run;
        let mut told = json!({
            "instance": self.instance,
            "version": env!("CARGO_PKG_VERSION"),
            "state": if self.is_draining { "draining" } else { "running" },
            "generation": self.settings.generation,
            "model": document.intelligence.model,
            "limits": {
                "steps": limits.steps(),
                "tokens": limits.tokens(),
                "deadline": agentd_base::duration::Duration(limits.deadline()).to_string(),
            },
        });
        if let (true, Some(told)) = (to_operator, told.as_object_mut()) {
            let servers = self.servers.servers.iter().map(|server| {
                json!({ "name": server.server.name, "state": server.state, "tools": server.tools.len() })
            });
            told.extend([
                (
                    "turns".to_owned(),
                    json!({ "running": self.turns, "queued": self.queued, "pending": self.pending }),
                ),
                ("subagents".to_owned(), json!(self.subagents)),
                ("servers".to_owned(), servers.collect()),
                ("budgetTokensRemaining".to_owned(), json!(self.budget)),
            ]);
        }
        told
    }
}

/// The configuration that is in force. Credentials in it are references: a document with a literal one is not accepted.
pub(super) fn config(settings: &Settings) -> Value {
    json!({
        "generation": settings.generation,
        "digest": settings.digest,
        "document": settings.document,
    })
}

/// A run, without what was said in it.
pub(super) fn run(task: &Task) -> Value {
    json!({
        "run": task.id,
        "contextId": task.context_id,
        "owner": task.owner,
        "state": task.state.name(),
        "statusMessage": task.status_message,
        "createdAt": task.created_at,
        "updatedAt": task.updated_at,
        "hops": task.hops,
    })
}

/// A message of a conversation and its answer.
pub(super) fn said(task: &Task) -> Value {
    let mut told = run(task);
    if let Some(told) = told.as_object_mut() {
        told.remove("contextId");
        told.remove("owner");
        told.insert("message".to_owned(), cut(&text_of(task)).into());
        told.insert("answer".to_owned(), answer_of(task).as_deref().map(cut).into());
    }
    told
}

/// At most [`SAID_CHARS`].
fn cut(text: &str) -> String {
    let mut cut: String = text.chars().take(SAID_CHARS).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_cut_between_characters() {
        assert_eq!(cut("ä"), "ä");
        let long = cut(&"ä".repeat(SAID_CHARS + 1));
        assert_eq!(long.chars().count(), SAID_CHARS + 1);
        assert!(long.ends_with("ä…"));
    }
}
