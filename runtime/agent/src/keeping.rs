//! How much of a conversation outlives its turn: no more than a store takes and a frame carries. Calls made side by side may
//! bring more in one round than that, and compaction comes before a round and not after the last. Results go first, the
//! oldest before the newest, then what was said first. Pure.

use crate::compaction::{self, Cut};
use crate::tokens;
use crate::transcript::{Item, Piece, Transcript};

/// What is left of a result: less with each pass over the conversation.
const RESULT_CHARS: [usize; 3] = [8_000, 2_000, 500];
/// Stands after the beginning of a result.
const CUT: &str = "\n[cut here to make room]";

/// The conversation within so many bytes, as far as that can be; whether it was shortened.
pub(crate) fn within(transcript: Transcript, limit: u64) -> (Transcript, bool) {
    let mut bytes = tokens::json(&transcript);
    if bytes <= limit {
        return (transcript, false);
    }
    let mut transcript = transcript;
    for most in RESULT_CHARS {
        transcript.change(|items| {
            for item in items {
                if bytes <= limit {
                    return;
                }
                let before = tokens::json(item);
                trim(item, most);
                bytes = bytes.saturating_sub(before.saturating_sub(tokens::json(item)));
            }
        });
        if bytes <= limit {
            return (transcript, true);
        }
    }
    // What was said alone is too much: half of it goes, and half of what is left.
    while tokens::json(&transcript) > limit && transcript.items().len() > 1 {
        let cut = Cut::at(transcript.items().len().div_ceil(2));
        let told = compaction::degraded(&transcript, cut);
        let before = transcript.items().len();
        (transcript, _) = compaction::fold(&transcript, usize::MAX, cut, told);
        if transcript.items().len() >= before {
            break;
        }
    }
    (transcript, true)
}

fn trim(item: &mut Item, most: usize) {
    let Item::Round(pieces) = item else { return };
    for piece in pieces {
        let Piece::Call(call) = piece else { continue };
        let text = &mut call.result.text;
        // One that was cut before is not cut for the words at its end.
        let is_long = text.char_indices().nth(most + CUT.len()).is_some();
        if let Some((end, _)) = text.char_indices().nth(most).filter(|_| is_long) {
            text.truncate(end);
            text.push_str(CUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use agentd_llm::{Arguments, Block, Message, ToolCall};

    use super::*;
    use crate::observation::Observation;

    const KEPT: u64 = 1024 * 1024;

    fn round(nth: usize, calls: usize, result: &str) -> Vec<(Block, Option<Observation>)> {
        let call = |place: usize| {
            let call = ToolCall {
                id: format!("call_{nth}_{place}"),
                name: "read".into(),
                arguments: Arguments::Object(Default::default()),
            };
            (Block::ToolCall(call), Some(Observation::result(result)))
        };
        (0..calls).map(call).collect()
    }

    fn results(transcript: &Transcript) -> Vec<usize> {
        let messages = transcript.messages();
        let results = messages.iter().flat_map(|message| match message {
            Message::Results(results) => results.as_slice(),
            Message::User(_) | Message::Assistant(_) => &[],
        });
        results.map(|result| result.content.chars().count()).collect()
    }

    #[test]
    fn the_newest_results_stay_longest() {
        let mut transcript = Transcript::default();
        transcript.push_user("go");
        for nth in 0..3 {
            transcript.push_round(round(nth, 10, &"ä\"".repeat(5_000)));
        }
        let whole = tokens::json(&transcript);
        assert_eq!(within(transcript.clone(), whole), (transcript.clone(), false));
        let (kept, is_shorter) = within(transcript.clone(), whole - 1);
        assert!(is_shorter);
        let cut = 8_000 + CUT.len();
        let expected: Vec<_> = [[cut; 10], [10_000; 10], [10_000; 10]].concat();
        assert_eq!(results(&kept), expected);
        let (kept, _) = within(transcript.clone(), whole / 3);
        assert!(tokens::json(&kept) <= whole / 3);
        let lengths = results(&kept);
        assert_eq!(lengths.len(), 30, "every call has its result");
        assert!(lengths.is_sorted(), "{lengths:?}");
    }

    #[test]
    fn what_a_store_does_not_take_leaves_no_turn() {
        // One round of many calls; more words than results; a task that is too long by itself.
        let mut many = Transcript::default();
        many.push_user("go");
        many.push_round(round(0, 128, &"𝄞".repeat(10_000)));
        let mut words = Transcript::default();
        for nth in 0..20 {
            words.push_user(format!("{nth} {}", "x".repeat(200_000)));
            words.push_round(vec![(Block::Text("y".repeat(100_000)), None)]);
        }
        for transcript in [many, words] {
            assert!(tokens::json(&transcript) > KEPT);
            let (kept, is_shorter) = within(transcript.clone(), KEPT);
            assert!(is_shorter && tokens::json(&kept) <= KEPT);
            assert_eq!(kept.items().last().is_some(), transcript.items().last().is_some());
            // It is one that can be gone on from.
            let stored = serde_json::to_value(&kept).unwrap();
            let loaded = Transcript::load(stored);
            assert_eq!((loaded.transcript, loaded.repairs), (kept, vec![]));
        }
    }
}
