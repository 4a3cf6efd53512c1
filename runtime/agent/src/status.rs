//! How a turn can end, and what that is to whoever started the process.

use agentd_base::class::exit;
use serde::{Deserialize, Serialize};

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The model had nothing more to call.
    Completed,
    /// A fault; the reason says which.
    Failed,
    /// No model answered, or it refused our credential.
    ModelUnavailable,
    /// Asked to stop.
    Cancelled,
    /// The model refused.
    Refused,
    /// `limits.run.steps`.
    ExhaustedSteps,
    /// `limits.run.tokens`.
    ExhaustedTokens,
    /// `limits.run.deadline`.
    Deadline,
    /// The model did the same over and over and got nowhere.
    LoopDetected,
    /// It waits for a person, and was given up until there is an answer.
    Waiting,
}

impl Status {
    /// The exit code of a process that did nothing else (contract/runtime.md section 3).
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Completed => exit::DONE,
            Self::Failed | Self::Cancelled | Self::Waiting => exit::FAILURE,
            Self::ModelUnavailable => exit::MODEL,
            Self::Refused => exit::REFUSED,
            Self::LoopDetected => exit::PARTIAL,
            Self::ExhaustedSteps | Self::ExhaustedTokens | Self::Deadline => exit::BUDGET,
        }
    }

    /// For logs and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::ModelUnavailable => "model_unavailable",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
            Self::ExhaustedSteps => "exhausted_steps",
            Self::ExhaustedTokens => "exhausted_tokens",
            Self::Deadline => "deadline",
            Self::LoopDetected => "loop_detected",
            Self::Waiting => "waiting",
        }
    }
}
