//! Runs one turn in a worker process and says truthfully how it ended. Guarantees: what a worker's process does, from
//! a crash to a hang, ends this turn and nothing else; the time limit holds even if the worker ignores it; a result
//! counts even if the worker dies right after it.

mod beginning;
mod following;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agentd_agent::request::OPEN_REQUESTS;
use agentd_agent::{Held, Holder, Resumed, SoFar, Status, TurnLimits};
use agentd_config::document::RunLimits;
use agentd_identity::IdentitySource;
use agentd_mcp::ServersView;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::following::{Followed, Lost};
use super::asking::{Human, Questions};
use super::office::{Caller, Office, Spent};
use super::open::Open;
use super::settings::{SettingsWatch, current};
use crate::metrics::Metrics;
use crate::origin::Origin;
use crate::worker::confine::Confine;
use crate::worker::frame::TurnResult;
use crate::worker::pool::Pool;

/// The worker ends a turn at its deadline by itself; it gets this much longer to say so.
const DEADLINE_GRACE: Duration = Duration::from_secs(2);

/// Hears the answer of a turn while it is written. Must not block: the worker's frames wait for it.
pub trait Listener: Send + Sync + fmt::Debug {
    /// More of it; with `restart` what was heard before is void. What counts in the end is the result of the turn.
    fn heard(&self, text: &str, restart: bool);
}

/// What to run.
#[derive(Debug, Clone)]
pub struct TurnInput {
    /// The run's id.
    pub run_id: String,
    /// The principal that the conversation belongs to.
    pub owner: String,
    /// The conversation, whose worker is used again.
    pub conversation: String,
    /// The conversation so far.
    pub transcript: Value,
    /// What the caller says.
    pub text: String,
    /// What it goes on with, where it waited for a person and was given up.
    pub resumed: Option<Resumed>,
    /// What it used up by then.
    pub used: Used,
    /// How many messages of turns led to this one.
    pub hops: u32,
    /// Of a subagent: what it was given.
    pub charge: Option<Charge>,
    /// Whose it is, and what it is part of.
    pub origin: Origin,
    /// Hears the answer while it is written.
    pub listener: Option<Arc<dyn Listener>>,
}

/// What a turn used up before it was given up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Model calls and tool calls.
    pub steps: u32,
    /// Tokens, both ways.
    pub tokens: u64,
}

impl Used {
    /// A turn that used this up before it is this far.
    #[must_use]
    pub fn and(self, so_far: SoFar) -> SoFar {
        SoFar {
            steps: so_far.steps.saturating_add(self.steps),
            tokens: so_far.tokens.saturating_add(self.tokens),
            ..so_far
        }
    }
}

/// What a subagent is run with.
#[derive(Debug, Clone)]
pub struct Charge {
    /// What it is told of itself.
    pub role: String,
    /// The conversation at the root.
    pub root: String,
    /// Generations below that.
    pub depth: u32,
    /// What was minted for it.
    pub held: Held,
    /// What it may use up.
    pub limits: TurnLimits,
    /// What it uses is used of this too: that of the turn which waits for it.
    pub above: Option<Arc<Spent>>,
    /// JSON Schema of its answer.
    pub output_schema: Option<Value>,
    /// What binds its process.
    pub confine: Confine,
    /// More may be said to it after a turn that went well: its worker waits for that.
    pub is_warm: bool,
}

/// How it ended.
#[derive(Debug)]
pub enum TurnEnd {
    /// With a result of the worker.
    Done(Box<TurnResult>),
    /// Without one.
    Broken {
        /// Why, for people.
        reason: String,
        /// Whether a worker may have begun it. What it had done by then nobody knows for sure.
        began: bool,
        /// Tool calls that are known: those that servers answered, and those that were carried out here.
        tool_calls: u64,
    },
}

/// Runs turns. Shared by all conversations.
#[derive(Debug)]
pub struct TurnRunner {
    /// Warm workers.
    pub pool: Arc<Pool>,
    /// The agent's name.
    pub instance: String,
    /// The configuration.
    pub settings: SettingsWatch,
    /// The pod's identity.
    pub identity: Option<IdentitySource>,
    /// The MCP servers.
    pub servers: watch::Receiver<Arc<ServersView>>,
    /// Gets the names of servers that failed or changed in a turn: some can only be noticed so.
    pub suspects: mpsc::Sender<String>,
    /// Who answers the questions of servers; without anybody they are cancelled.
    pub human: Option<Arc<dyn Human>>,
    /// Carries out what turns ask for.
    pub office: Arc<Office>,
    /// Counters.
    pub metrics: Metrics,
}

