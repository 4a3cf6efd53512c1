//! Whose a turn is, in the log: the agent, its place among those of this process, and the turn's place in its trace
//! (contract/runtime.md section 14). Supervisor and worker know the same. Pure.

use agentd_base::trace::TraceContext;
use serde::{Deserialize, Serialize};
use tracing::Span;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The agent's name, or the handle of a subagent.
    pub agent_id: String,
    /// From the agent to it, with `/` between.
    pub agent_path: String,
    /// What the turn is part of: a call of another agent, or the turn that began it; none where it is a trace of its own.
    pub parent: Option<TraceContext>,
}

impl Origin {
    /// The agent itself.
    pub fn agent(name: &str, parent: Option<TraceContext>) -> Self {
        Self {
            agent_id: name.to_owned(),
            agent_path: name.to_owned(),
            parent,
        }
    }

    /// What its lines are written in.
    pub fn span(&self, run_id: &str) -> Span {
        let trace = TraceContext::of_run(run_id, self.parent);
        // Of this level, so that a line of each level has it.
        tracing::error_span!(
            parent: None,
            "turn",
            run.id = run_id,
            agent_id = self.agent_id,
            agent_path = self.agent_path,
            trace_id = trace.trace_id(),
            span_id = trace.span_id(),
            parent_span_id = self.parent.map(TraceContext::span_id),
        )
    }
}
