//! The rounds of a turn: guards, what is offered now, the model, its calls, and what they ask of the turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentd_llm::{CallContext, Model, ModelError, ModelReply, ModelRequest, OutputSchema, ToolCall, Usage};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::answer::{RE_ASKS, Shape};
use crate::compaction::ContextLimits;
use crate::end::End;
use crate::guard::{Standing, guard};
use crate::kept;
use crate::observation::{Effect, Observation};
use crate::prompt;
use crate::repeat::{REPEATS, Repeats, Verdict};
use crate::resumed::SoFar;
use crate::round::Round;
use crate::router::ToolRunner;
use crate::status::Status;
use crate::tokens::{self, Gauge};
use crate::tools::ASK;
use crate::transcript::Transcript;
use crate::turn::{PARALLEL, TurnInput, TurnLimits};
use crate::view::View;
use crate::voice::Voice;

/// Told after the third of the same rounds.
const NUDGE: &str = "[This has now been done three times in a row, with the same results. Once more and the turn ends. \
    Do something else; wait if you wait for something; or say what stops you.]";
/// The tool that gives the answer.
const FINISH: &str = "finish";
/// Stands where the turn ended before the result came.
const UNKNOWN: &str = "the turn ended before the result came; the call may have been carried out";

pub(crate) struct Turn {
    request: ModelRequest,
    instruction: String,
    /// What the request was made of.
    view: Option<Arc<View>>,
    pub(crate) context: CallContext,
    voice: Arc<Voice>,
    pub(crate) limits: TurnLimits,
    /// What the answer has to be; why that cannot be checked.
    shape: Result<Option<Shape>, String>,
    re_asks: u32,
    pub(crate) window: ContextLimits,
    pub(crate) gauge: Gauge,
    /// Characters of a request beside the conversation.
    pub(crate) fixed: u64,
    /// The item of the transcript that this turn is about.
    pub(crate) task: usize,
    /// A tool asked for a shorter conversation, and how much of it is to stay.
    pub(crate) compact: Option<Option<u32>>,
    /// Tokens below which it is not shortened again.
    pub(crate) next_fold: u64,
    pub(crate) compactions: u32,
    repeats: Repeats,
    pub(crate) transcript: Transcript,
    pub(crate) text: String,
    pub(crate) rounds: u32,
    pub(crate) steps: u32,
    pub(crate) tool_calls: u32,
    /// How much of the conversation may be kept, as JSON.
    kept_bytes: u64,
    pub(crate) usage: Usage,
    /// The provider refused the conversation as it is.
    pub(crate) is_unfit: bool,
}

impl Turn {
    pub(crate) fn new(input: TurnInput, deadline: Instant) -> Self {
        let mut transcript = input.transcript;
        let tool_calls = match input.resumed {
            None => {
                transcript.push_user(input.text);
                0
            }
            Some(resumed) => {
                transcript.answer_last(&resumed.call, resumed.seen);
                resumed.tool_calls
            }
        };
        let voice = Arc::new(Voice::new(input.listener));
        let output_schema = input.output_schema.as_ref().and_then(|schema| {
            let schema = schema.as_object()?.clone();
            let name = "answer".to_owned();
            Some(OutputSchema { name, schema })
        });
        Self {
            request: ModelRequest {
                output_schema,
                ..ModelRequest::default()
            },
            shape: input.output_schema.map(Shape::new).transpose(),
            re_asks: 0,
            window: input.context,
            gauge: Gauge::default(),
            fixed: 0,
            task: transcript.last_user(),
            compact: None,
            next_fold: 0,
            compactions: 0,
            instruction: input.instruction,
            view: None,
            context: CallContext {
                run_id: input.run_id,
                traceparent: input.traceparent,
                deadline,
                sink: Some(voice.clone()),
            },
            voice,
            limits: input.limits,
            repeats: Repeats::default(),
            transcript,
            text: String::new(),
            rounds: 0,
            steps: 0,
            tool_calls,
            kept_bytes: input.kept_bytes,
            usage: Usage::default(),
            is_unfit: false,
        }
    }

