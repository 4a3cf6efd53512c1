//! What stands there at a moment and is not counted: the gauges that are set when somebody reads the metrics.

use prometheus::{IntGauge, IntGaugeVec};

use super::machine::Machine;
use super::shelf::{self, Shelf};

/// What stands there at this moment; asked for when somebody reads the metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Levels {
    /// Subagents that live.
    pub subagents: usize,
    /// Generations of them.
    pub depth: u32,
    /// The most of one parent.
    pub breadth: usize,
    /// Messages that no turn works on yet.
    pub pending: usize,
    /// Turns that wait for others to end.
    pub queued: usize,
    /// Tokens that the budget leaves; none without a limit.
    pub budget: Option<u64>,
    /// Of the machine.
    pub machine: Machine,
}

/// See [`Levels`].
#[derive(Debug, Clone)]
pub(super) struct Gauges {
    subagents: IntGauge,
    depth: IntGauge,
    breadth: IntGauge,
    pending: IntGauge,
    queued: IntGauge,
    /// Without labels, and without a series where there is no limit.
    budget: IntGaugeVec,
    memory_max: IntGaugeVec,
    memory: IntGaugeVec,
    disk: IntGaugeVec,
}

impl Gauges {
    /// All of them.
    pub(super) fn new(agent: &Shelf<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            subagents: agent.gauge("active_subagents")?,
            depth: agent.gauge("tree_depth")?,
            breadth: agent.gauge("tree_breadth")?,
            pending: agent.gauge("inbox_pending")?,
            queued: agent.gauge("turns_queued")?,
            budget: agent.gauges("budget_tokens_remaining")?,
            memory_max: agent.gauges("memory_max_bytes")?,
            memory: agent.gauges("memory_current_bytes")?,
            disk: agent.gauges("disk_free_bytes")?,
        })
    }

    /// As it is now.
    pub(super) fn set(&self, levels: &Levels) {
        self.subagents.set(shelf::signed(levels.subagents));
        self.depth.set(levels.depth.into());
        self.breadth.set(shelf::signed(levels.breadth));
        self.pending.set(shelf::signed(levels.pending));
        self.queued.set(shelf::signed(levels.queued));
        for (gauge, level) in [
            (&self.budget, levels.budget),
            (&self.memory_max, levels.machine.memory_max),
            (&self.memory, levels.machine.memory),
            (&self.disk, levels.machine.disk_free),
        ] {
            gauge.reset();
            if let Some(level) = level {
                gauge.with_label_values::<&str>(&[]).set(shelf::signed(level));
            }
        }
    }
}
