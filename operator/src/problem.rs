//! Why an object is not acted on, or not wholly: what a person must change, as reason and message of a condition.

use std::fmt;

/// Reasons that validation gives (api.md, Conditions).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Accepted: a field is wrong.
    InvalidSpec,
    /// Accepted: a field is not built yet.
    NotSupportedYet,
    /// Accepted: untrusted input, sensitive data and a way out in one agent, and the spec does not allow it.
    LethalTrifecta,
    /// Accepted: the rendered document is too large.
    ConfigTooLarge,
    /// ResolvedRefs: an object or a key of it is not there.
    RefNotFound,
    /// ResolvedRefs: an object is there and may not be used.
    RefNotPermitted,
    /// A note: a principal names what is not there, and is left out.
    PrincipalNotFound,
    /// A note: an McpServer is not acted on as it stands; what was made of it before goes on, or it is left out.
    ServerNotAccepted,
    /// A note, and an Event: a model is spoken to in plain http, as the spec allows.
    PlaintextModel,
}

impl Reason {
    /// The CamelCase text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidSpec => "InvalidSpec",
            Self::NotSupportedYet => "NotSupportedYet",
            Self::LethalTrifecta => "LethalTrifecta",
            Self::ConfigTooLarge => "ConfigTooLarge",
            Self::RefNotFound => "RefNotFound",
            Self::RefNotPermitted => "RefNotPermitted",
            Self::PrincipalNotFound => "PrincipalNotFound",
            Self::ServerNotAccepted => "ServerNotAccepted",
            Self::PlaintextModel => "PlaintextModel",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that a person must change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The condition's reason.
    pub reason: Reason,
    /// Names the field or object and the remedy. Not cut yet: whoever writes a condition does that.
    pub message: String,
}

impl Problem {
    /// A problem.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// A wrong field.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Reason::InvalidSpec, message)
    }

    /// A field that is not built yet.
    pub fn unsupported(path: impl fmt::Display) -> Self {
        Self::new(
            Reason::NotSupportedYet,
            format!("spec.{path} is not supported yet; remove it"),
        )
    }
}

/// The messages of all, in order, as one text.
pub fn joined(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect::<Vec<_>>()
        .join(". ")
}