    /// All of them.
    pub(crate) async fn rounds(
        &mut self,
        model: &dyn Model,
        tools: &dyn ToolRunner,
        cancel: &CancellationToken,
    ) -> End {
        if let Err(fault) = &self.shape {
            return End::because(Status::Failed, fault.clone());
        }
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
        let folded = self.compactions;
        self.make_room(model, cancel).await?;
        if self.compactions != folded {
            self.guard(cancel)?;
        }
        let reply = match self.think(model, cancel).await? {
            Ok(reply) => reply,
            // The window is smaller than we were told, or the provider counts otherwise.
            Err(error) => {
                if !self.halve(model, cancel).await? {
                    return Err(End::failed(&error));
                }
                self.guard(cancel)?;
                self.think(model, cancel)
                    .await?
                    .map_err(|error| End::failed(&error))?
            }
        };
        let text = reply.text();
        if !text.is_empty() || matches!(self.shape, Ok(Some(_))) {
            self.text = text;
        }
        let stop = reply.stop;
        let mut round = Round::new(reply.blocks);
        if round.calls().is_empty() {
            round.seal("", &mut self.transcript);
            return self.settled(End::stopped(stop));
        }
        let mut made = round.whole(stop);
        let (first, began) = (self.tool_calls, Instant::now());
        let guard = self.guard(cancel).err();
        if guard
            .as_ref()
            .is_some_and(|end| end.status == Status::ExhaustedTokens)
        {
            // Calls whose results nobody could read are not made; the answer is none of them.
            made.retain(|(_, call)| call.name == FINISH);
        }
        let end = match guard {
            Some(end) if end.status != Status::ExhaustedTokens || made.is_empty() => Some(end),
            _ => self.act(&mut round, &made, tools, cancel).await,
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
            .unwrap_or("the turn has ended");
        self.compact = self
            .compact
            .or_else(|| round.effects().into_iter().find_map(compaction));
        round.seal(reason, &mut self.transcript);
        end.map_or(Ok(()), |end| self.settled(end))
    }

    /// The end, unless an answer has to be given again in the shape that was asked for.
    fn settled(&mut self, end: End) -> Result<(), End> {
        let Ok(Some(shape)) = &self.shape else {
            return Err(end);
        };
        if end.status != Status::Completed {
            return Err(end);
        }
        let fault = match shape.check(&self.text) {
            Ok(json) => {
                self.text = json;
                return Err(end);
            }
            Err(fault) => fault,
        };
        if self.re_asks >= RE_ASKS {
            let reason = format!("the answer does not fit output_schema, also when asked again: {fault}");
            return Err(End::quoting(Status::Failed, Some(reason)));
        }
        self.re_asks += 1;
        self.transcript.push_user(shape.ask_again(&fault));
        tracing::warn!(
            event = "turn.reask",
            run.id = self.context.run_id,
            turn = self.rounds
        );
        Ok(())
    }

    fn guard(&self, cancel: &CancellationToken) -> Result<(), End> {
        let standing = Standing {
            is_cancelled: cancel.is_cancelled(),
            is_late: Instant::now() >= self.context.deadline,
            steps: self.steps,
            tokens: self.usage.total(),
            next: self.gauge.known(self.chars()),
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
            self.fixed = tokens::text(&self.request.system) + tokens::tools(&self.request.tools);
            self.view = Some(view);
        }
        Ok(())
    }

    /// A reply, or that the request was too long for the model.
    async fn think(
        &mut self,
        model: &dyn Model,
        cancel: &CancellationToken,
    ) -> Result<Result<ModelReply, ModelError>, End> {
        self.steps += 1;
        let asked = self.chars();
        self.transcript.tell(&mut self.request.messages);
        self.voice.next_round();
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(End::cancelled()),
            outcome = tokio::time::timeout_at(self.context.deadline, model.complete(&self.request, &self.context)) => outcome,
        };
        match outcome {
            Ok(Ok(reply)) => {
                self.is_unfit = false;
                self.rounds += 1;
                self.usage = self.usage.plus(self.gauge.charge(asked, &reply));
                self.gauge.calibrate(asked, reply.usage.input);
                tracing::info!(
                    event = "turn.round",
                    run.id = self.context.run_id,
                    turn = self.rounds,
                    steps = self.steps,
                    tokens = reply.usage.total(),
                );
                Ok(Ok(reply))
            }
            Ok(Err(error @ ModelError::TooLong { .. })) => {
                self.is_unfit = true;
                Ok(Err(error))
            }
            Ok(Err(error @ ModelError::Rejected { .. })) => {
                self.is_unfit = true;
                Err(End::failed(&error))
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
        calls: &[(usize, ToolCall)],
        tools: &dyn ToolRunner,
        cancel: &CancellationToken,
    ) -> Option<End> {
        let left = self.limits.steps.saturating_sub(self.steps);
        let admitted = calls.get(..left as usize).unwrap_or(calls);
        let begun: Vec<AtomicBool> = admitted.iter().map(|_| AtomicBool::new(false)).collect();
        // A question is put when the calls beside it have their results: these stand then, and the turn may be given up.
        let asks = admitted.iter().rposition(|(_, call)| call.name == ASK);
        let all = || admitted.iter().zip(&begun).enumerate();
        let mut waiting = all().filter(|(nth, _)| Some(*nth) != asks);
        let mut last = asks.and_then(|nth| all().nth(nth));
        let mut running = FuturesUnordered::new();
        let end = loop {
            while running.len() < PARALLEL
                && let Some((nth, ((place, call), begun))) = waiting.next()
            {
                running.push(carried_out(
                    tools,
                    *place,
                    call,
                    ordinal(self.tool_calls, nth),
                    begun,
                ));
            }
            if running.is_empty()
                && let Some((nth, ((place, call), begun))) = last.take()
            {
                if let Some(so_far) = self.so_far(round, *place, admitted.len()) {
                    tools.may_wait(so_far);
                }
                running.push(carried_out(
                    tools,
                    *place,
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
                Ok(Some((place, seen))) => round.answer(place, seen),
                Ok(None) => break None,
                Err(_) => break Some(End::late(self.limits.deadline)),
            }
        };
        drop(running);
        let mut count = 0;
        for ((place, _), begun) in admitted.iter().zip(&begun) {
            if !begun.load(Ordering::Relaxed) {
                continue;
            }
            count += 1;
            if !round.is_answered(*place) {
                round.answer(*place, Observation::error(UNKNOWN));
            }
        }
        self.steps += count;
        self.tool_calls += count;
        end.or_else(|| (admitted.len() < calls.len()).then(|| End::out_of_steps(self.limits.steps)))
    }

    /// The turn as it stands while this call is the only one of the round's `made` that has no result; none where another
    /// has none or wants more of the turn, or where that is more than is kept.
    fn so_far(&self, round: &Round, place: usize, made: usize) -> Option<SoFar> {
        let mut others = (0..round.calls().len()).filter(|nth| *nth != place);
        if !others.all(|nth| round.is_answered(nth)) || !round.effects().is_empty() {
            return None;
        }
        let mut transcript = self.transcript.clone();
        round.clone().seal("it waits", &mut transcript);
        let is_kept = tokens::json(&transcript) <= self.kept_bytes;
        let made = u32::try_from(made).unwrap_or(u32::MAX);
        Some(SoFar {
            call: (*transcript.last_calls().get(place)?).to_owned(),
            transcript: serde_json::to_value(&transcript).ok().filter(|_| is_kept)?,
            steps: self.steps.saturating_add(made),
            tool_calls: self.tool_calls.saturating_add(made),
            tokens: self.usage.total(),
        })
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
        Some(End::quoting(status, reason))
    }
}

/// One call, at its place in the round; marks it as begun when it does.
async fn carried_out(
    tools: &dyn ToolRunner,
    place: usize,
    call: &ToolCall,
    ordinal: u32,
    begun: &AtomicBool,
) -> (usize, Observation) {
    begun.store(true, Ordering::Relaxed);
    (place, tools.call(call, ordinal).await)
}

fn compaction(effect: Effect) -> Option<Option<u32>> {
    match effect {
        Effect::Compact { keep_last } => Some(keep_last),
        Effect::Finish { .. } | Effect::Waited => None,
    }
}

fn ordinal(first: u32, nth: usize) -> u32 {
    first.saturating_add(u32::try_from(nth).unwrap_or(u32::MAX))
}
