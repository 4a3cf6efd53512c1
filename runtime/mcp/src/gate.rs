//! The gate between a server's questions and whoever asks people: its clock, its bounds, and the check of what comes
//! back. What is not asked, not answered in time or does not fit ends as `cancel`.

use std::time::Duration;

use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::text::clip;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::elicit::{Answer, Ask, Hooks, Question};
use crate::form;
use crate::reading::plain;

/// A person has this long (contract/mcp.md 1.3).
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
/// Questions at the same time on one connection: more than a person can read.
const QUESTIONS: usize = 4;
/// A question as a person sees it.
const QUESTION_CHARS: usize = 4 * 1024;
/// A URL that is longer is not shown to anybody.
const URL_CHARS: usize = 2 * 1024;

/// Of one connection.
pub(crate) struct Gate {
    server: String,
    hooks: Hooks,
    /// Whether URLs were declared.
    urls: bool,
    asking: watch::Sender<usize>,
}

impl Gate {
    pub(crate) fn new(server: &str, hooks: Hooks, urls: bool) -> Self {
        Self {
            server: server.to_owned(),
            hooks,
            urls,
            asking: watch::Sender::default(),
        }
    }

    /// How many questions wait for a person.
    pub(crate) fn asking(&self) -> watch::Receiver<usize> {
        self.asking.subscribe()
    }

    /// Puts a server's question, and gives what goes back to it.
    pub(crate) async fn answer(&self, asked: ElicitRequestParams) -> ElicitResult {
        match self.put(asked).await {
            Ok((action, content)) => match content {
                Some(content) => ElicitResult::new(action).with_content(Value::Object(content)),
                None => ElicitResult::new(action),
            },
            Err(why) => {
                self.refuse(why);
                ElicitResult::new(ElicitationAction::Cancel)
            }
        }
    }

    /// Says that a question came to nothing.
    pub(crate) fn refuse(&self, why: &str) {
        tracing::info!(event = "human.ask.failed", mcp.server = %self.server, "{why}");
    }

    async fn put(
        &self,
        asked: ElicitRequestParams,
    ) -> Result<(ElicitationAction, Option<Map<String, Value>>), &'static str> {
        let elicitor = self.hooks.elicitor.as_ref();
        let elicitor = elicitor.ok_or("a server asked; nobody can be asked")?;
        let (message, ask) = self.readable(asked)?;
        let question = Question {
            server: self.server.clone(),
            message: plain(&message, QUESTION_CHARS),
            ask: ask.clone(),
        };
        let _counted = self.count().ok_or("a server asks too much at once")?;
        let answer = tokio::time::timeout(PATIENCE, elicitor.ask(question)).await;
        match (answer.map_err(|_| "nobody answered in time")?, ask) {
            (Answer::Accept(given), Ask::Form { schema }) => {
                let fitting = form::shape(&schema, given).ok_or("the answer does not fit the question")?;
                Ok((ElicitationAction::Accept, Some(fitting)))
            }
            (Answer::Accept(_), Ask::Url { .. }) => Ok((ElicitationAction::Accept, None)),
            (Answer::Decline, _) => Ok((ElicitationAction::Decline, None)),
            (Answer::Cancel, _) => Ok((ElicitationAction::Cancel, None)),
        }
    }

    fn readable(&self, asked: ElicitRequestParams) -> Result<(String, Ask), &'static str> {
        match asked {
            ElicitRequestParams::FormElicitationParams {
                message,
                requested_schema,
                ..
            } => {
                let schema = serde_json::to_value(requested_schema)
                    .ok()
                    .filter(form::is_answerable)
                    .ok_or("a server asked for something that is no form")?;
                Ok((message, Ask::Form { schema }))
            }
            ElicitRequestParams::UrlElicitationParams {
                message,
                url,
                elicitation_id: id,
                ..
            } if self.urls
                && !url.is_empty()
                && url.len() <= URL_CHARS
                && !url.chars().any(char::is_control) =>
            {
                Ok((
                    message,
                    Ask::Url {
                        url,
                        id: clip(&id, FOREIGN_CHARS),
                    },
                ))
            }
            _ => Err("a server asked in a way that was not declared"),
        }
    }

    /// One more question, if there is room for it.
    fn count(&self) -> Option<Counted<'_>> {
        let room = self.asking.send_if_modified(|asking| {
            let room = *asking < QUESTIONS;
            if room {
                *asking += 1;
            }
            room
        });
        // Made only where there is room: one that is made and thrown away gives a place back that nobody took.
        room.then(|| Counted(&self.asking))
    }
}

/// A question that waits.
struct Counted<'a>(&'a watch::Sender<usize>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|asking| *asking = asking.saturating_sub(1));
    }
}
