//! The pages of a list: cursors are opaque, and every list ends. Pure.

use std::collections::BTreeSet;

/// Pages of one list; with [`crate::reading::TOOLS`] it bounds a server that sends empty pages for ever.
const PAGES: usize = 1_000;
/// Definitions taken from one server, as JSON: some ten times what fits into the largest context.
const DEFINITION_BYTES: usize = 8 * 1024 * 1024;
/// A cursor is sent back as it came; one that is longer is no cursor.
const CURSOR_BYTES: usize = 4 * 1024;

/// Follows cursors, which are opaque, to their end, a bound or a circle.
pub(crate) struct Pages<T> {
    pub(crate) items: Vec<T>,
    /// The list went on when we stopped.
    pub(crate) cut: bool,
    limit: usize,
    /// What is left of [`DEFINITION_BYTES`].
    bytes: usize,
    next: Option<Option<String>>,
    seen: BTreeSet<String>,
}

impl<T> Pages<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            items: Vec::new(),
            cut: false,
            limit,
            bytes: DEFINITION_BYTES,
            next: Some(None),
            seen: BTreeSet::new(),
        }
    }

    /// The cursor to ask with next: `Some(None)` for the first page, `None` at the end.
    pub(crate) fn next_cursor(&mut self) -> Option<Option<String>> {
        self.next.take()
    }

    /// Takes a page: its items, each with its size.
    pub(crate) fn take(&mut self, items: impl IntoIterator<Item = (T, usize)>, next: Option<String>) {
        for (item, size) in items {
            let left = self.bytes.checked_sub(size);
            let (Some(left), true) = (left, self.items.len() < self.limit) else {
                self.cut = true;
                return;
            };
            self.bytes = left;
            self.items.push(item);
        }
        let Some(cursor) = next.filter(|cursor| !cursor.is_empty()) else {
            return;
        };
        let full = self.items.len() >= self.limit || self.seen.len() >= PAGES || cursor.len() > CURSOR_BYTES;
        if full || !self.seen.insert(cursor.clone()) {
            self.cut = true;
        } else {
            self.next = Some(Some(cursor));
        }
    }
}
