//! The metrics of one process: one registry, passed along. No label holds anything a caller, a model or a server wrote;
//! server names come from the document. METRICS.md has them all.

mod levels;
pub mod machine;
mod shelf;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentd_agent::{Holder, Status};
use agentd_base::class::Class;
use agentd_base::report::ServerState;
use agentd_config::Document;
use agentd_mcp::ServersView;
use prometheus::{
    Counter, Encoder as _, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder,
};
use tokio::time::Instant;

use self::levels::Gauges;
pub use self::levels::Levels;
use self::shelf::Shelf;
use crate::worker::frame::{Action, ModelCalled, ToolCalled};

/// In the place of a server's name: a tool of ours.
const OURS: &str = "";
/// In the place of a server's name that the document does not have.
const ELSEWHERE: &str = "?";

/// What a process is, which decides what there is to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// The supervisor of an agent.
    Agent,
    /// The bridge before a server.
    Bridge,
}

/// How an agent ends its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No new work is taken.
    Start,
    /// All work is done or stored.
    Done,
    /// Some was left.
    Abandon,
}

/// What came of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The receiver has it.
    Told,
    /// It is tried again.
    Failed,
    /// It is not.
    GivenUp,
}

/// What is counted. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    ready: IntGauge,
    generation: IntGauge,
    reloads: IntCounterVec,
    requests: IntCounterVec,
    runs: Runs,
    tool_calls: IntCounterVec,
    tool_millis: Histogram,
    models: Models,
    steps: IntCounter,
    servers_up: IntGaugeVec,
    connect_failures: IntCounterVec,
    /// How many failures of each server are counted already.
    counted: Arc<Mutex<HashMap<String, u64>>>,
    workers: Workers,
    spawned: IntCounter,
    exited: IntCounter,
    store_ops: IntCounterVec,
    store_millis: Counter,
    drains: IntCounterVec,
    pushes: IntCounterVec,
    levels: Gauges,
}

/// Of turns.
#[derive(Debug, Clone)]
struct Runs {
    started: IntCounter,
    ended: IntCounterVec,
    completed: IntCounter,
    failed: IntCounter,
    killed: IntCounter,
    active: IntGauge,
    turns: IntCounterVec,
    millis: Histogram,
    limited: IntCounter,
    refused: IntCounter,
}

/// Of model calls.
#[derive(Debug, Clone)]
struct Models {
    calls: IntCounter,
    errors: IntCounterVec,
    tokens: IntCounterVec,
    input: IntCounter,
    output: IntCounter,
    millis: Histogram,
    context: IntGauge,
    up: IntGauge,
    all_down: IntGauge,
}

/// Of worker processes.
#[derive(Debug, Clone)]
struct Workers {
    idle: IntGauge,
    crashes: IntCounter,
    restarts: IntCounter,
    stuck: IntCounter,
}

impl Metrics {
    /// A registry of its own.
    ///
    /// # Errors
    /// Never with the names that are there; a test holds that.
    pub fn new(process: Process) -> prometheus::Result<Self> {
        let registry = Registry::new();
        let all = Shelf::new(&registry, true);
        let agent = Shelf::new(&registry, process == Process::Agent);
        let bridge = Shelf::new(&registry, process == Process::Bridge);
        all.gauge("up")?.set(1);
        let models = Models {
            calls: agent.counter("intel_calls_total")?,
            errors: agent.counters("intel_errors_total")?,
            tokens: agent.counters("tokens_total")?,
            input: agent.counter("tokens_input_total")?,
            output: agent.counter("tokens_output_total")?,
            millis: agent.histogram("intel_duration_ms")?,
            context: agent.gauge("context_tokens")?,
            up: agent.gauge("intel_up")?,
            all_down: agent.gauge("intel_all_down")?,
        };
        models.up.set(1);
        Ok(Self {
            ready: all.gauge("ready")?,
            generation: all.gauge("config_generation")?,
            reloads: all.counters("config_reload_total")?,
            requests: bridge.counters("bridge_requests_total")?,
            runs: Runs {
                started: agent.counter("runs_started_total")?,
                ended: agent.counters("runs_total")?,
                completed: agent.counter("runs_completed_total")?,
                failed: agent.counter("runs_failed_total")?,
                killed: agent.counter("runs_killed_total")?,
                active: agent.gauge("runs_active")?,
                turns: agent.counters("turns_total")?,
                millis: agent.histogram("turn_duration_ms")?,
                limited: agent.counter("limit_exceeded_total")?,
                refused: agent.counter("refusals_total")?,
            },
            tool_calls: agent.counters("tool_calls_total")?,
            tool_millis: agent.histogram("tool_duration_ms")?,
            models,
            steps: agent.counter("loop_steps_total")?,
            servers_up: agent.gauges("mcp_up")?,
            connect_failures: agent.counters("mcp_connect_failures_total")?,
            counted: Arc::default(),
            workers: Workers {
                idle: agent.gauge("workers_idle")?,
                crashes: agent.counter("worker_crashes_total")?,
                restarts: agent.counter("subagent_restarts_total")?,
                stuck: agent.counter("subagent_stuck_kills_total")?,
            },
            spawned: agent.counter("subagents_spawned_total")?,
            exited: agent.counter("subagents_exited_total")?,
            store_ops: agent.counters("store_ops_total")?,
            store_millis: agent.sum("store_latency_ms_sum")?,
            drains: agent.counters("drains_total")?,
            pushes: agent.counters("push_deliveries_total")?,
            levels: Gauges::new(&agent)?,
            registry,
        })
    }

    /// A turn begins. It is active until what this returns is gone.
    pub fn turn(&self, kind: Holder) -> Turn {
        self.runs.started.inc();
        self.runs.active.inc();
        Turn {
            runs: self.runs.clone(),
            kind,
            began: Instant::now(),
        }
    }

