//! The rounds of a turn: guards, what is offered now, the model, its calls, and what they ask of the turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentd_llm::{CallContext, Model, ModelError, ModelReply, ModelRequest, ToolCall, Usage};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::end::End;
use crate::guard::{Standing, guard};
use crate::kept;
use crate::observation::{Effect, Observation};
use crate::prompt;
use crate::repeat::{REPEATS, Repeats, Verdict};
use crate::round::Round;
use crate::router::ToolRunner;
use crate::status::Status;
use crate::transcript::Transcript;
use crate::turn::{PARALLEL, TurnInput, TurnLimits};
use crate::view::View;

/// Told after the third of the same rounds.
const NUDGE: &str = "[This has now been done three times in a row, with the same results. Once more and the turn ends. \
    Do something else; wait if you wait for something; or say what stops you.]";
/// Stands where the turn ended before the result came.
const UNKNOWN: &str = "the turn ended before the result came; the call may have been carried out";

pub(crate) struct Turn {
    request: ModelRequest,
    instruction: String,
    /// What the request was made of.
    view: Option<Arc<View>>,
    pub(crate) context: CallContext,
    limits: TurnLimits,
    repeats: Repeats,
    pub(crate) transcript: Transcript,
    pub(crate) text: String,
    pub(crate) rounds: u32,
    pub(crate) steps: u32,
    pub(crate) tool_calls: u32,
    pub(crate) usage: Usage,
}

impl Turn {
    pub(crate) fn new(input: TurnInput, deadline: Instant) -> Self {
        let mut transcript = input.transcript;
        transcript.push_user(input.text);
        Self {
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
            repeats: Repeats::default(),
            transcript,
            text: String::new(),
            rounds: 0,
            steps: 0,
            tool_calls: 0,
            usage: Usage::default(),
        }
    }

    /// All of them.
    pub(crate) async fn rounds(
        &mut self,
        model: &dyn Model,
        tools: &dyn ToolRunner,
        cancel: &CancellationToken,
    ) -> End {
        loop {
            match self.round(model, tools, cancel).await {
                Ok(()) => {}
                Err(end) => return end,
            }
        }
    }

    /// One; what ended the turn.
    async fn round(
        &mut self,
        model: &dyn Model,
        tools: &dyn ToolRunner,
        cancel: &CancellationToken,
    ) -> Result<(), End> {
        self.guard(cancel)?;
        self.look(tools, cancel).await?;
        let reply = self.think(model, cancel).await?;
        let text = reply.text();
        if !text.is_empty() {
            self.text = text;
        }
        let stop = reply.stop;
        let mut round = Round::new(reply.blocks);
        let calls = round.calls();
        if calls.is_empty() {
            round.seal("", &mut self.transcript);
            return Err(End::stopped(stop));
        }
        let (first, began) = (self.tool_calls, Instant::now());
        // Calls whose results nobody could read are not made; the answer may be one.
        let end = match self.guard(cancel) {
            Err(end) if end.status != Status::ExhaustedTokens || !round.answers() => Some(end),
            _ => self.act(&mut round, &calls, tools, cancel).await,
        };
        let end = end.or_else(|| self.finished(&round));
        let end = end.or_else(|| {
            let place = |nth: usize| kept::place(&self.context.run_id, ordinal(first, nth));
            match self.repeats.note(&round.deeds(place), began.elapsed()) {
                Verdict::Progress => None,
                Verdict::Warn => {
                    round.remark(NUDGE);
                    None
                }
                Verdict::Stuck => Some(End::because(
                    Status::LoopDetected,
                    format!("the same calls brought the same results {REPEATS} times in a row"),
                )),
            }
        });
        let reason = end
            .as_ref()
            .and_then(|end| end.reason.as_deref())
            .unwrap_or_default();
        round.seal(reason, &mut self.transcript);
        end.map_or(Ok(()), Err)
    }

    fn guard(&self, cancel: &CancellationToken) -> Result<(), End> {
        let standing = Standing {
            is_cancelled: cancel.is_cancelled(),
            is_late: Instant::now() >= self.context.deadline,
            steps: self.steps,
            tokens: self.usage.total(),
            next: 0,
        };
        guard(&self.limits, standing).map_or(Ok(()), Err)
    }

