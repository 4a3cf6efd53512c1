//! A working set in the process's own memory, with its indexes and its retention. Records are kept as the JSON that a
//! disk would get, so that what they are counted as is what they take: it is the process's own memory that callers
//! fill. It does no I/O; what it let go of is told, for whoever keeps a copy elsewhere.

use std::collections::hash_map;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;

use agentd_state::store::size_of_json;
use agentd_state::{
    Conversation, Entry, EntryKind, EntryPage, EntryQuery, Noted, OpenTask, PageBuilder, Retention,
    StoreError, Task, TaskPage, TaskQuery, TaskState, Write, conversation_key,
};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::fault::{taken, too_much, too_much_of_one, unreadable};

/// Names an entry.
pub(crate) type EntryName = (EntryKind, String, String);

/// Names a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Key {
    Conversation(String),
    Task(String),
    /// Of a principal: the message id.
    Message(String, String),
    Entry(EntryName),
}

/// What is stored of a record.
#[derive(Debug, Clone)]
pub(crate) struct Record(Box<str>);

/// A task and what it is looked up by.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    record: Record,
    owner: String,
    context_id: String,
    state: TaskState,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// An entry and when it goes.
#[derive(Debug, Clone)]
pub(crate) struct EntryRow {
    record: Record,
    /// Microseconds since 1970.
    expires_at: Option<i64>,
    /// When it was written.
    updated_at: Timestamp,
}

/// A write whose record is written out.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Conversation(String, Record),
    Task(String, Row),
    MessageId((String, String), Noted),
    Entry(EntryName, EntryRow),
    DropEntry(EntryName),
}

/// The records.
#[derive(Debug, Default)]
pub(crate) struct Working {
    conversations: HashMap<String, Record>,
    tasks: HashMap<String, Row>,
    /// All tasks, by when they changed, and the same by principal.
    by_time: BTreeSet<(i64, String)>,
    by_owner: BTreeSet<(String, i64, String)>,
    /// Ended tasks, the longest ended first.
    ended: BTreeSet<(Timestamp, String)>,
    /// Tasks of a conversation.
    members: HashMap<String, usize>,
    message_ids: HashMap<(String, String), Noted>,
    /// The message ids of a task, which go with it.
    messages_of: HashMap<String, Vec<(String, String)>>,
    /// Ended tasks and all conversations.
    kept: u64,
    entries: BTreeMap<EntryName, EntryRow>,
    /// Entries that end, the first first.
    expiries: BTreeSet<(i64, EntryName)>,
    /// Entries that are bounded.
    entry_bytes: u64,
}

impl Record {
    fn of(record: &impl Serialize, id: &str) -> Result<Self, StoreError> {
        let json = serde_json::to_string(record).map_err(|error| unreadable("record", id, &error))?;
        Ok(Self(json.into()))
    }

    fn read<T: DeserializeOwned>(&self, kind: &str, id: &str) -> Result<T, StoreError> {
        serde_json::from_str(&self.0).map_err(|error| unreadable(kind, id, &error))
    }

    /// As a JSON value.
    pub(crate) fn value(&self) -> Value {
        // It was written from one.
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    fn bytes(&self) -> u64 {
        size_of_json(self.0.len() as u64)
    }
}

impl Row {
    /// As a JSON value.
    pub(crate) fn value(&self) -> Value {
        self.record.value()
    }

    fn key(&self) -> String {
        conversation_key(&self.owner, &self.context_id)
    }

    /// What it counts among that which is kept.
    fn kept(&self) -> u64 {
        if self.state.is_terminal() {
            self.record.bytes()
        } else {
            0
        }
    }
}

/// What an entry counts against the bound.
fn counted(name: &EntryName, row: &EntryRow) -> u64 {
    if name.0.is_bounded() {
        row.record.bytes()
    } else {
        0
    }
}

impl Change {
    /// Writes the record out.
    pub(crate) fn of(write: Write) -> Result<Self, StoreError> {
        Ok(match write {
            Write::Conversation(conversation) => {
                let record = Record::of(&conversation, &conversation.id)?;
                Self::Conversation(conversation.id, record)
            }
            Write::Task(task) => {
                let row = Row {
                    record: Record::of(&task, &task.id)?,
                    owner: task.owner,
                    context_id: task.context_id,
                    state: task.state,
                    created_at: task.created_at,
                    updated_at: task.updated_at,
                };
                Self::Task(task.id, row)
            }
            Write::MessageId {
                owner,
                message_id,
                task_id,
                digest,
            } => Self::MessageId((owner, message_id), Noted { task_id, digest }),
            Write::Entry(entry) => {
                let row = EntryRow {
                    record: Record::of(&entry, &entry.key)?,
                    expires_at: entry.expires_at.map(Timestamp::as_microsecond),
                    updated_at: entry.updated_at,
                };
                Self::Entry((entry.kind, entry.scope, entry.key), row)
            }
            Write::DropEntry { kind, scope, key } => Self::DropEntry((kind, scope, key)),
        })
    }