impl TurnRunner {
    /// Runs a turn to its end. When `stop` fires the worker is asked to end it, then made to.
    pub async fn run(&self, input: TurnInput, stop: &CancellationToken) -> TurnEnd {
        let span = input.origin.span(&input.run_id);
        self.run_logged(input, stop).instrument(span).await
    }

    async fn run_logged(&self, input: TurnInput, stop: &CancellationToken) -> TurnEnd {
        tracing::info!(event = "turn.start", run.id = input.run_id);
        let kind = input.charge.as_ref().map_or(Holder::Root, |_| Holder::Subagent);
        let counted = self.metrics.turn(kind);
        let run_id = input.run_id.clone();
        let end = tokio::select! {
            biased;
            () = self.office.instruction.known() => self.run_in_worker(input, stop).await,
            () = stop.cancelled() => TurnEnd::Broken {
                reason: "the agent was stopped before its instruction could be read".to_owned(),
                began: false,
                tool_calls: 0,
            },
        };
        match &end {
            // The worker has logged how it ended.
            TurnEnd::Done(result) => counted.ended(result.status),
            TurnEnd::Broken {
                reason,
                tool_calls,
                began,
            } => {
                if *began {
                    self.metrics.crash();
                }
                counted.ended(if stop.is_cancelled() {
                    Status::Cancelled
                } else {
                    Status::Failed
                });
                tracing::error!(event = "turn.failed", run.id = run_id, err = reason, tool_calls);
            }
        }
        self.metrics.idle_workers(self.pool.idle());
        end
    }

    async fn run_in_worker(&self, input: TurnInput, stop: &CancellationToken) -> TurnEnd {
        let settings = current(&self.settings);
        let conversation = input.conversation.clone();
        let run_id = input.run_id.clone();
        let caller = Arc::new(caller_of(&input, &settings.document.limits.run));
        let mut followed = Followed {
            run_id,
            conversation: conversation.clone(),
            until: caller.until + DEADLINE_GRACE,
            tool_calls: 0,
            questions: Questions::new(self.human.clone()),
            caller,
            requests: Open::new(OPEN_REQUESTS),
            listener: input.listener.clone(),
            office: self.office.clone(),
            stop: stop.clone(),
        };
        let is_last = input.charge.as_ref().map(|charge| !charge.is_warm);
        let (warm, ended) = match self.begun(&settings, input, &mut followed, stop).await {
            Ok(begun) => begun,
            Err(reason) => {
                return TurnEnd::Broken {
                    reason,
                    began: false,
                    tool_calls: 0,
                };
            }
        };
        let tool_calls = followed.tool_calls;
        self.office.budget.close(&followed.run_id).await;
        drop(followed);
        match ended {
            Ok(result) => {
                // A conversation may go on after any turn; a subagent that has ended has no use for a worker that waits.
                let is_over = is_last.is_some_and(|is_last| is_last || result.status != Status::Completed);
                if !is_over && warm.worker.is_alive() {
                    self.pool.park(conversation, warm);
                }
                TurnEnd::Done(result)
            }
            Err(Lost::Idle(reason)) => TurnEnd::Broken {
                reason,
                began: false,
                tool_calls,
            },
            Err(Lost::Ended(reason)) => TurnEnd::Broken {
                reason,
                began: true,
                tool_calls,
            },
            Err(Lost::Stuck(result)) => {
                self.metrics.stuck();
                warm.worker.kill().await;
                match result {
                    Some(result) => TurnEnd::Done(result),
                    None => TurnEnd::Broken {
                        reason:
                            "the worker process did not end the turn when it was asked to, and was killed"
                                .to_owned(),
                        began: true,
                        tool_calls,
                    },
                }
            }
        }
    }
}

/// On whose behalf a turn asks.
pub(super) fn caller_of(input: &TurnInput, run: &RunLimits) -> Caller {
    let charge = input.charge.as_ref();
    let limits = charge.map_or(
        TurnLimits {
            steps: run.steps().saturating_sub(input.used.steps),
            tokens: run.tokens().saturating_sub(input.used.tokens),
            // While it waited nothing was done: it has its time again.
            deadline: run.deadline(),
        },
        |charge| charge.limits,
    );
    Caller {
        owner: input.owner.clone(),
        root: charge.map_or(&input.conversation, |charge| &charge.root).clone(),
        conversation: input.conversation.clone(),
        run_id: input.run_id.clone(),
        holder: charge.map_or(Holder::Root, |_| Holder::Subagent),
        held: charge.map_or(Held::All, |charge| charge.held.clone()),
        depth: charge.map_or(0, |charge| charge.depth),
        hops: input.hops,
        origin: input.origin.clone(),
        until: Instant::now() + limits.deadline,
        spent: Spent::new(limits, charge.and_then(|charge| charge.above.clone())),
    }
}
