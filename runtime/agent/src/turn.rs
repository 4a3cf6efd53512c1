//! The turn: think, call tools, observe, until the model has nothing more to call or a limit is reached. Ends in any
//! case with a transcript that the next turn can go on from.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::class::{Class, Classified as _};
use agentd_llm::{CallContext, Model, ModelError, ModelReply, ModelRequest, Stop, Usage};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::prompt;
use crate::round::Round;
use crate::router::ToolRunner;
use crate::status::Status;
use crate::transcript::Transcript;
use crate::view::View;

/// Calls of one round that are carried out at the same time.
pub const PARALLEL: usize = 8;

/// What a turn may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnLimits {
    /// Model calls and tool calls.
    pub steps: u32,
    /// Tokens, both ways.
    pub tokens: u64,
    /// Wall clock.
    pub deadline: Duration,
}

/// What a turn begins with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnInput {
    /// The run.
    pub run_id: String,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// The standing instruction; may be empty.
    pub instruction: String,
    /// The conversation so far.
    pub transcript: Transcript,
    /// What the caller says now.
    pub text: String,
    /// What it may use up.
    pub limits: TurnLimits,
}

/// What a turn ended with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnOutcome {
    /// How.
    pub status: Status,
    /// The answer; what was said last when it was cut short. May be empty.
    pub text: String,
    /// One line for people; none when there is nothing to say.
    pub reason: Option<String>,
    /// The conversation, this turn included.
    pub transcript: Transcript,
    /// Model calls and tool calls.
    pub steps: u32,
    /// Of them, tool calls.
    pub tool_calls: u32,
    /// Tokens.
    pub usage: Usage,
}

/// Why a turn is over.
struct End {
    status: Status,
    reason: Option<String>,
}

impl End {
    fn because(status: Status, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: Some(reason.into()),
        }
    }
}

/// Runs a turn to its end.
pub async fn run(
    input: TurnInput,
    model: &dyn Model,
    tools: &dyn ToolRunner,
    cancel: &CancellationToken,
) -> TurnOutcome {
    let began = Instant::now();
    // A deadline beyond what a clock can hold is none.
    let deadline = began
        .checked_add(input.limits.deadline)
        .unwrap_or(began + Duration::from_secs(u32::MAX.into()));
    let mut turn = Turn {
        request: ModelRequest::default(),
        instruction: input.instruction,
        view: None,
        context: CallContext {
            run_id: input.run_id,
            traceparent: input.traceparent,
            deadline,
            sink: None,
        },
        limits: input.limits,
        transcript: input.transcript,
        text: String::new(),
        steps: 0,
        tool_calls: 0,
        usage: Usage::default(),
    };
    turn.transcript.push_user(input.text);
    let end = turn.rounds(model, tools, cancel).await;
    let run_id = &turn.context.run_id;
    tracing::info!(
        event = "turn.done",
        run.id = run_id,
        status = end.status.label(),
        reason = end.reason,
        steps = turn.steps,
        tool_calls = turn.tool_calls,
        tokens = turn.usage.total(),
        dur_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    );
    TurnOutcome {
        status: end.status,
        text: turn.text,
        reason: end.reason,
        transcript: turn.transcript,
        steps: turn.steps,
        tool_calls: turn.tool_calls,
        usage: turn.usage,
    }
}

struct Turn {
    request: ModelRequest,
    instruction: String,
    /// What the request was made of.
    view: Option<Arc<View>>,
    context: CallContext,
    limits: TurnLimits,
    transcript: Transcript,
    text: String,
    steps: u32,
    tool_calls: u32,
    usage: Usage,
}

