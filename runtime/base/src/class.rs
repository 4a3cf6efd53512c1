//! Error classes: who must act. Exit code, retry policy, metric label and condition reason follow from the class.

/// Who must act on an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The input is wrong: its author must change it. Never retried.
    Invalid,
    /// Something is away for now. Retried with back-off.
    Unavailable,
    /// A credential or permission is missing. Retried only when it may have changed.
    Denied,
    /// Two writers met. Retried at once, never shown to a user.
    Conflict,
    /// A bug of ours.
    Internal,
}

impl Class {
    /// A label for metrics and the span field `error.class`.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Unavailable => "unavailable",
            Self::Denied => "denied",
            Self::Conflict => "conflict",
            Self::Internal => "internal",
        }
    }
}

/// An error that knows its class.
pub trait Classified {
    /// Who must act.
    fn class(&self) -> Class;
}

/// The exit codes of `agentd`: a frozen API (contract/runtime.md section 3).
pub mod exit {
    /// Done, or a clean drain.
    pub const DONE: u8 = 0;
    /// Generic failure.
    pub const FAILURE: u8 = 1;
    /// Configuration or usage.
    pub const CONFIG: u8 = 2;
    /// Partial, stalled, loop detected.
    pub const PARTIAL: u8 = 3;
    /// The model is unreachable or refused the credential.
    pub const MODEL: u8 = 4;
    /// The task was refused.
    pub const REFUSED: u8 = 5;
    /// A required MCP server or the store is down.
    pub const DEPENDENCY: u8 = 6;
    /// Budget: steps, tokens, deadline.
    pub const BUDGET: u8 = 7;
    /// The supervisor killed what would not end.
    pub const HARD_KILL: u8 = 124;
}
