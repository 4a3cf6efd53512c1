//! What a conversation becomes when it is too long: what was said first as a summary, the request that is worked on word
//! for word, and the last messages as they were. A round is one item of a transcript, so that no call is ever parted
//! from its result. Pure; the model that writes the summary is asked elsewhere.

use serde::{Deserialize, Serialize};

use agentd_base::text::clip;
use serde_json::{Value, json};

use crate::transcript::{Item, Piece, Transcript};

/// What a model is told of what came before when no summary could be made.
const DEGRADED_BYTES: usize = 8 * 1024;
/// Of it, the beginning: what it was all about.
const BEGINNING_BYTES: usize = 2 * 1024;
/// Entries of a list of a summary, and how long they and the narrative are.
const ENTRIES: usize = 64;
const ENTRY_CHARS: usize = 1_000;
const NARRATIVE_CHARS: usize = 16_000;
/// What is left of a result where even the last round alone is too long.
const LEAST_RESULT_CHARS: usize = 500;
/// A part of a conversation as the summariser reads it, where all of it is too long for that as well.
const PART_CHARS: [usize; 4] = [usize::MAX, 8_000, 1_000, 200];

/// How a conversation is kept short.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ContextLimits {
    /// The part of the window from which on a conversation is shortened.
    pub compact_at: f64,
    /// Messages that stay as they were.
    pub keep_last: u32,
    /// What the model takes, in tokens.
    pub window: u64,
}

impl ContextLimits {
    /// Tokens from which on a conversation is shortened.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of an estimate"
    )]
    pub(crate) fn threshold(&self) -> u64 {
        (self.window as f64 * self.compact_at.clamp(0.05, 1.0)) as u64
    }
}

/// What a summary holds, as the model is asked for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Summary {
    goals: Vec<String>,
    decisions: Vec<String>,
    open: Vec<String>,
    facts: Vec<String>,
    narrative: String,
}

/// Its JSON Schema.
pub(crate) fn summary_schema() -> Value {
    let list = |what: &str| json!({"type": "array", "items": {"type": "string"}, "description": what});
    json!({
        "type": "object",
        "properties": {
            "goals": list("What the caller wants, in its own words where they matter."),
            "decisions": list("What was decided, and why."),
            "open": list("What is not done yet, and what was promised."),
            "facts": list("Names, numbers, ids, paths and results that will be needed, exactly as they were."),
            "narrative": {"type": "string", "description": "What happened, in order, in a few sentences."},
        },
        "required": ["goals", "decisions", "open", "facts", "narrative"],
        "additionalProperties": false,
    })
}

impl Summary {
    /// As it stands in the conversation.
    pub(crate) fn told(&self) -> String {
        let mut told = String::from("[What was said before, in summary]");
        for (name, entries) in [
            ("Goals", &self.goals),
            ("Decisions", &self.decisions),
            ("Open", &self.open),
            ("Facts", &self.facts),
        ] {
            if entries.is_empty() {
                continue;
            }
            told.push_str("\n\n");
            told.push_str(name);
            told.push(':');
            for entry in entries.iter().take(ENTRIES) {
                told.push_str("\n- ");
                told.push_str(&clip(entry, ENTRY_CHARS));
            }
        }
        let narrative: String = self.narrative.trim().chars().take(NARRATIVE_CHARS).collect();
        if !narrative.is_empty() {
            told.push_str("\n\n");
            told.push_str(&narrative);
        }
        told
    }
}

/// Where a conversation is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut(usize);

impl Cut {
    /// Before this item.
    pub(crate) fn at(item: usize) -> Self {
        Self(item)
    }
}

/// The last `keep_last` messages stay, fewer where they are longer than `room`, and at least the last. `task` is the item
/// that is worked on. None when nothing would go.
pub(crate) fn cut(transcript: &Transcript, task: usize, keep_last: usize, room: u64) -> Option<Cut> {
    let items = transcript.items();
    let (mut cut, mut messages, mut chars) = (items.len(), 0, 0);
    for (at, item) in items.iter().enumerate().rev() {
        let (more, longer) = (messages + item.messages(), chars + item.chars());
        let is_last = at + 1 == items.len();
        if !is_last && (messages >= keep_last || longer > room) {
            break;
        }
        (cut, messages, chars) = (at, more, longer);
    }
    let goes = |(at, item): (usize, &Item)| at != task && !matches!(item, Item::Summary(_));
    let some_go = items.iter().take(cut).enumerate().any(goes);
    some_go.then_some(Cut(cut))
}

