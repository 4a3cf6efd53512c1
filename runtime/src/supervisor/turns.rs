//! Runs one turn in a worker process and says truthfully how it ended. Guarantees: what a worker's process does, from
//! a crash to a hang, ends this turn and nothing else; the time limit holds even if the worker ignores it; a result
//! counts even if the worker dies right after it.

use std::sync::Arc;
use std::time::Duration;

use agentd_agent::request::OPEN_REQUESTS;
use agentd_agent::{Held, Holder, Reply, Status, TurnLimits};
use agentd_config::document::RunLimits;
use agentd_identity::IdentitySource;
use agentd_mcp::{Answer, ServersView};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::asking::{Asked, Human, Questions};
use super::office::{Caller, Office, Spent};
use super::open::Open;
use super::settings::{Settings, SettingsWatch, current};
use crate::logging::AUDIT;
use crate::metrics::Metrics;
use crate::worker::frame::{FromWorker, ToWorker, ToolCalled, ToolOutcome, TurnResult};
use crate::worker::framing::FrameError;
use crate::worker::pool::{Pool, Warm};
use crate::worker::process::{ASK, Incoming};

/// The worker ends a turn at its deadline by itself; it gets this much longer to say so.
const DEADLINE_GRACE: Duration = Duration::from_secs(2);

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
    /// How many messages of turns led to this one.
    pub hops: u32,
    /// Of a subagent: what it was given.
    pub charge: Option<Charge>,
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
        /// Tool calls that had ended by then.
        tool_calls: u64,
    },
}