    /// The time that it brings, by which others expire.
    fn time(&self) -> Option<Timestamp> {
        match self {
            Self::Task(_, row) => Some(row.updated_at),
            Self::Entry(_, row) => Some(row.updated_at),
            Self::Conversation(..) | Self::MessageId(..) | Self::DropEntry(_) => None,
        }
    }

    /// When the task that it writes has ended.
    fn end(&self) -> Option<Timestamp> {
        match self {
            Self::Task(_, row) if row.state.is_terminal() => Some(row.updated_at),
            _ => None,
        }
    }
}

/// When entries expire that are there while `batch` is written.
pub(crate) fn time_of(batch: &[Change]) -> Option<Timestamp> {
    batch.iter().filter_map(Change::time).max()
}

/// When the last task of `batch` ended.
pub(crate) fn end_of(batch: &[Change]) -> Option<Timestamp> {
    batch.iter().filter_map(Change::end).max()
}

impl Working {
    /// Whether the batch can be applied.
    pub(crate) fn check(&self, batch: &[Change], retention: Retention) -> Result<(), StoreError> {
        let mut new = HashSet::new();
        let mut entries: HashMap<&EntryName, u64> = HashMap::new();
        let mut bytes = self.entry_bytes;
        for change in batch {
            match change {
                Change::MessageId(key, _) => {
                    if self.message_ids.contains_key(key) || !new.insert(key) {
                        return Err(taken(&key.0, &key.1));
                    }
                }
                Change::Entry(name, row) => {
                    bytes = bytes + counted(name, row) - self.replaced(&entries, name);
                    entries.insert(name, counted(name, row));
                }
                Change::DropEntry(name) => {
                    bytes -= self.replaced(&entries, name);
                    entries.insert(name, 0);
                }
                Change::Conversation(..) | Change::Task(..) => {}
            }
        }
        if bytes > retention.entries && bytes > self.entry_bytes {
            return Err(too_much(retention.entries));
        }
        let share = retention.entries_of_one();
        // Nobody has more than there is of all: the scopes are counted where one may.
        if bytes > self.entry_bytes && bytes > share {
            let scopes: BTreeSet<&String> = entries.keys().map(|(_, scope, _)| scope).collect();
            if scopes
                .into_iter()
                .any(|scope| self.bytes_of(scope, &entries) > share)
            {
                return Err(too_much_of_one(share));
            }
        }
        Ok(())
    }

    /// What the entries of a scope count, with what the batch does to them.
    fn bytes_of(&self, scope: &str, batch: &HashMap<&EntryName, u64>) -> u64 {
        let is_of = |name: &&EntryName| name.1 == scope;
        let before = self
            .entries
            .iter()
            .filter(|(name, _)| is_of(name) && !batch.contains_key(name));
        let kept: u64 = before.map(|(name, row)| counted(name, row)).sum();
        let new = batch.iter().filter(|(name, _)| is_of(name));
        kept + new.map(|(_, bytes)| *bytes).sum::<u64>()
    }

    /// What the entry of this name counts, with what the batch has done to it so far.
    fn replaced(&self, batch: &HashMap<&EntryName, u64>, name: &EntryName) -> u64 {
        let before = || self.entries.get(name).map_or(0, |row| counted(name, row));
        batch.get(name).copied().unwrap_or_else(before)
    }

