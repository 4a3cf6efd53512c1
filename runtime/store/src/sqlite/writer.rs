//! The one writer: a thread that owns the connection. What has queued up while a commit was under way is committed
//! together, so that many callers share one flush of the disk. Each batch is a savepoint of its own.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use agentd_state::{StoreError, Write};
use rusqlite::{Connection, ErrorCode, Savepoint, TransactionBehavior, params};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use super::fault::{Fault, sqlite, taken, unreadable};

/// Batches that wait. A caller beyond it waits for a place, so a slow disk is felt and not hoarded.
const QUEUE: usize = 256;
/// Batches of one commit: bounds how long the first of them waits for the others' rows.
const GROUP: usize = 128;

/// A batch and who waits for it.
struct Job {
    batch: Vec<Write>,
    done: oneshot::Sender<Result<(), StoreError>>,
}

/// The handle of the thread.
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(connection: Connection, file: PathBuf) -> Result<Self, StoreError> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || run(connection, &file, queue))
            .map_err(|error| StoreError::Unavailable(format!("the writer cannot start: {error}")))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    pub(super) async fn write(&self, batch: Vec<Write>) -> Result<(), StoreError> {
        let ended = || StoreError::Unavailable("the writer has ended".to_owned());
        let (done, outcome) = oneshot::channel();
        let jobs = self.jobs.as_ref().ok_or_else(ended)?;
        jobs.send(Job { batch, done }).await.map_err(|_| ended())?;
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

fn run(mut connection: Connection, file: &Path, mut queue: mpsc::Receiver<Job>) {
    while let Some(first) = queue.blocking_recv() {
        let mut group = vec![first];
        while group.len() < GROUP {
            match queue.try_recv() {
                Ok(job) => group.push(job),
                Err(_) => break,
            }
        }
        commit(&mut connection, file, group);
    }
}

/// Applies the group in one transaction and answers when it is on the disk.
fn commit(connection: &mut Connection, file: &Path, group: Vec<Job>) {
    let batches = group.iter().map(|job| job.batch.as_slice());
    match apply_group(connection, batches) {
        Ok(outcomes) => {
            for (job, outcome) in group.into_iter().zip(outcomes) {
                let _ = job.done.send(outcome);
            }
        }
        Err(error) => {
            tracing::error!(event = "store.put.fail", err = %sqlite(&error, file), batches = group.len());
            for job in group {
                let _ = job.done.send(Err(sqlite(&error, file)));
            }
        }
    }
}

/// One outcome per batch; an error when nothing was committed.
fn apply_group<'a>(
    connection: &mut Connection,
    batches: impl Iterator<Item = &'a [Write]>,
) -> rusqlite::Result<Vec<Result<(), StoreError>>> {
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut outcomes = Vec::new();
    for batch in batches {
        let savepoint = transaction.savepoint()?;
        // Dropping a savepoint rolls it back.
        outcomes.push(match apply(&savepoint, batch) {
            Ok(()) => savepoint.commit().map(Ok)?,
            Err(Fault::Store(error)) => Err(error),
            Err(Fault::Sqlite(error)) => return Err(error),
        });
    }
    transaction.commit()?;
    Ok(outcomes)
}

fn apply(savepoint: &Savepoint<'_>, batch: &[Write]) -> Result<(), Fault> {
    for write in batch {
        match write {
            Write::Conversation(conversation) => {
                savepoint
                    .prepare_cached(
                        "INSERT OR REPLACE INTO conversation (id, owner, record) VALUES (?1, ?2, ?3)",
                    )?
                    .execute(params![
                        conversation.id,
                        conversation.owner,
                        json(conversation, &conversation.id)?
                    ])?;
            }
            Write::Task(task) => {
                savepoint
                    .prepare_cached(
                        "INSERT OR REPLACE INTO task (id, owner, context_id, open, created_at, record)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                    )?
                    .execute(params![
                        task.id,
                        task.owner,
                        task.context_id,
                        !task.state.is_terminal(),
                        task.created_at.as_microsecond(),
                        json(task, &task.id)?,
                    ])?;
            }
            Write::MessageId {
                owner,
                message_id,
                task_id,
            } => {
                savepoint
                    .prepare_cached(
                        "INSERT INTO message_id (owner, message_id, task_id) VALUES (?1, ?2, ?3)",
                    )?
                    .execute(params![owner, message_id, task_id])
                    .map_err(|error| match error.sqlite_error_code() {
                        Some(ErrorCode::ConstraintViolation) => Fault::Store(taken(owner, message_id)),
                        _ => Fault::Sqlite(error),
                    })?;
            }
        }
    }
    Ok(())
}

fn json(record: &impl Serialize, id: &str) -> Result<String, StoreError> {
    serde_json::to_string(record).map_err(|error| unreadable("record", id, &error))
}
