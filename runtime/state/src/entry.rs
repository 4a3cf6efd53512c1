//! Small records of one common form: what the internal tools and the supervisor keep beside conversations and tasks.
//! What a value means is known where it is used.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// What the agent chose to remember.
    Memory,
    /// What a turn made.
    Artifact,
    /// The plan of a conversation.
    Plan,
    /// A subagent.
    Subagent,
    /// Counters of a budget.
    Budget,
    /// What a turn asks a person, and the turn as it stood then.
    Gate,
    /// Where a caller wants to be told of a task, with the secrets that its endpoint asks for.
    Push,
    /// That somebody is still to be told of a task.
    Outbox,
}

impl EntryKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Memory,
        Self::Artifact,
        Self::Plan,
        Self::Subagent,
        Self::Budget,
        Self::Gate,
        Self::Push,
        Self::Outbox,
    ];

    /// Its name in keys and columns.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Artifact => "artifact",
            Self::Plan => "plan",
            Self::Subagent => "subagent",
            Self::Budget => "budget",
            Self::Gate => "gate",
            Self::Push => "push",
            Self::Outbox => "outbox",
        }
    }

    /// Whether a model or a caller decides how much of it there is: such entries share one bound in bytes
    /// ([`crate::Retention::entries`]). The others are bounded where they are made.
    pub const fn is_bounded(self) -> bool {
        matches!(self, Self::Memory | Self::Artifact)
    }
}

/// One entry. `kind`, `scope` and `key` together name it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What it is.
    pub kind: EntryKind,
    /// Whose it is. An entry whose scope is a conversation's key ([`crate::conversation_key`]) goes with the
    /// conversation.
    pub scope: String,
    /// Its name within the scope; lists are in the order of its bytes.
    pub key: String,
    /// The value.
    pub value: Value,
    /// From when it is there no more; in microseconds.
    pub expires_at: Option<Timestamp>,
    /// When it was written.
    pub updated_at: Timestamp,
}

impl Entry {
    /// Whether it is there no more.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at
            .is_some_and(|at| at.as_microsecond() <= now.as_microsecond())
    }
}

/// A part of a list: the entries of a kind and scope, in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryQuery {
    /// What they are.
    pub kind: EntryKind,
    /// Whose they are.
    pub scope: String,
    /// What their keys begin with.
    pub prefix: String,
    /// Only keys after this one: the last one of the page before.
    pub after: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EntryPage {
    /// In the order of their keys. Fewer than the limit when they are large: together they are not much more than
    /// [`PAGE_BYTES`].
    pub entries: Vec<Entry>,
    /// Whether there are more after the last one.
    pub more: bool,
}

/// What a page of a list takes in memory, and the entry that went beyond it.
pub const PAGE_BYTES: u64 = 4 * 1024 * 1024;

impl EntryQuery {
    /// Whether a key that follows the lower bound still belongs to the list.
    pub fn holds(&self, key: &str) -> bool {
        key.starts_with(&self.prefix)
    }

    /// The key from which the list begins, and whether that key itself is left out.
    pub fn begin(&self) -> (&str, bool) {
        match &self.after {
            Some(after) if *after >= self.prefix => (after, true),
            _ => (&self.prefix, false),
        }
    }
}

/// Fills a page up to the bounds that every engine keeps.
#[derive(Debug)]
pub struct PageBuilder {
    page: EntryPage,
    bytes: u64,
    limit: usize,
}

impl PageBuilder {
    /// An empty page for at most so many.
    pub fn new(limit: usize) -> Self {
        Self {
            page: EntryPage::default(),
            bytes: 0,
            limit,
        }
    }

    /// Whether there is room for one more; if not, there are more than the page holds.
    pub fn has_room(&mut self) -> bool {
        self.page.more = self.page.entries.len() >= self.limit || self.bytes >= PAGE_BYTES;
        !self.page.more
    }

    /// Adds one that takes so many bytes.
    pub fn push(&mut self, entry: Entry, bytes: u64) {
        self.bytes += bytes;
        self.page.entries.push(entry);
    }

    /// The page.
    pub fn finish(self) -> EntryPage {
        self.page
    }
}
