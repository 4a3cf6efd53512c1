//! Traces of turns by OTLP, with the names of the GenAI and MCP semantic conventions: `invoke_agent` around a turn, in it
//! `chat` for each request to the model, `execute_tool` for each call, in that `tools/call` towards the server. Built
//! with the feature `otel`; without it a turn has its trace context all the same, and nothing is sent.
//! It never carries what was said: no prompt, no argument, no result.

#[cfg(feature = "otel")]
mod export;
#[cfg(not(feature = "otel"))]
mod off;
#[cfg(feature = "otel")]
mod spans;
#[cfg(feature = "otel")]
mod traced;

#[cfg(not(feature = "otel"))]
pub use off::{Traces, TurnSpan};
#[cfg(feature = "otel")]
pub use spans::{Traces, TurnSpan};

use agentd_base::trace::TraceContext;
use agentd_config::{Document, Fault};

/// What a document asks for and this build does not have.
pub fn unsupported(document: &Document) -> Option<Fault> {
    let asked = document.observability.otel.is_some();
    (asked && !cfg!(feature = "otel")).then(|| {
        Fault::new(
            "observability.otel",
            "is not in this build of agentd",
            "take it out, or build with --features otel",
        )
    })
}

/// What a turn's span says of it.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// The run.
    pub run_id: &'a str,
    /// What it is part of.
    pub parent: Option<TraceContext>,
    /// The agent's name.
    pub agent: &'a str,
    /// The family of the model's wire, in the words of the conventions.
    pub provider: &'static str,
    /// The model's name.
    pub model: &'a str,
}
