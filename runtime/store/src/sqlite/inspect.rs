//! A read-only look into the file, in one transaction: a running agent goes on, and what is seen is of one moment.

use std::path::Path;

use agentd_state::StoreError;
use rusqlite::Connection;
use serde_json::json;

use super::fault::sqlite;
use super::reader::{bytes, shown};
use super::schema::{connect_reader, known};
use crate::inspect::{Found, Overview, Visit, judge, nothing_at};

/// Lines of the integrity check.
const FAULTS: u32 = 100;

/// Looks into the store in `folder`.
///
/// # Errors
/// [`StoreError::Unavailable`] when there is none or it cannot be opened.
pub fn inspect(folder: &Path, visit: Visit<'_>) -> Result<Overview, StoreError> {
    let file = folder.join(super::FILE);
    if !file.is_file() {
        return Err(nothing_at(folder));
    }
    let failed = |error: rusqlite::Error| sqlite(&error, &file);
    let connection = connect_reader(&file).map_err(failed)?;
    look(&connection, visit).map_err(failed)
}

fn look(connection: &Connection, visit: Visit<'_>) -> rusqlite::Result<Overview> {
    connection.execute_batch("BEGIN")?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let version = u64::try_from(version).unwrap_or_default();
    let mut overview = Overview {
        schema: (version, known()),
        faults: integrity(connection)?,
    };
    if version != known() {
        overview.faults.push(format!(
            "schema {version}, this version knows {}: look into it with the agentd that wrote it",
            known()
        ));
        return Ok(overview);
    }
    for (kind, query) in [
        ("context", "SELECT id, record FROM conversation ORDER BY id"),
        ("task", "SELECT id, record FROM task ORDER BY id"),
    ] {
        let mut statement = connection.prepare(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let id = shown(row, 0)?;
            let record = judge(kind, bytes(row, 1)?);
            if !visit(Found {
                kind: kind.to_owned(),
                id,
                record,
            }) {
                return Ok(overview);
            }
        }
    }
    let mut statement = connection
        .prepare("SELECT owner, message_id, task_id, digest FROM message_id ORDER BY owner, message_id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let [owner, message_id, task_id, digest] =
            [shown(row, 0)?, shown(row, 1)?, shown(row, 2)?, shown(row, 3)?];
        let id = format!("{owner} {message_id}");
        let record =
            Ok(json!({ "owner": owner, "message_id": message_id, "task_id": task_id, "digest": digest }));
        if !visit(Found {
            kind: "inbox".to_owned(),
            id,
            record,
        }) {
            return Ok(overview);
        }
    }
    let mut statement =
        connection.prepare("SELECT kind, scope, key, record FROM entry ORDER BY kind, scope, key")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, scope, key) = (shown(row, 0)?, shown(row, 1)?, shown(row, 2)?);
        let record = judge(&kind, bytes(row, 3)?);
        let id = format!("{scope} {key}");
        if !visit(Found { kind, id, record }) {
            return Ok(overview);
        }
    }
    Ok(overview)
}

/// What SQLite finds wrong with its file.
fn integrity(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({FAULTS})"))?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let lines: Vec<String> = lines.collect::<Result<_, _>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}