    /// Applies one change.
    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Conversation(id, record) => {
                self.kept += record.bytes();
                if let Some(before) = self.conversations.insert(id, record) {
                    self.kept -= before.bytes();
                }
            }
            Change::Task(id, row) => self.put(id, row),
            Change::MessageId(key, noted) => {
                let task_id = noted.task_id.clone();
                self.messages_of.entry(task_id).or_default().push(key.clone());
                self.message_ids.insert(key, noted);
            }
            Change::Entry(name, row) => {
                self.take_entry(&name);
                self.entry_bytes += counted(&name, &row);
                if let Some(at) = row.expires_at {
                    self.expiries.insert((at, name.clone()));
                }
                self.entries.insert(name, row);
            }
            Change::DropEntry(name) => {
                self.take_entry(&name);
            }
        }
    }

    fn put(&mut self, id: String, row: Row) {
        self.take(&id);
        self.kept += row.kept();
        *self.members.entry(row.key()).or_default() += 1;
        if row.state.is_terminal() {
            self.ended.insert((row.updated_at, id.clone()));
        }
        let at = row.updated_at.as_microsecond();
        self.by_time.insert((at, id.clone()));
        self.by_owner.insert((row.owner.clone(), at, id.clone()));
        self.tasks.insert(id, row);
    }

    /// Takes a task out; whether it was the last of its conversation, whose key it is.
    fn take(&mut self, id: &str) -> Option<String> {
        let row = self.tasks.remove(id)?;
        self.kept -= row.kept();
        self.ended.remove(&(row.updated_at, id.to_owned()));
        let at = row.updated_at.as_microsecond();
        self.by_time.remove(&(at, id.to_owned()));
        self.by_owner.remove(&(row.owner.clone(), at, id.to_owned()));
        let hash_map::Entry::Occupied(mut members) = self.members.entry(row.key()) else {
            return None;
        };
        if *members.get() > 1 {
            *members.get_mut() -= 1;
            return None;
        }
        Some(members.remove_entry().0)
    }

    fn take_entry(&mut self, name: &EntryName) -> bool {
        let Some(row) = self.entries.remove(name) else {
            return false;
        };
        self.entry_bytes -= counted(name, &row);
        if let Some(at) = row.expires_at {
            self.expiries.remove(&(at, name.clone()));
        }
        true
    }

    /// Lets go of the entries that have expired.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Vec<Key> {
        let mut gone = Vec::new();
        while let Some((at, _)) = self.expiries.first() {
            if *at > now.as_microsecond() {
                break;
            }
            let Some((_, name)) = self.expiries.pop_first() else {
                break;
            };
            self.take_entry(&name);
            gone.push(Key::Entry(name));
        }
        gone
    }

    /// Lets go of what ended before `now` less the age, and of what is too much, the longest ended first.
    pub(crate) fn retain(&mut self, retention: Retention, now: Timestamp) -> Vec<Key> {
        let expired = now.checked_sub(retention.age).unwrap_or(Timestamp::MIN);
        let mut gone = Vec::new();
        while let Some((ended_at, _)) = self.ended.first() {
            if self.kept <= retention.bytes && *ended_at >= expired {
                break;
            }
            let Some((_, id)) = self.ended.pop_first() else {
                break;
            };
            for key in self.messages_of.remove(&id).unwrap_or_default() {
                self.message_ids.remove(&key);
                gone.push(Key::Message(key.0, key.1));
            }
            if let Some(conversation) = self.take(&id) {
                self.forget(conversation, &mut gone);
            }
            gone.push(Key::Task(id));
        }
        gone
    }

    /// A conversation without tasks goes, and with it the entries whose scope it is.
    fn forget(&mut self, conversation: String, gone: &mut Vec<Key>) {
        for kind in EntryKind::ALL {
            let from = (kind, conversation.clone(), String::new());
            let names: Vec<EntryName> = self
                .entries
                .range(from..)
                .map(|(name, _)| name)
                .take_while(|name| name.0 == kind && name.1 == conversation)
                .cloned()
                .collect();
            for name in names {
                self.take_entry(&name);
                gone.push(Key::Entry(name));
            }
        }
        if let Some(record) = self.conversations.remove(&conversation) {
            self.kept -= record.bytes();
            gone.push(Key::Conversation(conversation));
        }
    }

    /// A conversation by id.
    pub(crate) fn conversation(&self, id: &str) -> Result<Option<Conversation>, StoreError> {
        let record = self.conversations.get(id);
        record.map(|record| record.read("conversation", id)).transpose()
    }

    /// A task by id.
    pub(crate) fn task(&self, id: &str) -> Result<Option<Task>, StoreError> {
        let row = self.tasks.get(id);
        row.map(|row| row.record.read("task", id)).transpose()
    }

    /// What was noted of a message id.
    pub(crate) fn message(&self, owner: &str, message_id: &str) -> Option<Noted> {
        let key = (owner.to_owned(), message_id.to_owned());
        self.message_ids.get(&key).cloned()
    }

    /// The tasks that are not terminal, oldest first.
    pub(crate) fn open_tasks(&self) -> Vec<OpenTask> {
        let open = self.tasks.iter().filter(|(_, row)| !row.state.is_terminal());
        let mut open: Vec<(Timestamp, OpenTask)> = open
            .map(|(id, row)| {
                let task = OpenTask {
                    id: id.clone(),
                    owner: row.owner.clone(),
                    context_id: row.context_id.clone(),
                    state: row.state,
                    bytes: row.record.bytes(),
                };
                (row.created_at, task)
            })
            .collect();
        open.sort_by(|(a, one), (b, other)| (a, &one.id).cmp(&(b, &other.id)));
        open.into_iter().map(|(_, task)| task).collect()
    }

    /// A page of the list of tasks.
    pub(crate) fn list(&self, query: &TaskQuery) -> TaskPage {
        let end = match &query.after {
            Some(mark) => (mark.updated_at.as_microsecond(), mark.id.clone()),
            None => (i64::MAX, String::new()),
        };
        let since = query.since.map_or(i64::MIN, |since| since.as_microsecond());
        match &query.owner {
            None => {
                let ids = |end| {
                    self.by_time
                        .range((since, String::new())..end)
                        .rev()
                        .map(|(_, id)| id)
                };
                let all = ids((i64::MAX, String::new()));
                // A page may end before what is asked for begins.
                let page = (end.0 >= since).then(|| ids(end));
                self.page(query, page.into_iter().flatten(), all)
            }
            Some(owner) => {
                let ids = |(at, id)| {
                    let from = (owner.clone(), since, String::new());
                    let ids = self.by_owner.range(from..(owner.clone(), at, id));
                    ids.rev().map(|(_, _, id)| id)
                };
                let all = ids((i64::MAX, String::new()));
                let page = (end.0 >= since).then(|| ids(end));
                self.page(query, page.into_iter().flatten(), all)
            }
        }
    }

    fn page<'a>(
        &self,
        query: &TaskQuery,
        ids: impl Iterator<Item = &'a String>,
        all: impl Iterator<Item = &'a String>,
    ) -> TaskPage {
        let asked = |id: &&'a String| {
            let row = self.tasks.get(*id)?;
            let context = query.context_id.as_ref();
            let asked = context.is_none_or(|context| *context == row.context_id)
                && query.state.is_none_or(|state| state == row.state);
            asked.then_some(row)
        };
        let (mut page, mut bytes) = (TaskPage::default(), 0);
        page.total = all.filter(|id| asked(id).is_some()).count() as u64;
        for id in ids {
            let Some(row) = asked(&id) else { continue };
            if !page.has_room(query.limit, bytes) {
                break;
            }
            match row.record.read("task", id) {
                Ok(task) => page.tasks.push(task),
                Err(error) => tracing::error!(event = "store.record.corrupt", err = %error),
            }
            bytes += row.record.bytes();
        }
        page
    }

    /// An entry by name, if it has not expired.
    pub(crate) fn entry(&self, name: &EntryName, now: Timestamp) -> Result<Option<Entry>, StoreError> {
        let row = self.entries.get(name).filter(|row| row.lives(now));
        row.map(|row| row.record.read(name.0.name(), &name.2)).transpose()
    }

    /// A page of entries.
    pub(crate) fn entries(&self, query: &EntryQuery, now: Timestamp) -> EntryPage {
        let (from, without) = query.begin();
        let from = (query.kind, query.scope.clone(), from.to_owned());
        let from = if without {
            Bound::Excluded(from)
        } else {
            Bound::Included(from)
        };
        let mut page = PageBuilder::new(query.limit);
        for (name, row) in self.entries.range((from, Bound::Unbounded)) {
            if name.0 != query.kind || name.1 != query.scope || !query.holds(&name.2) {
                break;
            }
            if !row.lives(now) {
                continue;
            }
            if !page.has_room() {
                break;
            }
            match row.record.read(query.kind.name(), &name.2) {
                Ok(entry) => page.push(entry, row.record.bytes()),
                Err(error) => tracing::error!(event = "store.record.corrupt", err = %error),
            }
        }
        page.finish()
    }
}

impl EntryRow {
    /// As a JSON value.
    pub(crate) fn value(&self) -> Value {
        self.record.value()
    }

    fn lives(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| at > now.as_microsecond())
    }
}
