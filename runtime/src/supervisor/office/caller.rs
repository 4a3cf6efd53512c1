//! On whose behalf a turn asks, and what it has left. Known from the turn that a worker was given, never from what the
//! worker says. Pure.

use std::sync::Arc;

use agentd_agent::request::{Mode, SubagentLimits};
use agentd_agent::{Held, Holder, TurnLimits};
use agentd_base::trace::TraceContext;
use agentd_config::document::RunLimits;
use tokio::time::Instant;

use super::Spent;
use crate::origin::Origin;

/// See the module.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The principal that the conversation belongs to.
    pub owner: String,
    /// The conversation at the root.
    pub root: String,
    /// Its own: that one, or that of a subagent.
    pub conversation: String,
    /// The run.
    pub run_id: String,
    /// The kind of turn.
    pub holder: Holder,
    /// What was minted for it.
    pub held: Held,
    /// Generations below the conversation at the root.
    pub depth: u32,
    /// Messages of turns that led to this one.
    pub hops: u32,
    /// Whose it is, and what it is part of.
    pub origin: Origin,
    /// When its time is up.
    pub until: Instant,
    /// What it may use up, and what it and its subagents used so far.
    pub spent: Arc<Spent>,
}

impl Caller {
    /// Its place in its trace.
    pub fn trace(&self) -> TraceContext {
        TraceContext::of_run(&self.run_id, self.origin.parent)
    }

    /// A subagent that it begins.
    pub fn subagent(&self, handle: &str) -> Origin {
        Origin {
            agent_id: handle.to_owned(),
            agent_path: format!("{}/{handle}", self.origin.agent_path),
            parent: Some(self.trace()),
        }
    }

    /// The limits of a subagent: what was asked for, within what the caller has left. One that goes on without its
    /// caller has a turn's limits.
    ///
    /// # Errors
    /// When nothing is left.
    pub fn left(&self, asked: SubagentLimits, mode: Mode, run: &RunLimits) -> Result<TurnLimits, String> {
        let mut limits = match mode {
            Mode::Detached => TurnLimits {
                steps: run.steps(),
                tokens: run.tokens(),
                deadline: run.deadline(),
            },
            Mode::Sync | Mode::Async | Mode::Warm => TurnLimits {
                steps: u32::try_from(self.spent.steps_left()).unwrap_or(u32::MAX),
                tokens: self.spent.tokens_left(),
                deadline: self.until.saturating_duration_since(Instant::now()),
            },
        };
        if limits.steps == 0 || limits.tokens == 0 || limits.deadline.is_zero() {
            return Err(
                "this turn has nothing left that it could give to a subagent (limits.run)".to_owned(),
            );
        }
        limits.steps = limits.steps.min(asked.steps.unwrap_or(u32::MAX));
        limits.tokens = limits.tokens.min(asked.tokens.unwrap_or(u64::MAX));
        limits.deadline = limits
            .deadline
            .min(asked.deadline.map_or(limits.deadline, |deadline| deadline.0));
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_subagent_has_no_more_than_its_caller_has_left() {
        let caller = Caller {
            owner: "o".into(),
            root: "c".into(),
            conversation: "c".into(),
            run_id: "r".into(),
            holder: Holder::Root,
            held: Held::All,
            depth: 0,
            hops: 0,
            origin: Origin::agent("a", None),
            until: Instant::now() + Duration::from_secs(60),
            spent: Spent::new(
                TurnLimits {
                    steps: 10,
                    tokens: 1000,
                    deadline: Duration::from_secs(60),
                },
                None,
            ),
        };
        let run: RunLimits = serde_json::from_value(json!({"steps": 50})).unwrap();
        let asked = |value| serde_json::from_value::<SubagentLimits>(value).unwrap();
        caller.spent.add(4, 300);
        tokio::time::advance(Duration::from_secs(20)).await;
        for (limits, mode, left) in [
            (json!({}), Mode::Sync, (6, 700, 40)),
            (
                json!({"steps": 3, "tokens": 5, "deadline": "1s"}),
                Mode::Async,
                (3, 5, 1),
            ),
            (
                json!({"steps": 300, "tokens": 5000, "deadline": "1h"}),
                Mode::Warm,
                (6, 700, 40),
            ),
            (
                json!({}),
                Mode::Detached,
                (50, run.tokens(), run.deadline().as_secs()),
            ),
        ] {
            let got = caller.left(asked(limits.clone()), mode, &run).unwrap();
            assert_eq!((got.steps, got.tokens, got.deadline.as_secs()), left, "{limits}");
        }
        caller.spent.add(6, 0);
        assert!(caller.left(asked(json!({})), Mode::Sync, &run).is_err());
        assert!(caller.left(asked(json!({})), Mode::Detached, &run).is_ok());
    }
}
