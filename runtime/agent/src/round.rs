//! One answer of a model while its calls are carried out.

use agentd_llm::{Block, Stop, ToolCall};

use crate::observation::{Effect, Observation};
use crate::repeat::Deeds;
use crate::transcript::Transcript;

/// In the place of what a call that was cut off would have brought.
const CUT: &str = "not carried out: the length limit cut this answer off in the middle of the call; do it in smaller pieces, \
    each with a call of its own";

/// Blocks in their order, calls with what came of them so far.
#[derive(Clone)]
pub(crate) struct Round(Vec<(Block, Option<Observation>)>);

impl Round {
    pub(crate) fn new(blocks: Vec<Block>) -> Self {
        Self(blocks.into_iter().map(|block| (block, None)).collect())
    }

    /// Its calls in their order.
    pub(crate) fn calls(&self) -> Vec<ToolCall> {
        self.pairs().map(|(call, _)| call.clone()).collect()
    }

    /// The calls that the model had said to their end. Where its length limit cut the answer in a call, that may lack what
    /// was still to come, and nothing of it shows: it is not made.
    pub(crate) fn whole(&mut self, stop: Stop) -> Vec<(usize, ToolCall)> {
        let mut calls = self.calls();
        let last_said = self
            .0
            .iter()
            .rfind(|(block, _)| !matches!(block, Block::Opaque(_)));
        let ends_in_call = matches!(last_said, Some((Block::ToolCall(_), _)));
        if stop == Stop::Length && ends_in_call && calls.pop().is_some() {
            self.answer(calls.len(), Observation::error(CUT));
        }
        calls.into_iter().enumerate().collect()
    }

    fn pairs(&self) -> impl Iterator<Item = (&ToolCall, Option<&Observation>)> {
        self.0.iter().filter_map(|(block, seen)| match block {
            Block::ToolCall(call) => Some((call, seen.as_ref())),
            _ => None,
        })
    }

    fn results(&mut self) -> impl DoubleEndedIterator<Item = &mut Option<Observation>> {
        let calls = self
            .0
            .iter_mut()
            .filter(|(block, _)| matches!(block, Block::ToolCall(_)));
        calls.map(|(_, seen)| seen)
    }

    /// What came of one of [`Round::calls`].
    pub(crate) fn answer(&mut self, nth: usize, observation: Observation) {
        if let Some(seen) = self.results().nth(nth) {
            *seen = Some(observation);
        }
    }

    /// Whether the call has its result.
    pub(crate) fn is_answered(&self, nth: usize) -> bool {
        self.pairs().nth(nth).is_some_and(|(_, seen)| seen.is_some())
    }

    /// Told to the model with the last result.
    pub(crate) fn remark(&mut self, remark: &str) {
        if let Some(seen) = self.results().rev().find_map(Option::as_mut) {
            seen.text.push_str("\n\n");
            seen.text.push_str(remark);
        }
    }

    /// What the calls ask of the turn, in their order.
    pub(crate) fn effects(&self) -> Vec<Effect> {
        let effects = self.pairs().filter_map(|(_, seen)| seen?.effect.clone());
        effects.collect()
    }

    /// What it did, to be compared with other rounds. `place` is where the whole of a result is read that was too long:
    /// another for each call, whatever it says.
    pub(crate) fn deeds(&self, place: impl Fn(usize) -> String) -> Deeds {
        let mut deeds = Deeds::default();
        for (nth, (call, seen)) in self.pairs().enumerate() {
            let Some(seen) = seen else { continue };
            let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
            let has_waited = seen.effect == Some(Effect::Waited);
            let result = seen.text.replace(&place(nth), "");
            deeds.call(&call.name, &arguments, &result, seen.is_error, has_waited);
        }
        deeds
    }

    /// Into the transcript; calls without a result are answered with `reason`.
    pub(crate) fn seal(mut self, reason: &str, transcript: &mut Transcript) {
        for seen in self.results().filter(|seen| seen.is_none()) {
            *seen = Some(Observation::error(format!("not carried out: {reason}")));
        }
        transcript.push_round(self.0);
    }
}
