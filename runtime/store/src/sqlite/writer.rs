//! The one writer: a thread that owns the connection. What has queued up while a commit was under way is committed
//! together, so that many callers share one flush of the disk. Each batch is a savepoint of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use agentd_state::store::size_of_json;
use agentd_state::{Entry, Retention, StoreError, TaskState, Write};
use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, Savepoint, TransactionBehavior, params};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot, watch};

use super::fault::{Fault, sqlite};
use super::retention::{entry_bytes, entry_bytes_of, expire, retain};
use crate::fault::{taken, too_much, too_much_of_one, unreadable};

/// Batches that wait. A caller beyond it waits for a place, so a slow disk is felt and not hoarded.
const QUEUE: usize = 256;
/// Batches of one commit: bounds how long the first of them waits for the others' rows.
const GROUP: usize = 128;

/// What is to be done, and who waits for it.
struct Job {
    work: Work,
    done: oneshot::Sender<Result<(), StoreError>>,
}

enum Work {
    /// To be kept.
    Batch(Vec<Write>),
    /// To be made and taken back: so many bytes.
    Probe(u64),
}

/// The handle of the thread.
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    damaged: watch::Receiver<Option<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        file: PathBuf,
        retention: Retention,
    ) -> Result<Self, StoreError> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (found, damaged) = watch::channel(None);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || run(connection, &file, retention, queue, &found))
            .map_err(|error| StoreError::Unavailable(format!("the writer cannot start: {error}")))?;
        Ok(Self {
            jobs: Some(jobs),
            damaged,
            thread: Some(thread),
        })
    }

    pub(super) async fn write(&self, batch: Vec<Write>) -> Result<(), StoreError> {
        self.send(Work::Batch(batch)).await
    }

    pub(super) async fn probe(&self, bytes: u64) -> Result<(), StoreError> {
        self.send(Work::Probe(bytes)).await
    }

    /// Returns when a write has found the file damaged. SQLite does not say which record it is about: it is the whole.
    pub(super) async fn damaged(&self) -> StoreError {
        let mut damaged = self.damaged.clone();
        let why = damaged.wait_for(Option::is_some).await;
        match why.map(|why| why.clone()) {
            Ok(Some(why)) => StoreError::Corrupt(why),
            _ => std::future::pending().await,
        }
    }

    async fn send(&self, work: Work) -> Result<(), StoreError> {
        let ended = || StoreError::Unavailable("the writer has ended".to_owned());
        let (done, outcome) = oneshot::channel();
        let jobs = self.jobs.as_ref().ok_or_else(ended)?;
        jobs.send(Job { work, done }).await.map_err(|_| ended())?;
        outcome.await.map_err(|_| ended())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Closing the queue ends the thread after what is in it.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(
    mut connection: Connection,
    file: &Path,
    retention: Retention,
    mut queue: mpsc::Receiver<Job>,
    found: &watch::Sender<Option<String>>,
) {
    let failed = |error: &rusqlite::Error| {
        let error = sqlite(error, file);
        if let StoreError::Corrupt(why) = &error {
            found.send_replace(Some(why.clone()));
        }
        error
    };
    while let Some(first) = queue.blocking_recv() {
        let mut next = Some(first);
        let mut group = Vec::new();
        while let Some(Job { work, done }) = next {
            match work {
                Work::Batch(batch) => group.push((batch, done)),
                Work::Probe(bytes) => {
                    let outcome = probe(&connection, bytes).map_err(|error| failed(&error));
                    let _ = done.send(outcome);
                }
            }
            next = (group.len() < GROUP).then(|| queue.try_recv().ok()).flatten();
        }
        if !group.is_empty() {
            commit(&mut connection, &failed, retention, group);
        }
    }
}

/// Two transactions: what is made and taken back in one is never written.
fn probe(connection: &Connection, bytes: u64) -> rusqlite::Result<()> {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    connection
        .prepare_cached("INSERT OR REPLACE INTO probe (one, filler) VALUES (1, zeroblob(?1))")?
        .execute([bytes])?;
    connection.prepare_cached("DELETE FROM probe")?.execute([])?;
    Ok(())
}

type Waiting = (Vec<Write>, oneshot::Sender<Result<(), StoreError>>);

/// Applies the group in one transaction and answers when it is on the disk.
fn commit(
    connection: &mut Connection,
    failed: &dyn Fn(&rusqlite::Error) -> StoreError,
    retention: Retention,
    group: Vec<Waiting>,
) {
    let batches = group.iter().map(|(batch, _)| batch.as_slice());
    match apply_group(connection, retention, batches) {
        Ok(outcomes) => {
            for ((_, done), outcome) in group.into_iter().zip(outcomes) {
                let _ = done.send(outcome);
            }
        }
        Err(error) => {
            tracing::error!(event = "store.put.fail", err = %failed(&error), batches = group.len());
            for (_, done) in group {
                let _ = done.send(Err(failed(&error)));
            }
        }
    }
}

/// One outcome per batch; an error when nothing was committed.
fn apply_group<'a>(
    connection: &mut Connection,
    retention: Retention,
    batches: impl Iterator<Item = &'a [Write]> + Clone,
) -> rusqlite::Result<Vec<Result<(), StoreError>>> {
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut outcomes = Vec::new();
    let mut last_end: Option<Timestamp> = None;
    let now = batches.clone().flatten().filter_map(time).max();
    if let Some(now) = now {
        expire(&transaction, now)?;
    }
    for batch in batches {
        let savepoint = transaction.savepoint()?;
        // Dropping a savepoint rolls it back.
        outcomes.push(match apply(&savepoint, retention, batch) {
            Ok(()) => savepoint.commit().map(Ok)?,
            Err(Fault::Store(error)) => Err(error),
            Err(Fault::Sqlite(error)) => return Err(error),
        });
        last_end = last_end.max(batch.iter().filter_map(end).max());
    }
    if let Some(now) = last_end {
        retain(&transaction, retention, now)?;
    }
    transaction.commit()?;
    Ok(outcomes)
}

