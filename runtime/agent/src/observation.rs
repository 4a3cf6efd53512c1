//! What came of a call of a tool: words for the model, and for some of our own tools what the turn does once all calls
//! of the round have ended.

use serde::{Deserialize, Serialize};

use crate::status::Status;

/// What came of a call, in the model's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// For the model; an error begins with `ERROR: `.
    pub text: String,
    /// It failed.
    pub is_error: bool,
    /// What the turn does after the round. Not part of the conversation: never stored.
    #[serde(skip)]
    pub effect: Option<Effect>,
}

/// What a tool tells the turn that called it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// `finish`: the turn ends. With several in a round the first counts.
    Finish {
        /// Completed, failed, refused or cancelled.
        status: Status,
        /// The answer, in place of what the model said in this round; none leaves that.
        text: Option<String>,
        /// One line for people.
        reason: Option<String>,
    },
    /// `context.compact`: what was said before is summarised now.
    Compact {
        /// Messages that stay as they are; none for the configured number.
        keep_last: Option<u32>,
    },
    /// The call let time pass on purpose: a round with it is a poll, however often it is the same.
    Waited,
}

impl Observation {
    /// A result.
    pub fn result(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: false,
            effect: None,
        }
    }

    /// A failure; the prefix is added where it is not there.
    pub fn error(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        let prefix = if text.starts_with("ERROR: ") {
            ""
        } else {
            "ERROR: "
        };
        Self {
            text: format!("{prefix}{text}"),
            is_error: true,
            effect: None,
        }
    }

    /// The same, and the turn does something after the round.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = Some(effect);
        self
    }
}
