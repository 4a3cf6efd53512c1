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
    /// The run, which is the trace.
    pub run_id: &'a str,
    /// The agent's name.
    pub agent: &'a str,
    /// The family of the model's wire, in the words of the conventions.
    pub provider: &'static str,
    /// The model's name.
    pub model: &'a str,
}

/// The 32 hexadecimal digits of a run's trace: the run's own id where it is one of ours.
fn trace_id(run_id: &str) -> String {
    let hex: String = run_id
        .chars()
        .filter(char::is_ascii_hexdigit)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    if hex.len() == 32 && hex.bytes().any(|digit| digit != b'0') {
        return hex;
    }
    let digest = agentd_base::digest::hex(run_id.as_bytes());
    digest.chars().take(32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_a_trace() {
        assert_eq!(
            trace_id("01a2344a-11c7-7638-8534-036a30d188e8"),
            "01a2344a11c776388534036a30d188e8"
        );
        for other in ["x", "", "00000000-0000-0000-0000-000000000000"] {
            let id = trace_id(other);
            assert!(
                id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()),
                "{other}"
            );
            assert_ne!(id, "0".repeat(32), "{other}");
        }
    }
}