    /// Takes up what the servers offer now.
    async fn look(&mut self, tools: &dyn ToolRunner, cancel: &CancellationToken) -> Result<(), End> {
        let view = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(End::cancelled()),
            view = tokio::time::timeout_at(self.context.deadline, tools.view()) => view,
        };
        let view = view.map_err(|_| End::late(self.limits.deadline))?;
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
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(End::cancelled()),
            outcome = tokio::time::timeout_at(self.context.deadline, model.complete(&self.request, &self.context)) => outcome,
        };
        match outcome {
            Ok(Ok(reply)) => {
                self.rounds += 1;
                self.usage = self.usage.plus(reply.usage);
                tracing::info!(
                    event = "turn.round",
                    run.id = self.context.run_id,
                    turn = self.rounds,
                    steps = self.steps,
                    tokens = reply.usage.total(),
                );
                Ok(reply)
            }
            Ok(Err(ModelError::Deadline)) | Err(_) => Err(End::late(self.limits.deadline)),
            Ok(Err(error)) => Err(End::failed(&error)),
        }
    }

    /// Carries out the calls of a round at the same time, until all have ended or something ends the turn. Their
    /// ordinals and what they are counted as are those of their order, whichever ends first.
    async fn act(
        &mut self,
        round: &mut Round,
        calls: &[ToolCall],
        tools: &dyn ToolRunner,
        cancel: &CancellationToken,
    ) -> Option<End> {
        let left = self.limits.steps.saturating_sub(self.steps);
        let admitted = calls.get(..left as usize).unwrap_or(calls);
        let begun: Vec<AtomicBool> = admitted.iter().map(|_| AtomicBool::new(false)).collect();
        let mut waiting = admitted.iter().zip(&begun).enumerate();
        let mut running = FuturesUnordered::new();
        let end = loop {
            while running.len() < PARALLEL
                && let Some((nth, (call, begun))) = waiting.next()
            {
                running.push(carried_out(
                    tools,
                    nth,
                    call,
                    ordinal(self.tool_calls, nth),
                    begun,
                ));
            }
            let next = tokio::select! {
                biased;
                () = cancel.cancelled() => break Some(End::cancelled()),
                next = tokio::time::timeout_at(self.context.deadline, running.next()) => next,
            };
            match next {
                Ok(Some((nth, seen))) => round.answer(nth, seen),
                Ok(None) => break None,
                Err(_) => break Some(End::late(self.limits.deadline)),
            }
        };
        drop(running);
        let mut count = 0;
        for (nth, begun) in begun.iter().enumerate() {
            if !begun.load(Ordering::Relaxed) {
                continue;
            }
            count += 1;
            if !round.is_answered(nth) {
                round.answer(nth, Observation::error(UNKNOWN));
            }
        }
        self.steps += count;
        self.tool_calls += count;
        end.or_else(|| (admitted.len() < calls.len()).then(|| End::out_of_steps(self.limits.steps)))
    }

    /// The first `finish` of a round whose calls have all ended.
    fn finished(&mut self, round: &Round) -> Option<End> {
        let finish = |effect| match effect {
            Effect::Finish { status, text, reason } => Some((status, text, reason)),
            Effect::Compact { .. } | Effect::Waited => None,
        };
        let (status, text, reason) = round.effects().into_iter().find_map(finish)?;
        if let Some(text) = text {
            self.text = text;
        }
        Some(End { status, reason })
    }
}

/// One call; marks it as begun when it does.
async fn carried_out(
    tools: &dyn ToolRunner,
    nth: usize,
    call: &ToolCall,
    ordinal: u32,
    begun: &AtomicBool,
) -> (usize, Observation) {
    begun.store(true, Ordering::Relaxed);
    (nth, tools.call(call, ordinal).await)
}

fn ordinal(first: u32, nth: usize) -> u32 {
    first.saturating_add(u32::try_from(nth).unwrap_or(u32::MAX))
}
