//! Connections and the schema. A record is kept whole as JSON; beside it stand the columns that are searched. The
//! schema's version is SQLite's `user_version`; a step is never changed after it was released.

use std::path::Path;
use std::time::Duration;

use agentd_state::StoreError;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::fault::sqlite;

/// The schema, step by step; `user_version` counts the steps that were taken.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE conversation (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        record TEXT NOT NULL
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE task (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        context_id TEXT NOT NULL,
        open INTEGER NOT NULL,
        created_at INTEGER NOT NULL, -- microseconds since 1970
        record TEXT NOT NULL
    ) WITHOUT ROWID, STRICT;
    CREATE INDEX task_open ON task (created_at, id) WHERE open = 1;
    CREATE TABLE message_id (
        owner TEXT NOT NULL,
        message_id TEXT NOT NULL,
        task_id TEXT NOT NULL,
        PRIMARY KEY (owner, message_id)
    ) WITHOUT ROWID, STRICT;
"];
/// Somebody may look into the file with a tool of their own; what takes longer is a fault.
const BUSY: Duration = Duration::from_secs(5);
/// The log is cut to this size at a checkpoint, so that one large write does not keep the disk.
const LOG_BYTES: i64 = 16 * 1024 * 1024;

/// The writing connection.
pub(super) fn connect(file: &Path) -> Result<Connection, StoreError> {
    let failed = |error: rusqlite::Error| sqlite(&error, file);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(failed)?;
    common(&connection).map_err(failed)?;
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(failed)?;
    if mode != "wal" {
        return Err(StoreError::Unavailable(format!(
            "{}: the file system cannot keep a write-ahead log (it offers `{mode}`); use a local or block volume for `store.path`",
            file.display()
        )));
    }
    connection
        .pragma_update(None, "synchronous", "FULL")
        .map_err(failed)?;
    connection
        .pragma_update(None, "journal_size_limit", LOG_BYTES)
        .map_err(failed)?;
    Ok(connection)
}

/// A connection that cannot write.
pub(super) fn connect_reader(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    common(&connection)?;
    Ok(connection)
}

fn common(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // The root of a pod is read-only.
    connection.pragma_update(None, "temp_store", "MEMORY")
}

/// Takes the steps that are missing, all or none.
pub(super) fn migrate(connection: &mut Connection, file: &Path) -> Result<(), StoreError> {
    let failed = |error: rusqlite::Error| sqlite(&error, file);
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    let version: i64 = transaction
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(failed)?;
    let known = MIGRATIONS.len();
    let taken = usize::try_from(version).ok().filter(|taken| *taken <= known).ok_or_else(|| {
        StoreError::Corrupt(format!(
            "{}: schema {version}, this version knows {known}; start the newer agentd that wrote it, or give another \
             `store.path`",
            file.display()
        ))
    })?;
    if taken == known {
        return Ok(());
    }
    for step in MIGRATIONS.iter().skip(taken) {
        transaction.execute_batch(step).map_err(failed)?;
    }
    transaction
        .pragma_update(None, "user_version", known as i64)
        .map_err(failed)?;
    transaction.commit().map_err(failed)
}
