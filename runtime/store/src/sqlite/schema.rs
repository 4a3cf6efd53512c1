//! Connections and the schema. A record is kept whole as JSON; beside it stand the columns that are searched. The
//! schema's version is SQLite's `user_version`; a step is never changed after it was released.

use std::path::Path;
use std::time::Duration;

use agentd_state::StoreError;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::fault::sqlite;

/// The schema, step by step; `user_version` counts the steps that were taken.
const MIGRATIONS: [&str; 4] = [FIRST, RETENTION, ENTRIES, LIST];
const FIRST: &str = "
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
";
/// What is kept is counted as it changes, so that a write that ends a task knows at once whether something must go. The
/// marks stand beside the records: a step that wrote every record again would need as much room once more.
const RETENTION: &str = "
    CREATE TABLE task_mark (
        id TEXT PRIMARY KEY,
        waiting INTEGER NOT NULL, -- it has not begun
        ended_at INTEGER, -- microseconds since 1970; NULL while it is open
        bytes INTEGER NOT NULL
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE conversation_mark (
        id TEXT PRIMARY KEY,
        bytes INTEGER NOT NULL
    ) WITHOUT ROWID, STRICT;
    INSERT INTO task_mark (id, waiting, ended_at, bytes)
        SELECT id, iif(open = 1 AND json_valid(record), record ->> '$.state' = 'submitted', 0),
            iif(open = 0, created_at, NULL), octet_length(record) + 512 FROM task;
    INSERT INTO conversation_mark (id, bytes) SELECT id, octet_length(record) + 512 FROM conversation;
    CREATE INDEX task_ended ON task_mark (ended_at, id) WHERE ended_at IS NOT NULL;
    CREATE INDEX task_context ON task (owner, context_id);
    ALTER TABLE message_id ADD COLUMN digest TEXT NOT NULL DEFAULT '';
    CREATE INDEX message_of_task ON message_id (task_id);

    CREATE TABLE kept (one INTEGER PRIMARY KEY CHECK (one = 1), bytes INTEGER NOT NULL) STRICT;
    INSERT INTO kept (one, bytes) SELECT 1,
        (SELECT coalesce(sum(bytes), 0) FROM task_mark WHERE ended_at IS NOT NULL)
        + (SELECT coalesce(sum(bytes), 0) FROM conversation_mark);
    CREATE TRIGGER task_in AFTER INSERT ON task_mark WHEN new.ended_at IS NOT NULL
        BEGIN UPDATE kept SET bytes = bytes + new.bytes; END;
    CREATE TRIGGER task_out AFTER DELETE ON task_mark WHEN old.ended_at IS NOT NULL
        BEGIN UPDATE kept SET bytes = bytes - old.bytes; END;
    CREATE TRIGGER task_change AFTER UPDATE ON task_mark
        BEGIN UPDATE kept SET bytes = bytes
            + iif(new.ended_at IS NULL, 0, new.bytes) - iif(old.ended_at IS NULL, 0, old.bytes); END;
    CREATE TRIGGER conversation_in AFTER INSERT ON conversation_mark
        BEGIN UPDATE kept SET bytes = bytes + new.bytes; END;
    CREATE TRIGGER conversation_out AFTER DELETE ON conversation_mark
        BEGIN UPDATE kept SET bytes = bytes - old.bytes; END;
    CREATE TRIGGER conversation_change AFTER UPDATE ON conversation_mark
        BEGIN UPDATE kept SET bytes = bytes + new.bytes - old.bytes; END;
    -- A mark goes with its record.
    CREATE TRIGGER task_gone AFTER DELETE ON task
        BEGIN DELETE FROM task_mark WHERE id = old.id; END;
    CREATE TRIGGER conversation_gone AFTER DELETE ON conversation
        BEGIN DELETE FROM conversation_mark WHERE id = old.id; END;

    CREATE TABLE probe (one INTEGER PRIMARY KEY CHECK (one = 1), filler BLOB NOT NULL) STRICT;
";
/// Entries of all kinds. Values may be large, so the table has row ids and its key is an index.
const ENTRIES: &str = "
    CREATE TABLE entry (
        kind TEXT NOT NULL,
        scope TEXT NOT NULL,
        key TEXT NOT NULL,
        expires_at INTEGER, -- microseconds since 1970; NULL: never
        bytes INTEGER NOT NULL, -- what it counts against the bound of entries
        record TEXT NOT NULL,
        PRIMARY KEY (kind, scope, key)
    ) STRICT;
    CREATE INDEX entry_expiry ON entry (expires_at) WHERE expires_at IS NOT NULL;
    CREATE TABLE entry_kept (one INTEGER PRIMARY KEY CHECK (one = 1), bytes INTEGER NOT NULL) STRICT;
    INSERT INTO entry_kept (one, bytes) VALUES (1, 0);
    CREATE TRIGGER entry_in AFTER INSERT ON entry
        BEGIN UPDATE entry_kept SET bytes = bytes + new.bytes; END;
    CREATE TRIGGER entry_out AFTER DELETE ON entry
        BEGIN UPDATE entry_kept SET bytes = bytes - old.bytes; END;
    CREATE TRIGGER entry_change AFTER UPDATE ON entry
        BEGIN UPDATE entry_kept SET bytes = bytes + new.bytes - old.bytes; END;
";
/// The list of tasks, in the order of their last change, with an index for what callers ask of their own. An operator's
/// filters go along the order in time.
const LIST: &str = "
    CREATE TABLE task_list (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        context_id TEXT NOT NULL,
        state TEXT NOT NULL,
        updated_at INTEGER NOT NULL -- microseconds since 1970
    ) WITHOUT ROWID, STRICT;
    INSERT INTO task_list (id, owner, context_id, state, updated_at)
        SELECT id, owner, context_id,
            iif(json_valid(record), coalesce(record ->> '$.state', ''), ''),
            coalesce(iif(json_valid(record),
                CAST(unixepoch(record ->> '$.updated_at', 'subsec') * 1000000 AS INTEGER), NULL), created_at)
        FROM task;
    CREATE INDEX task_list_time ON task_list (updated_at, id);
    CREATE INDEX task_list_owner ON task_list (owner, updated_at, id);
    CREATE INDEX task_list_context ON task_list (owner, context_id, updated_at, id);
    CREATE INDEX task_list_state ON task_list (owner, state, updated_at, id);
    CREATE TRIGGER task_list_gone AFTER DELETE ON task
        BEGIN DELETE FROM task_list WHERE id = old.id; END;
";
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

/// The schema that this version writes.
pub(super) const fn known() -> u64 {
    MIGRATIONS.len() as u64
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