impl TurnEnd {
    /// Tool calls that are known to have been made.
    pub fn tool_calls(&self) -> u64 {
        match self {
            Self::Done(result) => result.tool_calls,
            Self::Broken { tool_calls, .. } => *tool_calls,
        }
    }
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
        tracing::info!(event = "turn.start", run.id = input.run_id);
        let run_id = input.run_id.clone();
        let end = self.run_in_worker(input, stop).await;
        match &end {
            // The worker has logged how it ended.
            TurnEnd::Done(result) => self.metrics.turn(result.status),
            TurnEnd::Broken { reason, tool_calls } => {
                self.metrics.crash();
                tracing::error!(event = "turn.failed", run.id = run_id, err = reason, tool_calls);
            }
        }
        self.metrics.idle_workers(self.pool.idle());
        end
    }

    async fn run_in_worker(&self, input: TurnInput, stop: &CancellationToken) -> TurnEnd {
        let broken = |reason: String| TurnEnd::Broken {
            reason,
            tool_calls: 0,
        };
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
            caller: caller.clone(),
            requests: Open::new(OPEN_REQUESTS),
        };
        let (warm, ended) = match self.begun(&settings, input, &mut followed, stop).await {
            Ok(begun) => begun,
            Err(reason) => return broken(reason),
        };
        self.office.turn_ended(&caller, stop.is_cancelled());
        self.office.budget.release(&caller.run_id);
        let tool_calls = followed.tool_calls;
        drop(followed);
        match ended {
            Ok(result) => {
                if warm.worker.is_alive() {
                    self.pool.park(conversation, warm);
                }
                TurnEnd::Done(result)
            }
            Err(Lost::Idle(reason) | Lost::Ended(reason)) => TurnEnd::Broken { reason, tool_calls },
            Err(Lost::Stuck(result)) => {
                warm.worker.kill().await;
                match result {
                    Some(result) => TurnEnd::Done(result),
                    None => TurnEnd::Broken {
                        reason:
                            "the worker process did not end the turn when it was asked to, and was killed"
                                .to_owned(),
                        tool_calls,
                    },
                }
            }
        }
    }

    /// A turn that a worker took, and how it left it. One that had waited and was killed before it said that it began
    /// has called nothing: the turn begins again in another, once, lest a message that kills workers kills them all.
    async fn begun(
        &self,
        settings: &Settings,
        input: TurnInput,
        turn: &mut Followed,
        stop: &CancellationToken,
    ) -> Result<(Warm, Result<Box<TurnResult>, Lost>), String> {
        let (mut warm, waited) = self.begin(settings, &input).await?;
        let ended = self.follow(&mut warm, turn, stop).await;
        match ended {
            Err(Lost::Idle(reason)) if waited && !stop.is_cancelled() => {
                tracing::warn!(event = "child.exit", run.id = input.run_id, err = reason);
                (warm, _) = self.begin(settings, &input).await?;
                let ended = self.follow(&mut warm, turn, stop).await;
                Ok((warm, ended))
            }
            ended => Ok((warm, ended)),
        }
    }

    /// A worker that has the turn, and whether it had waited for one. One that is gone when it is told is replaced.
    async fn begin(&self, settings: &Settings, input: &TurnInput) -> Result<(Warm, bool), String> {
        loop {
            let mut warm = self
                .pool
                .take(&input.conversation)
                .map_err(|error| format!("no worker process could be started: {error}"))?;
            tracing::debug!(
                event = "turn.spawn",
                run.id = input.run_id,
                worker = warm.worker.pid()
            );
            let was_warm = warm.generation.is_some();
            match self.prepare(&mut warm, settings, input.clone()).await {
                Ok(()) => return Ok((warm, was_warm)),
                // Another worker could not take it either.
                Err(error @ (FrameError::TooLong(_) | FrameError::TooDeep)) => return Err(error.to_string()),
                Err(error) => {
                    let reason = self.bury(warm, error.to_string()).await;
                    if !was_warm {
                        return Err(reason);
                    }
                    tracing::warn!(event = "child.exit", run.id = input.run_id, err = reason);
                }
            }
        }
    }

    /// Reads what the worker says until its result, its end, or the end of patience.
    async fn follow(
        &self,
        warm: &mut Warm,
        turn: &mut Followed,
        stop: &CancellationToken,
    ) -> Result<Box<TurnResult>, Lost> {
        let deadline = tokio::time::sleep_until(turn.until);
        tokio::pin!(deadline);
        let mut silent = true;
        let mut asked: Option<Status> = None;
        loop {
            let rotated = async {
                match &mut warm.identity {
                    Some(identity) => identity.changed().await.is_ok(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                incoming = warm.worker.next() => match incoming {
                    Some(Incoming::Frame(FromWorker::Done(result))) if result.run_id == turn.run_id => {
                        return Ok(named(result, asked));
                    }
                    Some(Incoming::Frame(FromWorker::Began { run_id })) => silent &= run_id != turn.run_id,
                    Some(Incoming::Frame(frame)) => {
                        match self.note(frame, turn) {
                            Some(Said::Answer(id, answer)) => answered(warm, &turn.run_id, id, answer).await,
                            Some(Said::Reply(id, reply)) => replied(warm, id, reply).await,
                            None => {}
                        }
                        if asked.is_none() && let Some(status) = turn.caller.spent.is_used_up() {
                            asked = Some(status);
                            self.ask(warm, turn, &mut deadline).await;
                        }
                    }
                    Some(Incoming::Exited(exit)) if silent && exit.is_kill() => {
                        return Err(Lost::Idle(exit.describe()));
                    }
                    Some(Incoming::Exited(exit)) => return Err(Lost::Ended(exit.describe())),
                    None => return Err(Lost::Ended("the worker process is gone".to_owned())),
                },
                (id, answer) = turn.questions.next() => answered(warm, &turn.run_id, id, answer).await,
                (id, reply) = turn.requests.next() => replied(warm, id, reply).await,
                true = rotated => {
                    // A worker that cannot be told is about to say how it ended.
                    let _ = self.send_identity(warm).await;
                }
                () = stop.cancelled(), if asked.is_none() => {
                    asked = Some(Status::Cancelled);
                    self.ask(warm, turn, &mut deadline).await;
                }
                () = &mut deadline => match asked {
                    None => {
                        asked = Some(Status::Deadline);
                        self.ask(warm, turn, &mut deadline).await;
                    }
                    Some(status) => return Err(Lost::Stuck(forced(status, &turn.run_id, turn.tool_calls))),
                },
            }
        }
    }

    async fn ask(
        &self,
        warm: &mut Warm,
        turn: &mut Followed,
        deadline: &mut std::pin::Pin<&mut tokio::time::Sleep>,
    ) {
        // The worker cancels what its servers asked together with the turn.
        turn.questions.close();
        turn.requests.close();
        let _ = warm
            .worker
            .send(&ToWorker::Cancel {
                run_id: turn.run_id.clone(),
            })
            .await;
        deadline.as_mut().reset(Instant::now() + ASK);
    }

    /// Takes note of a frame; what there is to say to it at once.
    fn note(&self, frame: FromWorker, turn: &mut Followed) -> Option<Said> {
        match frame {
            FromWorker::ToolCalled(call) => {
                turn.tool_calls += 1;
                turn.caller.spent.add(1, 0);
                self.metrics.tool(&call);
                audit(&self.instance, &turn.caller, &call);
                if call.outcome == ToolOutcome::Unavailable {
                    self.suspect(call.server);
                }
            }
            FromWorker::ModelCalled(call) => {
                let tokens = call.input_tokens.saturating_add(call.output_tokens);
                turn.caller.spent.add(1, tokens);
                self.metrics.model(&call);
            }
            FromWorker::ServerFailed { server } | FromWorker::ServerChanged { server } => {
                self.suspect(server)
            }
            FromWorker::Ask { run_id, id, question } => {
                let asked = Asked {
                    run_id,
                    conversation: turn.conversation.clone(),
                    question,
                };
                return turn
                    .questions
                    .ask(id, asked)
                    .map(|answer| Said::Answer(id, answer));
            }
            FromWorker::Request { run_id, id, request } => {
                if run_id != turn.run_id || turn.requests.is_full() {
                    let why = "it is of another turn, or too many wait for a reply".to_owned();
                    return Some(Said::Reply(id, Reply::Refused(why)));
                }
                let work = self.office.clone().carry_out(turn.caller.clone(), *request);
                turn.requests.begin(id, work);
            }
            FromWorker::Withdraw { id } => {
                turn.questions.withdraw(id);
                turn.requests.withdraw(id);
            }
            // Of a turn before this one, which was given up.
            FromWorker::Began { .. } | FromWorker::Done(_) => {}
        }
        None
    }

    fn suspect(&self, server: String) {
        // With so many waiting already this one is among them.
        let _ = self.suspects.try_send(server);
    }

    /// A worker that could not be spoken to: how it ended, if it has, else `otherwise`.
    async fn bury(&self, mut warm: Warm, otherwise: String) -> String {
        let end = async {
            loop {
                match warm.worker.next().await {
                    Some(Incoming::Exited(exit)) => return exit.describe(),
                    Some(Incoming::Frame(_)) => {}
                    None => return otherwise.clone(),
                }
            }
        };
        match tokio::time::timeout(Duration::from_secs(1), end).await {
            Ok(reason) => reason,
            Err(_) => {
                warm.worker.kill().await;
                otherwise
            }
        }
    }
}

/// On whose behalf a turn asks.
pub(super) fn caller_of(input: &TurnInput, run: &RunLimits) -> Caller {
    let charge = input.charge.as_ref();
    let limits = charge.map_or(
        TurnLimits {
            steps: run.steps(),
            tokens: run.tokens(),
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
        until: Instant::now() + limits.deadline,
        spent: Spent::new(limits, charge.and_then(|charge| charge.above.clone())),
    }
}

/// A turn that a worker runs.
struct Followed {
    run_id: String,
    conversation: String,
    until: Instant,
    /// Tool calls that have ended.
    tool_calls: u64,
    questions: Questions,
    /// On whose behalf it asks.
    caller: Arc<Caller>,
    requests: Open<Reply>,
}

/// Gives the worker what a person said. What does not go into a frame is no answer.
async fn answered(warm: &mut Warm, run_id: &str, id: u64, answer: Answer) {
    let how = match &answer {
        Answer::Accept(_) => "accept",
        Answer::Decline => "decline",
        Answer::Cancel => "cancel",
    };
    tracing::info!(event = "human.answered", run.id = run_id, answer = how);
    if warm.worker.send(&ToWorker::Answer { id, answer }).await.is_err() {
        let answer = Answer::Cancel;
        // A worker that cannot be told is about to say how it ended.
        let _ = warm.worker.send(&ToWorker::Answer { id, answer }).await;
    }
}

/// Gives the worker what came of its request. What does not go into a frame is no reply.
async fn replied(warm: &mut Warm, id: u64, reply: Reply) {
    if let Err(error) = warm.worker.send(&ToWorker::Reply { id, reply }).await {
        let reply = Reply::Refused(format!("the result is lost: {error}"));
        // A worker that cannot be told is about to say how it ended.
        let _ = warm.worker.send(&ToWorker::Reply { id, reply }).await;
    }
}

/// What there is to say to a frame at once.
enum Said {
    Answer(u64, Answer),
    Reply(u64, Reply),
}

/// Why there is no result from the worker.
enum Lost {
    /// Its process was killed before it said that it began.
    Idle(String),
    /// Its process ended.
    Ended(String),
    /// It has to be killed; what the turn is worth if that is known.
    Stuck(Option<Box<TurnResult>>),
}

/// A turn that was cancelled because its time was up has used up its time; so with what its tree of subagents may use.
fn named(mut result: Box<TurnResult>, asked: Option<Status>) -> Box<TurnResult> {
    if let (Status::Cancelled, Some(status)) = (result.status, asked) {
        result.status = status;
        if matches!(status, Status::ExhaustedSteps | Status::ExhaustedTokens) {
            result.reason = Some("it and its subagents used up what they may (limits.run)".to_owned());
        }
    }
    result
}

/// A turn whose time was up is a turn whose time was up, whether the worker says so or not.
fn forced(status: Status, run_id: &str, tool_calls: u64) -> Option<Box<TurnResult>> {
    (status == Status::Deadline).then(|| {
        Box::new(TurnResult {
            run_id: run_id.to_owned(),
            status,
            text: String::new(),
            reason: Some(
                "the turn used up its time (limits.run.deadline), and its worker had to be killed".to_owned(),
            ),
            transcript: Value::Null,
            steps: 0,
            tokens: 0,
            tool_calls,
        })
    })
}

/// The audit line of a tool call: never arguments, never results.
pub(super) fn audit(instance: &str, caller: &Caller, call: &ToolCalled) {
    tracing::info!(
        target: AUDIT,
        event = "audit",
        action = "tool.call",
        instance,
        principal = caller.owner,
        role = caller.holder.label(),
        run.id = call.run_id,
        mcp.server = call.server,
        gen_ai.tool.name = call.tool,
        outcome = call.outcome.label(),
        dur_ms = call.millis,
    );
}
