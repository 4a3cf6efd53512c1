//! The turn: think, call tools, observe, until the model has nothing more to call or a limit is reached. Ends in any
//! case with a transcript that the next turn can go on from.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::text::{CONTENT, content};
use agentd_llm::{Model, Sink, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::compaction::ContextLimits;
use crate::end::End;
use crate::keeping;
use crate::resumed::Resumed;
use crate::rounds::Turn;
use crate::router::ToolRunner;
use crate::status::Status;
use crate::transcript::Transcript;

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
#[derive(Clone)]
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
    /// It was given up while it waited, and goes on: nothing is said, and this came of the call that waited.
    pub resumed: Option<Resumed>,
    /// What it may use up.
    pub limits: TurnLimits,
    /// JSON Schema of the answer; none for a text.
    pub output_schema: Option<Value>,
    /// How its conversation is kept short.
    pub context: ContextLimits,
    /// How much of it may be kept after the turn, as JSON.
    pub kept_bytes: u64,
    /// Hears the answer while it is written.
    pub listener: Arc<dyn Sink>,
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
    /// The same without words of the model's or of its endpoint: for who may not read the conversation.
    pub plain: Option<String>,
    /// The conversation, this turn included.
    pub transcript: Transcript,
    /// Answers of the model.
    pub rounds: u32,
    /// How often the conversation was made shorter.
    pub compactions: u32,
    /// Model calls and tool calls.
    pub steps: u32,
    /// Of them, tool calls.
    pub tool_calls: u32,
    /// Tokens.
    pub usage: Usage,
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
    let asked = input.text.clone();
    let kept_bytes = input.kept_bytes;
    tracing::info!(
        target: CONTENT,
        event = "content.message",
        run.id = input.run_id,
        text = content(&asked),
    );
    let mut turn = Turn::new(input, deadline);
    let end = turn.rounds(model, tools, cancel).await;
    if turn.is_unfit {
        // It would be refused with every message that comes after it.
        turn.transcript.take_back(&asked);
    }
    let (transcript, is_shorter) = keeping::within(std::mem::take(&mut turn.transcript), kept_bytes);
    let run_id = &turn.context.run_id;
    if is_shorter {
        tracing::warn!(
            event = "context.trimmed",
            run.id = run_id,
            "the conversation is longer than what can be kept of it"
        );
    }
    tracing::info!(
        target: CONTENT,
        event = "content.answer",
        run.id = run_id,
        text = content(&turn.text),
        reason = end.reason.as_deref().map(content),
    );
    log_end(&turn, &end, began);
    TurnOutcome {
        status: end.status,
        text: turn.text,
        reason: end.reason,
        plain: end.loggable,
        transcript,
        rounds: turn.rounds,
        compactions: turn.compactions,
        steps: turn.steps,
        tool_calls: turn.tool_calls,
        usage: turn.usage,
    }
}

/// One that did not complete is a warning: whoever reads nothing else is told of it too.
fn log_end(turn: &Turn, end: &End, began: Instant) {
    let run_id = &turn.context.run_id;
    let status = end.status.label();
    let dur_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    if matches!(end.status, Status::Completed | Status::Waiting) {
        tracing::info!(
            event = "turn.done",
            run.id = run_id,
            status,
            reason = end.loggable,
            rounds = turn.rounds,
            steps = turn.steps,
            tool_calls = turn.tool_calls,
            tokens = turn.usage.total(),
            dur_ms,
        );
    } else {
        tracing::warn!(
            event = "turn.done",
            run.id = run_id,
            status,
            reason = end.loggable,
            rounds = turn.rounds,
            steps = turn.steps,
            tool_calls = turn.tool_calls,
            tokens = turn.usage.total(),
            dur_ms,
        );
    }
}