/// The conversation after it, and where its task is then.
pub(crate) fn fold(transcript: &Transcript, task: usize, cut: Cut, summary: String) -> (Transcript, usize) {
    let mut shorter = Transcript::default();
    let items = transcript.items();
    shorter.push(Item::Summary(summary));
    let mut now = shorter.items().len();
    if task < cut.0
        && let Some(item) = items.get(task)
    {
        shorter.push(item.clone());
        now = shorter.items().len().saturating_sub(1);
    }
    for (at, item) in items.iter().enumerate().skip(cut.0) {
        shorter.push(item.clone());
        if at == task {
            now = shorter.items().len().saturating_sub(1);
        }
    }
    (shorter, now)
}

/// Shortens the results of the last round so that it takes no more than `room`; true when it did.
pub(crate) fn trim_last(transcript: &mut Transcript, room: u64) -> bool {
    transcript.change(|items| match items.last_mut() {
        Some(Item::Round(pieces)) => trim_results(pieces, room),
        Some(Item::User(_) | Item::Summary(_)) | None => false,
    })
}

fn trim_results(pieces: &mut [Piece], room: u64) -> bool {
    let calls = pieces
        .iter()
        .filter(|piece| matches!(piece, Piece::Call(_)))
        .count();
    let share = usize::try_from(room).unwrap_or(usize::MAX) / calls.max(1);
    let share = share.max(LEAST_RESULT_CHARS);
    let mut trimmed = false;
    for piece in pieces {
        let Piece::Call(call) = piece else { continue };
        let text = &mut call.result.text;
        if let Some((end, _)) = text.char_indices().nth(share) {
            text.truncate(end);
            text.push_str("\n[cut here to make room]");
            trimmed = true;
        }
    }
    trimmed
}

/// What goes, for the summariser, in at most `room` characters.
pub(crate) fn told(transcript: &Transcript, cut: Cut, room: usize) -> String {
    let items: Vec<&Item> = transcript.items().iter().take(cut.0).collect();
    let mut text = String::new();
    for part in PART_CHARS {
        text = items.iter().map(|item| lines(item, part)).collect();
        if text.len() <= room {
            return text;
        }
    }
    ends(&text, room.min(DEGRADED_BYTES.max(room / 2)))
}

/// What stands in the place of a summary that could not be made.
pub(crate) fn degraded(transcript: &Transcript, cut: Cut) -> String {
    let items = transcript.items().iter().take(cut.0);
    let text: String = items.map(|item| lines(item, 1_000)).collect();
    format!(
        "[What was said before is cut; this is left of it]\n\n{}",
        ends(&text, DEGRADED_BYTES)
    )
}

/// Beginning and end of a text.
fn ends(text: &str, room: usize) -> String {
    if text.len() <= room {
        return text.to_owned();
    }
    let beginning = text.floor_char_boundary(BEGINNING_BYTES.min(room / 4));
    let end = text.ceil_char_boundary(text.len() - room.saturating_sub(beginning));
    format!(
        "{}\n[…]\n{}",
        text.get(..beginning).unwrap_or_default(),
        text.get(end..).unwrap_or_default()
    )
}

fn lines(item: &Item, part: usize) -> String {
    let line = |who: &str, what: &str| format!("{who}: {}\n", bounded(what, part));
    match item {
        Item::Summary(text) => line("before", text),
        Item::User(text) => line("caller", text),
        Item::Round(pieces) => pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => line("you", text),
                Piece::Call(call) => {
                    let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
                    let called = format!("{} {}", call.name, bounded(&arguments, part));
                    line("call", &called) + &line("result", &call.result.text)
                }
                Piece::Opaque(_) => String::new(),
            })
            .collect(),
    }
}

fn bounded(text: &str, part: usize) -> String {
    match text.char_indices().nth(part) {
        Some((end, _)) => format!("{} […]", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
