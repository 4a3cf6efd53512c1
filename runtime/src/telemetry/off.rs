//! The build without the feature `otel`: trace contexts, and no spans.

use agentd_agent::{Servers, ToolRunner, TurnOutcome};
use agentd_base::trace::TraceContext;
use agentd_config::Document;
use agentd_llm::Model;
use agentd_mcp::Outbound;

use super::About;

/// Where spans would go.
#[derive(Debug, Default)]
pub struct Traces;

impl Traces {
    /// Nothing to send.
    ///
    /// # Errors
    /// Never.
    pub fn open(_: &Document, _: &Outbound) -> Result<Self, String> {
        Ok(Self)
    }

    /// The context of a turn.
    pub fn turn(&self, about: About<'_>) -> TurnSpan {
        TurnSpan {
            traceparent: TraceContext::of_run(about.run_id, about.parent).to_string(),
        }
    }
}

/// The context of a turn.
#[derive(Debug)]
pub struct TurnSpan {
    traceparent: String,
}

impl TurnSpan {
    /// W3C trace context: the same whatever the attempt.
    pub fn traceparent(&self) -> String {
        self.traceparent.clone()
    }

    /// The model as it is.
    pub fn model<M: Model>(&self, model: M) -> impl Model + use<M> {
        model
    }

    /// The tools as they are.
    pub fn tools<T: ToolRunner>(&self, tools: T) -> impl ToolRunner + use<T> {
        tools
    }

    /// The servers as they are.
    pub fn servers<S: Servers>(&self, servers: S) -> impl Servers + use<S> {
        servers
    }

    /// Nothing to end.
    pub async fn end(self, _: &TurnOutcome) {}
}
