//! A turn that a worker runs, from what it says and what is said to it to its result, its end, or the end of patience.

use std::sync::Arc;

use agentd_agent::{Reply, Status};
use agentd_mcp::Answer;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::TurnRunner;
use crate::audit;
use crate::supervisor::asking::{Asked, Later, Questions};
use crate::supervisor::office::{Caller, Office};
use crate::supervisor::open::Open;
use crate::supervisor::settings::current;
use crate::worker::frame::{FromWorker, ToWorker, ToolOutcome, TurnResult};
use crate::worker::pool::Warm;
use crate::worker::process::{ASK, Incoming};

impl TurnRunner {
    /// Reads what the worker says until its result, its end, or the end of patience.
    pub(super) async fn follow(
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
                let caller = &turn.caller;
                audit::call(&self.instance, &caller.owner, caller.holder.label(), &call);
                self.metrics.tool(&call, &current(&self.settings).document);
                // What we carry out ourselves is counted as it begins, and what is refused is nothing.
                if let Some(server) = call.server
                    && call.outcome != ToolOutcome::Refused
                {
                    turn.tool_calls += 1;
                    turn.caller.spent.add(1, 0);
                    if call.outcome == ToolOutcome::Unavailable {
                        self.suspect(server);
                    }
                }
            }
            FromWorker::ModelCalled(call) => {
                let tokens = call.input_tokens.saturating_add(call.output_tokens);
                turn.caller.spent.add(1, tokens);
                self.metrics.model(&call);
            }
            FromWorker::ServerFailed { server } => {
                self.metrics
                    .connect_failed(&server, &current(&self.settings).document);
                self.suspect(server);
            }
            FromWorker::ServerChanged { server } => self.suspect(server),
            FromWorker::Text {
                run_id,
                text,
                restart,
            } => {
                let listener = turn.listener.as_ref().filter(|_| run_id == turn.run_id);
                if let Some(listener) = listener {
                    listener.heard(&text, restart);
                }
            }
            FromWorker::Ask { run_id, id, question } => {
                let asked = Asked {
                    run_id,
                    root: turn.caller.root.clone(),
                    timeout: None,
                    so_far: None,
                    later: Later::default(),
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
                // Whatever becomes of its reply: it may be carried out.
                if request.tool().is_some() {
                    turn.tool_calls += 1;
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
}

/// A turn that a worker runs. With it goes what belongs to it: what it reserved, and the subagents that end with it.
pub(super) struct Followed {
    pub(super) run_id: String,
    pub(super) conversation: String,
    pub(super) until: Instant,
    /// Tool calls of servers that have ended, and those that were begun here.
    pub(super) tool_calls: u64,
    pub(super) questions: Questions,
    /// On whose behalf it asks.
    pub(super) caller: Arc<Caller>,
    pub(super) requests: Open<Reply>,
    /// Hears the answer while it is written.
    pub(super) listener: Option<Arc<dyn super::Listener>>,
    pub(super) office: Arc<Office>,
    pub(super) stop: CancellationToken,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.requests.close();
        self.office.turn_ended(&self.caller, self.stop.is_cancelled());
        self.office.budget.forfeit(&self.caller.run_id);
    }
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
pub(super) enum Lost {
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
        // The worker knows of the cancellation alone.
        result.plain = matches!(status, Status::ExhaustedSteps | Status::ExhaustedTokens)
            .then(|| "it and its subagents used up what they may (limits.run)".to_owned());
        if result.plain.is_some() {
            result.reason.clone_from(&result.plain);
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
            plain: None,
            transcript: Value::Null,
            steps: 0,
            tokens: 0,
            tool_calls,
        })
    })
}