impl Turn {
    async fn rounds(&mut self, model: &dyn Model, tools: &dyn ToolRunner, cancel: &CancellationToken) -> End {
        loop {
            if let Some(end) = self.guard(cancel) {
                return end;
            }
            if let Err(end) = self.look(tools, cancel).await {
                return end;
            }
            let reply = match self.think(model, cancel).await {
                Ok(reply) => reply,
                Err(end) => return end,
            };
            let text = reply.text();
            if !text.is_empty() {
                self.text = text;
            }
            let stop = reply.stop;
            let mut round = Round::new(reply.blocks);
            if round.next().is_none() {
                round.seal("", &mut self.transcript);
                return finished(stop);
            }
            let end = self.act(&mut round, tools, cancel).await;
            let reason = end
                .as_ref()
                .and_then(|end| end.reason.as_deref())
                .unwrap_or_default();
            round.seal(reason, &mut self.transcript);
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// What ends a turn before its next step: cancelled, deadline, steps, tokens, in this order.
    fn guard(&self, cancel: &CancellationToken) -> Option<End> {
        let TurnLimits {
            steps,
            tokens,
            deadline,
        } = self.limits;
        if cancel.is_cancelled() {
            return Some(cancelled());
        }
        if Instant::now() >= self.context.deadline {
            return Some(late(deadline));
        }
        if self.steps >= steps {
            return Some(End::because(
                Status::ExhaustedSteps,
                format!("limits.run.steps ({steps}) is used up"),
            ));
        }
        if self.usage.total() >= tokens {
            return Some(End::because(
                Status::ExhaustedTokens,
                format!("limits.run.tokens ({tokens}) is used up"),
            ));
        }
        None
    }

    /// Takes up what the servers offer now.
    async fn look(&mut self, tools: &dyn ToolRunner, cancel: &CancellationToken) -> Result<(), End> {
        let view = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(cancelled()),
            view = tokio::time::timeout_at(self.context.deadline, tools.view()) => view,
        };
        let view = view.map_err(|_| late(self.limits.deadline))?;
        let is_known = self.view.as_ref().is_some_and(|known| Arc::ptr_eq(known, &view));
        if !is_known {
            self.request.system = prompt::system(&self.instruction, &view.servers);
            self.request.tools = view.tools.clone();
            self.view = Some(view);
        }
        Ok(())
    }

    async fn think(&mut self, model: &dyn Model, cancel: &CancellationToken) -> Result<ModelReply, End> {
        self.steps += 1;
        self.request.messages = self.transcript.messages();
        tracing::debug!(
            event = "turn.round",
            run.id = self.context.run_id,
            steps = self.steps
        );
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(cancelled()),
            outcome = tokio::time::timeout_at(self.context.deadline, model.complete(&self.request, &self.context)) => outcome,
        };
        match outcome {
            Ok(Ok(reply)) => {
                self.usage = self.usage.plus(reply.usage);
                Ok(reply)
            }
            Ok(Err(ModelError::Deadline)) | Err(_) => Err(late(self.limits.deadline)),
            Ok(Err(error)) => Err(failed(&error)),
        }
    }

    /// Carries out the calls of a round in their order, until all are or something ends the turn.
    async fn act(
        &mut self,
        round: &mut Round,
        tools: &dyn ToolRunner,
        cancel: &CancellationToken,
    ) -> Option<End> {
        while let Some(call) = round.next() {
            if let Some(end) = self.guard(cancel) {
                return Some(end);
            }
            let ordinal = self.tool_calls;
            self.steps += 1;
            self.tool_calls += 1;
            let (observation, end) = tokio::select! {
                biased;
                () = cancel.cancelled() => (None, Some(cancelled())),
                outcome = tokio::time::timeout_at(self.context.deadline, tools.call(&call, ordinal)) => match outcome {
                    Ok(observation) => (Some(observation), None),
                    Err(_) => (None, Some(late(self.limits.deadline))),
                },
            };
            round.answer(observation.unwrap_or_else(|| {
                crate::Observation::error(
                    "the turn ended before the result came; the call may have been carried out",
                )
            }));
            if end.is_some() {
                return end;
            }
        }
        None
    }
}

fn finished(stop: Stop) -> End {
    match stop {
        Stop::End | Stop::Other => End {
            status: Status::Completed,
            reason: None,
        },
        Stop::Length => End::because(Status::Completed, "the model's length limit cut the answer"),
        Stop::Refused => End::because(Status::Refused, "the model refused"),
    }
}

fn cancelled() -> End {
    End::because(Status::Cancelled, "the turn was cancelled")
}

fn late(deadline: Duration) -> End {
    let deadline = agentd_base::duration::Duration(deadline);
    End::because(
        Status::Deadline,
        format!("limits.run.deadline ({deadline}) is over"),
    )
}

fn failed(error: &ModelError) -> End {
    let status = match error.class() {
        Class::Denied | Class::Unavailable => Status::ModelUnavailable,
        Class::Invalid | Class::Conflict | Class::Internal => Status::Failed,
    };
    End::because(status, error.to_string())
}
