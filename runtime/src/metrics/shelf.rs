//! Makes each metric by its name, with what METRICS.md says of it: name, type, labels and help are written in one place,
//! and that is the table here, which the document repeats for people.

use prometheus::core::Collector;
use prometheus::{
    Counter, Error, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, Result,
};

/// What is known of a metric before it counts.
struct Row {
    name: &'static str,
    help: &'static str,
    label: &'static [&'static str],
    /// The values of its only label that there are from the start.
    values: &'static [&'static str],
}

const fn row(name: &'static str, help: &'static str) -> Row {
    labelled(name, help, &[], &[])
}

const fn labelled(
    name: &'static str,
    help: &'static str,
    label: &'static [&'static str],
    values: &'static [&'static str],
) -> Row {
    Row {
        name,
        help,
        label,
        values,
    }
}

const CLASSES: &[&str] = &["invalid", "unavailable", "denied", "conflict", "internal"];
const RESULTS: &[&str] = &["ok", "invalid", "unavailable", "denied", "conflict", "internal"];
const STATUSES: &[&str] = &[
    "completed",
    "failed",
    "model_unavailable",
    "cancelled",
    "refused",
    "exhausted_steps",
    "exhausted_tokens",
    "deadline",
    "loop_detected",
];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("up", "1 while the process runs"),
    row("ready", "1 while /readyz says so"),
    row("config_generation", "Accepted configurations since the start"),
    labelled("config_reload_total", "Configurations that were taken or refused, the first one too", &["result"], &["applied", "rejected"]),
    labelled("bridge_requests_total", "Requests at the bridge", &["outcome"], &[]),
    row("runs_started_total", "Turns that began, of subagents too; each is a run"),
    labelled("runs_total", "Turns that ended, by how", &["status"], STATUSES),
    row("runs_completed_total", "Turns that ended as they should"),
    row("runs_failed_total", "Turns that neither completed nor were cancelled"),
    row("runs_killed_total", "Turns that were cancelled"),
    row("runs_active", "Turns that run or wait for their worker"),
    labelled("turns_total", "Turns that ended, by whose they were", &["kind"], &["root", "subagent"]),
    row("turn_duration_ms", "From a turn's begin to its end"),
    row("limit_exceeded_total", "Turns that ended by limits.run"),
    row("refusals_total", "Turns that the model refused"),
    labelled("tool_calls_total", "Tool calls of the model; without a server those of our own tools", &["server", "outcome"], &[]),
    row("tool_duration_ms", "From a tool call of the model to its result"),
    row("intel_calls_total", "Model calls"),
    labelled("intel_errors_total", "Model calls that failed", &["reason"], CLASSES),
    row("intel_duration_ms", "From a request to a model to the end of its answer, all tries together"),
    row("intel_up", "1 unless no endpoint answered the last model call"),
    row("intel_all_down", "1 when no endpoint answered the last model call"),
    labelled("tokens_total", "Tokens", &["type"], &["input", "output"]),
    row("tokens_input_total", "Tokens that models read"),
    row("tokens_output_total", "Tokens that models wrote"),
    row("context_tokens", "Tokens that the last model call read"),
    row("loop_steps_total", "Model calls, and tool calls of the model"),
    labelled("mcp_up", "1 while the MCP server is connected", &["server"], &[]),
    labelled("mcp_connect_failures_total", "Connections to an MCP server that could not be made or broke at once", &["server"], &[]),
    row("workers_idle", "Warm workers that wait for their conversation"),
    row("worker_crashes_total", "Workers that ended in the middle of a turn"),
    row("subagent_restarts_total", "Workers that ended before their turn had begun, which another one took"),
    row("subagent_stuck_kills_total", "Workers that did not end a turn when asked to, and were killed"),
    row("subagents_spawned_total", "Subagents that began"),
    row("subagents_exited_total", "Subagents that ended"),
    labelled("store_ops_total", "Reads and writes of the store; ok, or the class of the error", &["result"], RESULTS),
    row("store_latency_ms_sum", "How long they took together"),
    labelled("drains_total", "The end of the process: begun, done, given up", &["phase"], &["start", "done", "abandon"]),
    labelled("push_deliveries_total", "Notifications of tasks: told, to be tried again, given up", &["outcome"], &["told", "failed", "given_up"]),
    row("active_subagents", "Subagents that live"),
    row("tree_depth", "Generations of subagents that live"),
    row("tree_breadth", "The most subagents of one turn that live"),
    row("inbox_pending", "Messages that are accepted and not begun"),
    row("turns_queued", "Conversations whose next turn waits for a slot (agent.max_parallel_turns)"),
    row("budget_tokens_remaining", "Tokens that intelligence.budget leaves now; absent without a limit"),
    row("memory_max_bytes", "Memory that the process and its workers may have: of the cgroup, else of the machine"),
    row("memory_current_bytes", "Memory that they have: of the cgroup, else of this process alone"),
    row("disk_free_bytes", "Free where the store is; absent without a file"),
];

/// Milliseconds: from a tool of ours to the deadline of a long turn.
const BUCKETS: [f64; 14] = [
    1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 10_000.0, 30_000.0, 120_000.0, 600_000.0,
];

/// Makes metrics, and shows them where this kind of process has them.
pub(super) struct Shelf<'a> {
    registry: &'a Registry,
    is_shown: bool,
}

impl<'a> Shelf<'a> {
    pub(super) fn new(registry: &'a Registry, is_shown: bool) -> Self {
        Self { registry, is_shown }
    }

    pub(super) fn gauge(&self, name: &str) -> Result<IntGauge> {
        self.put(IntGauge::with_opts(opts(name)?.1)?)
    }

    pub(super) fn gauges(&self, name: &str) -> Result<IntGaugeVec> {
        let (row, opts) = opts(name)?;
        self.put(IntGaugeVec::new(opts, row.label)?)
    }

    pub(super) fn counter(&self, name: &str) -> Result<IntCounter> {
        self.put(IntCounter::with_opts(opts(name)?.1)?)
    }

    /// Of parts.
    pub(super) fn sum(&self, name: &str) -> Result<Counter> {
        self.put(Counter::with_opts(opts(name)?.1)?)
    }

    pub(super) fn counters(&self, name: &str) -> Result<IntCounterVec> {
        let (row, opts) = opts(name)?;
        let counters = IntCounterVec::new(opts, row.label)?;
        for value in row.values {
            counters.with_label_values(&[*value]);
        }
        self.put(counters)
    }

    pub(super) fn histogram(&self, name: &str) -> Result<Histogram> {
        let (_, opts) = opts(name)?;
        let opts = HistogramOpts {
            common_opts: opts,
            buckets: BUCKETS.to_vec(),
        };
        self.put(Histogram::with_opts(opts)?)
    }

    fn put<M: Collector + Clone + 'static>(&self, metric: M) -> Result<M> {
        if self.is_shown {
            self.registry.register(Box::new(metric.clone()))?;
        }
        Ok(metric)
    }
}

fn opts(name: &str) -> Result<(&'static Row, Opts)> {
    let row = ROWS.iter().find(|row| row.name == name);
    let row = row.ok_or_else(|| Error::Msg(format!("{name} is not in the table")))?;
    Ok((row, Opts::new(format!("agent_{name}"), row.help)))
}

/// As a gauge has it.
pub(super) fn signed<T: TryInto<i64>>(count: T) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// As a histogram has it: beyond what it can tell apart nothing is lost by a minute.
pub(super) fn millis(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
