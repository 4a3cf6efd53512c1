//! The folder of the store: private to this user, and claimed by one process at a time. The claim is a lock of the
//! kernel, so it ends with the process however that ends.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use agentd_state::StoreError;

/// Holds the lock and says who has it.
const LOCK: &str = "agentd.lock";
const PRIVATE_FOLDER: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;
/// A line with a process id and a host name.
const HOLDER_BYTES: u64 = 512;

/// A claimed folder. Dropping it gives it free.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder when it is not there, makes it private, and claims it.
    pub(super) fn claim(path: &Path) -> Result<Self, StoreError> {
        let unusable = |error: std::io::Error| unusable(path, &error);
        DirBuilder::new()
            .recursive(true)
            .mode(PRIVATE_FOLDER)
            .create(path)
            .map_err(unusable)?;
        make_private(path).map_err(unusable)?;
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PRIVATE_FILE)
            .open(path.join(LOCK))
            .map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(path, &holder(&mut lock))),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        lock.set_len(0).and_then(|()| lock.rewind()).map_err(unusable)?;
        writeln!(lock, "process {} on {}", std::process::id(), host()).map_err(unusable)?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file that nobody else may read, made when it is not there. SQLite gives the files that it makes
    /// beside it the same mode.
    pub(super) fn private_file(&self, name: &str) -> Result<PathBuf, StoreError> {
        let path = self.path.join(name);
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PRIVATE_FILE)
            .open(&path)
            .map_err(|error| unusable(&path, &error))?;
        Ok(path)
    }

    /// Makes the names of new files durable, and that of the folder where the one above lets itself be opened.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        if let Some(parent) = self.path.parent().and_then(|parent| File::open(parent).ok()) {
            let _ = parent.sync_all();
        }
        File::open(&self.path)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| unusable(&self.path, &error))
    }
}

/// A folder of ours becomes 0700. The root of a mounted volume is often another user's and lets us in by group: it
/// stays as it is, its files are private all the same.
fn make_private(path: &Path) -> std::io::Result<()> {
    let metadata = std::fs::metadata(path)?;
    let ours = File::open("/proc/self")
        .and_then(|me| me.metadata())
        .is_ok_and(|me| me.uid() == metadata.uid());
    if ours && metadata.mode() & 0o077 != 0 {
        std::fs::set_permissions(path, Permissions::from_mode(PRIVATE_FOLDER))?;
    }
    Ok(())
}

fn unusable(path: &Path, error: &std::io::Error) -> StoreError {
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => super::fault::DISK_FULL,
        _ => "`store.path` must be a folder that this user can write, or choose the memory store",
    };
    StoreError::Unavailable(format!("{}: {error}; {remedy}", path.display()))
}

fn in_use(path: &Path, holder: &str) -> StoreError {
    StoreError::Unavailable(format!(
        "{} is in use by {holder}; stop that process, or give this one a folder of its own with `store.path`",
        path.display()
    ))
}

fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    let read = lock
        .rewind()
        .and_then(|()| lock.take(HOLDER_BYTES).read_to_string(&mut text));
    match read {
        Ok(_) if !text.trim().is_empty() => agentd_base::text::clip(text.trim(), 128),
        _ => "another process".to_owned(),
    }
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() {
        "this machine".to_owned()
    } else {
        name.trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_a_folder_that_is_not_ours() {
        let path = Path::new("/var/lib/agentd");
        for (kind, part) in [
            (ErrorKind::StorageFull, "the disk is full: free space"),
            (ErrorKind::QuotaExceeded, "the disk is full: free space"),
            (ErrorKind::PermissionDenied, "a folder that this user can write"),
        ] {
            let text = unusable(path, &kind.into()).to_string();
            assert!(text.contains("/var/lib/agentd") && text.contains(part), "{text}");
        }
    }
}
