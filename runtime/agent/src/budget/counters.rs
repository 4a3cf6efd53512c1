//! What was spent. A value: whoever keeps it writes it down.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Windows of one stretch that are remembered: a clock that jumps to and fro over so many is charged in each for what was
/// spent in it.
const REMEMBERED: usize = 8;
/// Stretches that are remembered; a document has fewer.
const STRETCHES: usize = 64;

/// What was spent, in the form in which it is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Tokens, ever.
    pub lifetime: u64,
    /// By stretch: its windows, the one that was charged last at the end.
    windows: BTreeMap<String, Vec<Spent>>,
}

/// In one window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spent {
    /// When it began.
    pub(super) start: i64,
    pub(super) tokens: u64,
    pub(super) requests: u64,
}

impl Counters {
    /// In the window of this stretch that began then.
    pub(super) fn spent(&self, key: &str, start: i64) -> Spent {
        let known = self
            .windows
            .get(key)
            .and_then(|windows| windows.iter().find(|spent| spent.start == start));
        known.copied().unwrap_or(Spent {
            start,
            ..Spent::default()
        })
    }

    /// One call of so many tokens.
    pub(super) fn charge(&mut self, key: &str, start: i64, tokens: u64) {
        let spent = self.spent(key, start);
        if self.windows.len() >= STRETCHES && !self.windows.contains_key(key) {
            // Of a document before this one: the windows it had are over by now.
            self.windows.pop_first();
        }
        let windows = self.windows.entry(key.to_owned()).or_default();
        windows.retain(|spent| spent.start != start);
        windows.push(Spent {
            start,
            tokens: spent.tokens.saturating_add(tokens),
            requests: spent.requests.saturating_add(1),
        });
        let over = windows.len().saturating_sub(REMEMBERED);
        windows.drain(..over);
    }
}
