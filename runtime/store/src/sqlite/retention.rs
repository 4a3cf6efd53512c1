//! Lets go of what has ended: by age, and by what is kept in all, the longest ended first. It runs in the transaction of
//! a write that ends a task, so nothing ticks and what is kept never grows beyond its bound.

use std::path::Path;
use std::time::Duration;

use agentd_state::{EntryKind, Retention, conversation_key};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

/// What is kept may take this part of its volume: beside it stand indexes, free pages, the log and what is open.
const SHARE: u64 = 4;
/// Tasks that one write lets go of for their age: the write that follows goes on.
const AT_ONCE: u64 = 1000;

/// The longest ended task.
struct Oldest {
    id: String,
    owner: String,
    context_id: String,
    ended_at: i64,
}

/// The same retention, within the volume that `folder` is on. A volume that does not say its size is taken as large.
pub(super) fn fitting(retention: Retention, folder: &Path) -> Retention {
    let volume = nix::sys::statvfs::statvfs(folder).map_or(u64::MAX, |volume| {
        volume.blocks().saturating_mul(volume.fragment_size())
    });
    Retention {
        bytes: retention.bytes.min(volume / SHARE),
        entries: retention.entries.min(volume / SHARE / 2),
        ..retention
    }
}

/// Drops what is to go at `now`.
pub(super) fn retain(connection: &Connection, retention: Retention, now: Timestamp) -> rusqlite::Result<()> {
    let age = i64::try_from(retention.age.as_micros()).unwrap_or(i64::MAX);
    let expired = now.as_microsecond().saturating_sub(age);
    let bound = i64::try_from(retention.bytes).unwrap_or(i64::MAX);
    let (mut aged, mut pressed) = (0_u64, 0_u64);
    while let Some(oldest) = oldest(connection)? {
        if kept(connection)? > bound {
            pressed += 1;
        } else if oldest.ended_at < expired && aged < AT_ONCE {
            aged += 1;
        } else {
            break;
        }
        forget(connection, &oldest)?;
    }
    if aged + pressed > 0 {
        let (age, bytes) = (Duration::from_micros(age.unsigned_abs()), bound);
        tracing::info!(
            event = "store.retention",
            aged,
            pressed,
            age_s = age.as_secs(),
            bytes
        );
    }
    Ok(())
}

fn kept(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT bytes FROM kept")?
        .query_row([], |row| row.get(0))
}

/// By its index.
pub(super) const OLDEST: &str = "SELECT id, owner, context_id, ended_at FROM task_mark
    CROSS JOIN task USING (id) WHERE ended_at IS NOT NULL ORDER BY ended_at, id LIMIT 1";
/// By the index of expiries.
pub(super) const EXPIRE: &str = "DELETE FROM entry WHERE rowid IN
    (SELECT rowid FROM entry WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)";

fn oldest(connection: &Connection) -> rusqlite::Result<Option<Oldest>> {
    let mut statement = connection.prepare_cached(OLDEST)?;
    let found = statement.query_row([], |row| {
        Ok(Oldest {
            id: row.get(0)?,
            owner: row.get(1)?,
            context_id: row.get(2)?,
            ended_at: row.get(3)?,
        })
    });
    found.optional()
}

/// The task, its message ids, and its conversation with its entries if it was the last of it.
fn forget(connection: &Connection, task: &Oldest) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM task WHERE id = ?1")?
        .execute([&task.id])?;
    connection
        .prepare_cached("DELETE FROM message_id WHERE task_id = ?1")?
        .execute([&task.id])?;
    let conversation = conversation_key(&task.owner, &task.context_id);
    let lives: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM task WHERE owner = ?1 AND context_id = ?2)")?
        .query_row(params![task.owner, task.context_id], |row| row.get(0))?;
    if lives {
        return Ok(());
    }
    for kind in EntryKind::ALL {
        connection
            .prepare_cached("DELETE FROM entry WHERE kind = ?1 AND scope = ?2")?
            .execute(params![kind.name(), conversation])?;
    }
    connection
        .prepare_cached("DELETE FROM conversation WHERE id = ?1")?
        .execute([conversation])?;
    Ok(())
}

/// Drops the entries that have expired. What one write leaves, the next takes.
pub(super) fn expire(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    connection
        .prepare_cached(EXPIRE)?
        .execute(params![now.as_microsecond(), AT_ONCE as i64])?;
    Ok(())
}

/// What the bounded entries take.
pub(super) fn entry_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let bytes: i64 = connection
        .prepare_cached("SELECT bytes FROM entry_kept")?
        .query_row([], |row| row.get(0))?;
    Ok(u64::try_from(bytes).unwrap_or_default())
}

/// What those of one scope take.
pub(super) fn entry_bytes_of(connection: &Connection, scope: &str) -> rusqlite::Result<u64> {
    let mut sum = 0;
    for kind in EntryKind::ALL.into_iter().filter(|kind| kind.is_bounded()) {
        let bytes: i64 = connection
            .prepare_cached("SELECT coalesce(sum(bytes), 0) FROM entry WHERE kind = ?1 AND scope = ?2")?
            .query_row(params![kind.name(), scope], |row| row.get(0))?;
        sum += u64::try_from(bytes).unwrap_or_default();
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_fits_the_volume() {
        let folder = tempfile::tempdir().unwrap();
        let all = Retention {
            bytes: u64::MAX,
            ..Retention::DISK
        };
        let fitted = fitting(all, folder.path());
        assert!(fitted.bytes > 0 && fitted.bytes < u64::MAX, "{fitted:?}");
        assert_eq!(fitted.age, all.age);
        let little = Retention { bytes: 1, ..all };
        assert_eq!(fitting(little, folder.path()), little);
        // A volume that cannot be asked is no reason to forget anything.
        assert_eq!(fitting(all, Path::new("/does/not/exist")).bytes, u64::MAX / SHARE);
    }
}
