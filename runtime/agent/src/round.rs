//! One answer of a model while its calls are carried out.

use agentd_llm::{Block, ToolCall};

use crate::observation::Observation;
use crate::transcript::Transcript;

/// Blocks in their order, calls with what came of them so far.
pub(crate) struct Round(Vec<(Block, Option<Observation>)>);

impl Round {
    pub(crate) fn new(blocks: Vec<Block>) -> Self {
        Self(blocks.into_iter().map(|block| (block, None)).collect())
    }

    /// The next call without a result.
    pub(crate) fn next(&self) -> Option<ToolCall> {
        self.0.iter().find_map(|(block, result)| match (block, result) {
            (Block::ToolCall(call), None) => Some(call.clone()),
            _ => None,
        })
    }

    /// What came of [`Round::next`].
    pub(crate) fn answer(&mut self, observation: Observation) {
        let open = self
            .0
            .iter_mut()
            .find(|(block, result)| matches!(block, Block::ToolCall(_)) && result.is_none());
        if let Some((_, result)) = open {
            *result = Some(observation);
        }
    }

    /// Into the transcript; calls without a result are answered with `reason`.
    pub(crate) fn seal(mut self, reason: &str, transcript: &mut Transcript) {
        while self.next().is_some() {
            self.answer(Observation::error(format!("not carried out: {reason}")));
        }
        transcript.push_round(self.0);
    }
}