    /// A worker ended in the middle of a turn.
    pub fn crash(&self) {
        self.workers.crashes.inc();
    }

    /// A worker ended before its turn had begun, and another one takes it.
    pub fn restart(&self) {
        self.workers.restarts.inc();
    }

    /// A worker did not end its turn when it was asked to, and is killed.
    pub fn stuck(&self) {
        self.workers.stuck.inc();
    }

    /// A call has ended. Those of the model are counted; a server that is not in the document is named by no series.
    pub fn tool(&self, call: &ToolCalled, document: &Document) {
        if call.action != Action::Tool {
            return;
        }
        let server = match call.server.as_deref() {
            None => OURS,
            Some(name) => declared(name, document),
        };
        self.tool_calls
            .with_label_values(&[server, call.outcome.label()])
            .inc();
        self.tool_millis.observe(shelf::millis(call.millis));
        self.steps.inc();
    }

    /// A model call has ended.
    pub fn model(&self, call: &ModelCalled) {
        let models = &self.models;
        models.calls.inc();
        self.steps.inc();
        models.millis.observe(shelf::millis(call.millis));
        for (label, sum, tokens) in [
            ("input", &models.input, call.input_tokens),
            ("output", &models.output, call.output_tokens),
        ] {
            models.tokens.with_label_values(&[label]).inc_by(tokens);
            sum.inc_by(tokens);
        }
        if let Some(class) = &call.error {
            models.errors.with_label_values(&[class]).inc();
        } else {
            models.context.set(shelf::signed(call.input_tokens));
        }
        // Another fault than this is an answer.
        let is_down = call.error.as_deref() == Some(Class::Unavailable.label());
        models.up.set(i64::from(!is_down));
        models.all_down.set(i64::from(is_down));
    }

    /// A live folder was taken or refused.
    pub fn reload(&self, accepted: bool, generation: u64) {
        self.reloads
            .with_label_values(&[if accepted { "applied" } else { "rejected" }])
            .inc();
        self.generation.set(shelf::signed(generation));
    }

    /// A request at the bridge was answered.
    pub fn bridge_request(&self, outcome: &str) {
        self.requests.with_label_values(&[outcome]).inc();
    }

    /// Warm workers.
    pub fn idle_workers(&self, count: usize) {
        self.workers.idle.set(shelf::signed(count));
    }

    /// A subagent lives.
    pub fn subagent_begins(&self) {
        self.spawned.inc();
    }

    /// A subagent has ended.
    pub fn subagent_ends(&self) {
        self.exited.inc();
    }

    /// The store was asked for something; how that ended is `ok` or the class of its error.
    pub fn store(&self, result: &str, took: Duration) {
        self.store_ops.with_label_values(&[result]).inc();
        self.store_millis.inc_by(took.as_secs_f64() * 1000.0);
    }

    /// The agent ends.
    pub fn drain(&self, phase: Phase) {
        let label = match phase {
            Phase::Start => "start",
            Phase::Done => "done",
            Phase::Abandon => "abandon",
        };
        self.drains.with_label_values(&[label]).inc();
    }

    /// Somebody was to be told of a task.
    pub fn push(&self, delivery: Delivery) {
        let label = match delivery {
            Delivery::Told => "told",
            Delivery::Failed => "failed",
            Delivery::GivenUp => "given_up",
        };
        self.pushes.with_label_values(&[label]).inc();
    }

    /// The servers as they are now; one that is gone from the document leaves no series.
    pub fn servers(&self, view: &ServersView) {
        self.servers_up.reset();
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        for server in &view.servers {
            let name = server.server.name.as_str();
            let up = i64::from(server.state == ServerState::Connected);
            self.servers_up.with_label_values(&[name]).set(up);
            let before = counted
                .insert(name.to_owned(), server.failures)
                .unwrap_or_default();
            // One that is configured anew begins anew.
            let more = server.failures.checked_sub(before).unwrap_or(server.failures);
            self.connect_failures.with_label_values(&[name]).inc_by(more);
        }
    }

    /// A worker could not connect to this server.
    pub fn connect_failed(&self, server: &str, document: &Document) {
        self.connect_failures
            .with_label_values(&[declared(server, document)])
            .inc();
    }

    /// The text format.
    pub fn render(&self, ready: bool, levels: Option<&Levels>) -> Vec<u8> {
        self.ready.set(i64::from(ready));
        if let Some(levels) = levels {
            self.levels.set(levels);
        }
        let mut text = Vec::new();
        // Writing into memory does not fail.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        text
    }
}

/// The name as the document has it.
fn declared<'a>(server: &'a str, document: &Document) -> &'a str {
    let is_declared = document.mcp.servers.iter().any(|one| one.name == server);
    if is_declared { server } else { ELSEWHERE }
}

/// A turn that is counted as active.
#[derive(Debug)]
pub struct Turn {
    runs: Runs,
    kind: Holder,
    began: Instant,
}

impl Turn {
    /// It has ended.
    pub fn ended(self, status: Status) {
        let runs = &self.runs;
        runs.ended.with_label_values(&[status.label()]).inc();
        runs.turns.with_label_values(&[self.kind.label()]).inc();
        runs.millis.observe(self.began.elapsed().as_secs_f64() * 1000.0);
        match status {
            Status::Completed => runs.completed.inc(),
            Status::Cancelled => runs.killed.inc(),
            Status::Waiting => {}
            _ => runs.failed.inc(),
        }
        match status {
            Status::ExhaustedSteps | Status::ExhaustedTokens | Status::Deadline => runs.limited.inc(),
            Status::Refused => runs.refused.inc(),
            _ => {}
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.runs.active.dec();
    }
}

#[cfg(test)]
mod tests;
