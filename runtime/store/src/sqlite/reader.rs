//! Reads: a few connections of their own, used on blocking threads, so that a read never waits for a write.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use agentd_state::store::size_of_json;
use agentd_state::{
    Conversation, Entry, EntryKind, EntryPage, EntryQuery, Noted, OpenTask, PageBuilder, StoreError, Task,
    TaskState,
};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use super::fault::Fault;
use super::schema::connect_reader;
use crate::fault::unreadable;

/// Reads at once: they come from memory or a local disk, so more would only keep caches.
const READERS: usize = 4;

/// The connections. Opened when they are first needed, kept after.
pub(super) struct Readers {
    file: PathBuf,
    slots: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub(super) fn new(file: PathBuf) -> Self {
        Self {
            file,
            slots: Arc::new(Semaphore::new(READERS)),
            idle: Arc::default(),
        }
    }

    /// Runs a read. It is finished even if nobody waits for it any more.
    pub(super) async fn read<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let closed = || StoreError::Unavailable("it is closed".to_owned());
        let slot = self.slots.clone().acquire_owned().await.map_err(|_| closed())?;
        let (file, idle) = (self.file.clone(), self.idle.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match kept {
                Some(connection) => connection,
                None => connect_reader(&file).map_err(|error| Fault::from(error).at(&file))?,
            };
            // A connection that failed is closed: it may be the cause.
            let value = read(&connection).map_err(|fault| fault.at(&file))?;
            idle.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connection);
            Ok(value)
        });
        reading.await.unwrap_or_else(|_| Err(closed()))
    }
}

pub(super) fn conversation(connection: &Connection, id: &str) -> Result<Option<Conversation>, Fault> {
    record(
        connection,
        "conversation",
        "SELECT record FROM conversation WHERE id = ?1",
        id,
    )
}

pub(super) fn task(connection: &Connection, id: &str) -> Result<Option<Task>, Fault> {
    record(connection, "task", "SELECT record FROM task WHERE id = ?1", id)
}

pub(super) fn message(
    connection: &Connection,
    owner: &str,
    message_id: &str,
) -> Result<Option<Noted>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT task_id, digest FROM message_id WHERE owner = ?1 AND message_id = ?2")?;
    let noted = statement.query_row(params![owner, message_id], |row| {
        Ok(Noted {
            task_id: row.get(0)?,
            digest: row.get(1)?,
        })
    });
    Ok(noted.optional()?)
}

/// Oldest first, by their index.
pub(super) const OPEN: &str =
    "SELECT id, task.owner, task.context_id, state, bytes FROM task JOIN task_mark USING (id)
    JOIN task_list USING (id) WHERE open = 1 ORDER BY created_at, id";

pub(super) fn open_tasks(connection: &Connection) -> Result<Vec<OpenTask>, Fault> {
    let mut statement = connection.prepare_cached(OPEN)?;
    let tasks = statement.query_map([], |row| {
        Ok(OpenTask {
            id: row.get(0)?,
            owner: row.get(1)?,
            context_id: row.get(2)?,
            // Of a record that cannot be read the state is not known: whoever takes it up finds that out.
            state: TaskState::named(row.get_ref(3)?.as_str().unwrap_or_default())
                .unwrap_or(TaskState::Working),
            bytes: u64::try_from(row.get::<_, i64>(4)?).unwrap_or_default(),
        })
    })?;
    Ok(tasks.collect::<Result<_, _>>()?)
}

pub(super) fn entry(
    connection: &Connection,
    kind: EntryKind,
    scope: &str,
    key: &str,
    now: Timestamp,
) -> Result<Option<Entry>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT record FROM entry WHERE kind = ?1 AND scope = ?2 AND key = ?3
         AND (expires_at IS NULL OR expires_at > ?4)",
    )?;
    let found = statement.query_row(params![kind.name(), scope, key, now.as_microsecond()], |row| {
        parsed(row, 0)
    });
    let parsed = found.optional()?.transpose();
    Ok(parsed.map_err(|error| unreadable(kind.name(), key, &error))?)
}

/// The list of one kind and scope from a key on, by the primary key.
pub(super) const ENTRIES: &str = "SELECT key, record FROM entry WHERE kind = ?1 AND scope = ?2 AND key >= ?3
    AND (expires_at IS NULL OR expires_at > ?4) ORDER BY key";

pub(super) fn entries(
    connection: &Connection,
    query: &EntryQuery,
    now: Timestamp,
) -> Result<EntryPage, Fault> {
    let mut statement = connection.prepare_cached(ENTRIES)?;
    let (from, without) = query.begin();
    let mut rows = statement.query(params![
        query.kind.name(),
        query.scope,
        from,
        now.as_microsecond()
    ])?;
    let mut page = PageBuilder::new(query.limit);
    while let Some(row) = rows.next()? {
        let key = shown(row, 0)?;
        if without && key == from {
            continue;
        }
        if !query.holds(&key) || !page.has_room() {
            break;
        }
        match parsed(row, 1)? {
            Ok(entry) => page.push(entry, size_of_json(bytes(row, 1)?.len() as u64)),
            // One bad record does not keep the agent from the others.
            Err(error) => {
                let error = unreadable(query.kind.name(), &key, &error);
                tracing::error!(event = "store.record.corrupt", err = %error);
            }
        }
    }
    Ok(page.finish())
}

/// The bytes of a text: SQLite keeps what a disk made of them, and does not look whether they still are one.
pub(super) fn bytes<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a [u8]> {
    Ok(row.get_ref(column)?.as_bytes()?)
}

/// A name, as it can be shown.
pub(super) fn shown(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(String::from_utf8_lossy(bytes(row, column)?).into_owned())
}

/// A record. That it is none is no fault of the statement: others are read by the same one.
pub(super) fn parsed<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<serde_json::Result<T>> {
    Ok(serde_json::from_slice(bytes(row, column)?))
}

fn record<T: DeserializeOwned>(
    connection: &Connection,
    kind: &str,
    query: &str,
    id: &str,
) -> Result<Option<T>, Fault> {
    let mut statement = connection.prepare_cached(query)?;
    let found = statement.query_row([id], |row| parsed(row, 0));
    let parsed = found.optional()?.transpose();
    Ok(parsed.map_err(|error| unreadable(kind, id, &error))?)
}
