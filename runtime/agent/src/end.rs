//! Why a turn is over.

use std::time::Duration;

use agentd_base::class::{Class, Classified as _};
use agentd_llm::{ModelError, Stop};

use crate::status::Status;

/// Why a turn is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) status: Status,
    /// One line for people; none when there is nothing to say.
    pub(crate) reason: Option<String>,
    /// The same for a log: without words of the model's or of its endpoint, which are content.
    pub(crate) loggable: Option<String>,
}

impl End {
    pub(crate) fn because(status: Status, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self {
            status,
            loggable: Some(reason.clone()),
            reason: Some(reason),
        }
    }

    /// With words of the model's in it.
    pub(crate) fn quoting(status: Status, reason: Option<String>) -> Self {
        Self {
            status,
            reason,
            loggable: None,
        }
    }

    pub(crate) fn cancelled() -> Self {
        Self::because(Status::Cancelled, "the turn was cancelled")
    }

    pub(crate) fn late(deadline: Duration) -> Self {
        let deadline = agentd_base::duration::Duration(deadline);
        Self::because(
            Status::Deadline,
            format!("limits.run.deadline ({deadline}) is over"),
        )
    }

    pub(crate) fn out_of_steps(steps: u32) -> Self {
        Self::because(
            Status::ExhaustedSteps,
            format!("limits.run.steps ({steps}) is used up"),
        )
    }

    /// The model has nothing more to call.
    pub(crate) fn stopped(stop: Stop) -> Self {
        match stop {
            Stop::End | Stop::Other => Self {
                status: Status::Completed,
                reason: None,
                loggable: None,
            },
            Stop::Length => Self::because(Status::Completed, "the model's length limit cut the answer"),
            Stop::Refused => Self::because(Status::Refused, "the model refused"),
        }
    }

    /// No model answered.
    pub(crate) fn failed(error: &ModelError) -> Self {
        if let ModelError::Budget { refused, .. } = error {
            let status = if *refused {
                Status::Refused
            } else {
                Status::ExhaustedTokens
            };
            return Self::because(status, error.to_string());
        }
        let status = match error.class() {
            Class::Denied | Class::Unavailable => Status::ModelUnavailable,
            Class::Invalid | Class::Conflict | Class::Internal => Status::Failed,
        };
        Self {
            status,
            reason: Some(error.to_string()),
            loggable: Some(error.plain()),
        }
    }
}