/// When the task that is written has ended.
fn end(write: &Write) -> Option<Timestamp> {
    match write {
        Write::Task(task) => task.state.is_terminal().then_some(task.updated_at),
        Write::Conversation(_) | Write::MessageId { .. } | Write::Entry(_) | Write::DropEntry { .. } => None,
    }
}

/// The time that the write brings, by which entries expire.
fn time(write: &Write) -> Option<Timestamp> {
    match write {
        Write::Task(task) => Some(task.updated_at),
        Write::Entry(entry) => Some(entry.updated_at),
        Write::Conversation(_) | Write::MessageId { .. } | Write::DropEntry { .. } => None,
    }
}

fn apply(savepoint: &Savepoint<'_>, retention: Retention, batch: &[Write]) -> Result<(), Fault> {
    let before = entry_bytes(savepoint)?;
    for write in batch {
        match write {
            Write::Conversation(conversation) => {
                let (record, bytes) = json(conversation, &conversation.id)?;
                savepoint
                    .prepare_cached(
                        "INSERT INTO conversation (id, owner, record) VALUES (?1, ?2, ?3)
                         ON CONFLICT (id) DO UPDATE SET owner = ?2, record = ?3",
                    )?
                    .execute(params![conversation.id, conversation.owner, record])?;
                savepoint
                    .prepare_cached(
                        "INSERT INTO conversation_mark (id, bytes) VALUES (?1, ?2)
                         ON CONFLICT (id) DO UPDATE SET bytes = ?2",
                    )?
                    .execute(params![conversation.id, bytes])?;
            }
            Write::Task(task) => {
                let (record, bytes) = json(task, &task.id)?;
                savepoint
                    .prepare_cached(
                        "INSERT INTO task (id, owner, context_id, open, created_at, record)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                         ON CONFLICT (id) DO UPDATE SET owner = ?2, context_id = ?3, open = ?4, created_at = ?5,
                             record = ?6",
                    )?
                    .execute(params![
                        task.id,
                        task.owner,
                        task.context_id,
                        !task.state.is_terminal(),
                        task.created_at.as_microsecond(),
                        record,
                    ])?;
                savepoint
                    .prepare_cached(
                        "INSERT INTO task_mark (id, waiting, ended_at, bytes) VALUES (?1, ?2, ?3, ?4)
                         ON CONFLICT (id) DO UPDATE SET waiting = ?2, ended_at = ?3, bytes = ?4",
                    )?
                    .execute(params![
                        task.id,
                        task.state == TaskState::Submitted,
                        end(write).map(Timestamp::as_microsecond),
                        bytes,
                    ])?;
                savepoint
                    .prepare_cached(
                        "INSERT INTO task_list (id, owner, context_id, state, updated_at)
                         VALUES (?1, ?2, ?3, ?4, ?5)
                         ON CONFLICT (id) DO UPDATE SET owner = ?2, context_id = ?3, state = ?4, updated_at = ?5",
                    )?
                    .execute(params![
                        task.id,
                        task.owner,
                        task.context_id,
                        task.state.name(),
                        task.updated_at.as_microsecond(),
                    ])?;
            }
            Write::MessageId {
                owner,
                message_id,
                task_id,
                digest,
            } => {
                savepoint
                    .prepare_cached(
                        "INSERT INTO message_id (owner, message_id, task_id, digest) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![owner, message_id, task_id, digest])
                    .map_err(|error| match error.sqlite_error_code() {
                        Some(ErrorCode::ConstraintViolation) => Fault::Store(taken(owner, message_id)),
                        _ => Fault::Sqlite(error),
                    })?;
            }
            Write::Entry(entry) => put_entry(savepoint, entry)?,
            Write::DropEntry { kind, scope, key } => {
                savepoint
                    .prepare_cached("DELETE FROM entry WHERE kind = ?1 AND scope = ?2 AND key = ?3")?
                    .execute(params![kind.name(), scope, key])?;
            }
        }
    }
    let after = entry_bytes(savepoint)?;
    if after > before && after > retention.entries {
        return Err(Fault::Store(too_much(retention.entries)));
    }
    let share = retention.entries_of_one();
    // Nobody has more than there is of all: the scopes are counted where one may.
    if after > before && after > share {
        let scopes: BTreeSet<&str> = batch.iter().filter_map(bounded_scope).collect();
        for scope in scopes {
            if entry_bytes_of(savepoint, scope)? > share {
                return Err(Fault::Store(too_much_of_one(share)));
            }
        }
    }
    Ok(())
}

/// The scope of a bounded entry that is written.
fn bounded_scope(write: &Write) -> Option<&str> {
    match write {
        Write::Entry(entry) if entry.kind.is_bounded() => Some(&entry.scope),
        _ => None,
    }
}

fn put_entry(savepoint: &Savepoint<'_>, entry: &Entry) -> Result<(), Fault> {
    let (record, bytes) = json(entry, &entry.key)?;
    savepoint
        .prepare_cached(
            "INSERT INTO entry (kind, scope, key, expires_at, bytes, record) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (kind, scope, key) DO UPDATE SET expires_at = ?4, bytes = ?5, record = ?6",
        )?
        .execute(params![
            entry.kind.name(),
            entry.scope,
            entry.key,
            entry.expires_at.map(Timestamp::as_microsecond),
            if entry.kind.is_bounded() { bytes } else { 0 },
            record,
        ])?;
    Ok(())
}

/// The record, and what it takes.
fn json(record: &impl Serialize, id: &str) -> Result<(String, i64), StoreError> {
    let text = serde_json::to_string(record).map_err(|error| unreadable("record", id, &error))?;
    let bytes = i64::try_from(size_of_json(text.len() as u64)).unwrap_or(i64::MAX);
    Ok((text, bytes))
}
