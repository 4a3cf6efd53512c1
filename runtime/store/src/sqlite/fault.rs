//! SQLite's errors as the store's: who must act, at which path, and how. Pure.

use std::path::Path;

use agentd_state::StoreError;
use rusqlite::ErrorCode;

/// What to do about it.
pub(super) const DISK_FULL: &str = "the disk is full: free space or give the claim a larger size";

/// What went wrong inside a read or a batch, before the path is known.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite's own.
    Sqlite(rusqlite::Error),
    /// The store's.
    Store(StoreError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Fault {
    /// Names the file.
    pub(super) fn at(self, file: &Path) -> StoreError {
        match self {
            Self::Sqlite(error) => sqlite(&error, file),
            Self::Store(error) => error,
        }
    }
}

pub(super) fn sqlite(error: &rusqlite::Error, file: &Path) -> StoreError {
    let remedy = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => DISK_FULL,
        Some(
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied,
        ) => "it cannot be written: mount the folder writable for this user",
        Some(ErrorCode::CannotOpen) => {
            "it cannot be opened: check that the folder exists and belongs to this user"
        }
        Some(ErrorCode::SystemIoFailure) => "the disk failed, is full or went away: check the volume",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            "another program holds it: close that program; the file may only be read with `sqlite3 -readonly`"
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            return StoreError::Corrupt(format!(
                "{}: {error}; restore the file from a backup, or give another `store.path`",
                file.display()
            ));
        }
        _ => "check the volume",
    };
    StoreError::Unavailable(format!("{}: {error}; {remedy}", file.display()))
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn every_error_names_the_path_and_a_remedy() {
        let file = Path::new("/var/lib/agentd/agentd.db");
        for (code, part) in [
            (ffi::SQLITE_FULL, "the disk is full"),
            (ffi::SQLITE_READONLY, "mount the folder writable"),
            (ffi::SQLITE_PERM, "mount the folder writable"),
            (ffi::SQLITE_CANTOPEN, "belongs to this user"),
            (ffi::SQLITE_IOERR, "check the volume"),
            (ffi::SQLITE_BUSY, "another program holds it"),
            (ffi::SQLITE_NOMEM, "check the volume"),
        ] {
            let error = sqlite(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None), file);
            assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
            let text = error.to_string();
            assert!(
                text.contains("/var/lib/agentd/agentd.db") && text.contains(part),
                "{text}"
            );
        }
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB] {
            let error = sqlite(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None), file);
            assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
            assert!(error.to_string().contains("/var/lib/agentd/agentd.db"), "{error}");
        }
    }
}
