//! The metrics of one process: one registry, passed along. No label holds anything a caller, a model or a server wrote;
//! server names come from the document.

use agentd_agent::Status;
use agentd_base::report::ServerState;
use agentd_config::Document;
use agentd_mcp::ServersView;
use prometheus::{
    Encoder as _, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

use crate::worker::frame::{Action, ModelCalled, ToolCalled};

/// In the place of a server's name: a tool of ours.
const OURS: &str = "";
/// In the place of a server's name that the document does not have.
const ELSEWHERE: &str = "?";

/// What is counted. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    ready: IntGauge,
    generation: IntGauge,
    turns: IntCounterVec,
    crashes: IntCounter,
    tool_calls: IntCounterVec,
    model_calls: IntCounter,
    model_errors: IntCounterVec,
    tokens: IntCounterVec,
    reloads: IntCounterVec,
    servers_up: IntGaugeVec,
    workers_idle: IntGauge,
    requests: IntCounterVec,
}

impl Metrics {
    /// A registry of its own.
    ///
    /// # Errors
    /// Never with the names below; a test holds that.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<_, prometheus::Error>(metric)
        };
        let gauge = |name: &str, help: &str| {
            let metric = IntGauge::new(name, help)?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<_, prometheus::Error>(metric)
        };
        let plain = |name: &str, help: &str| {
            let metric = IntCounter::new(name, help)?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<_, prometheus::Error>(metric)
        };
        let servers_up = IntGaugeVec::new(
            Opts::new("agent_mcp_up", "1 while the MCP server is connected"),
            &["server"],
        )?;
        registry.register(Box::new(servers_up.clone()))?;
        gauge("agent_up", "1 while the process runs")?.set(1);
        Ok(Self {
            ready: gauge("agent_ready", "1 while /readyz says so")?,
            generation: gauge(
                "agent_config_generation",
                "Accepted configurations since the start",
            )?,
            turns: counter("agent_turns_total", "Turns that ended", &["status"])?,
            crashes: plain(
                "agent_worker_crashes_total",
                "Workers that ended in the middle of a turn",
            )?,
            tool_calls: counter(
                "agent_tool_calls_total",
                "Tool calls of the model; without a server those of our own tools",
                &["server", "outcome"],
            )?,
            model_calls: plain("agent_intel_calls_total", "Model calls")?,
            model_errors: counter("agent_intel_errors_total", "Model calls that failed", &["reason"])?,
            tokens: counter("agent_tokens_total", "Tokens", &["type"])?,
            reloads: counter(
                "agent_config_reload_total",
                "Changes of the live folder",
                &["result"],
            )?,
            workers_idle: gauge(
                "agent_workers_idle",
                "Warm workers that wait for their conversation",
            )?,
            requests: counter(
                "agent_bridge_requests_total",
                "Requests at the bridge",
                &["outcome"],
            )?,
            servers_up,
            registry,
        })
    }

    /// A turn has ended.
    pub fn turn(&self, status: Status) {
        self.turns.with_label_values(&[status.label()]).inc();
    }

    /// A worker ended in the middle of a turn.
    pub fn crash(&self) {
        self.crashes.inc();
        self.turn(Status::Failed);
    }

    /// A call has ended. Those of the model are counted; a server that is not in the document is named by no series.
    pub fn tool(&self, call: &ToolCalled, document: &Document) {
        if call.action != Action::Tool {
            return;
        }
        let server = call.server.as_deref().unwrap_or(OURS);
        let is_declared = |name: &str| document.mcp.servers.iter().any(|one| one.name == name);
        let server = if call.server.is_none() || is_declared(server) {
            server
        } else {
            ELSEWHERE
        };
        self.tool_calls
            .with_label_values(&[server, call.outcome.label()])
            .inc();
    }

    /// A model call has ended.
    pub fn model(&self, call: &ModelCalled) {
        self.model_calls.inc();
        self.tokens
            .with_label_values(&["input"])
            .inc_by(call.input_tokens);
        self.tokens
            .with_label_values(&["output"])
            .inc_by(call.output_tokens);
        if let Some(class) = &call.error {
            self.model_errors.with_label_values(&[class]).inc();
        }
    }

    /// A live folder was taken or refused.
    pub fn reload(&self, accepted: bool, generation: u64) {
        self.reloads
            .with_label_values(&[if accepted { "applied" } else { "rejected" }])
            .inc();
        self.generation.set(i64::try_from(generation).unwrap_or(i64::MAX));
    }

    /// A request at the bridge was answered.
    pub fn bridge_request(&self, outcome: &str) {
        self.requests.with_label_values(&[outcome]).inc();
    }

    /// Warm workers.
    pub fn idle_workers(&self, count: usize) {
        self.workers_idle.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// The servers as they are now; one that is gone from the document leaves no series.
    pub fn servers(&self, view: &ServersView) {
        self.servers_up.reset();
        for server in &view.servers {
            let up = i64::from(server.state == ServerState::Connected);
            self.servers_up.with_label_values(&[&server.server.name]).set(up);
        }
    }

    /// The text format.
    pub fn render(&self, ready: bool) -> Vec<u8> {
        self.ready.set(i64::from(ready));
        let mut text = Vec::new();
        // Writing into memory does not fail.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_accepted_and_counted() {
        let metrics = Metrics::new().unwrap();
        metrics.turn(Status::Completed);
        metrics.crash();
        metrics.reload(false, 3);
        let text = String::from_utf8(metrics.render(true)).unwrap();
        for line in [
            "agent_up 1",
            "agent_ready 1",
            "agent_config_generation 3",
            r#"agent_turns_total{status="completed"} 1"#,
            r#"agent_turns_total{status="failed"} 1"#,
            r#"agent_config_reload_total{result="rejected"} 1"#,
        ] {
            assert!(text.lines().any(|l| l == line), "{line} not in\n{text}");
        }
    }
}
