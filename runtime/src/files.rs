//! Tells when something in a set of folders has changed. Role: inotify, coalesced into "look again"; what to read and
//! whether it is good is decided by who asked. No polling: nothing wakes while nothing changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

/// A set of watched folders.
#[derive(Debug)]
pub struct FolderWatch {
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    changes: mpsc::Receiver<()>,
}

impl FolderWatch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// When the kernel has no inotify instance left.
    pub fn new() -> notify::Result<Self> {
        // One pending "look again" is enough however many events there are.
        let (sender, changes) = mpsc::channel(1);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| is_change(event.kind)) {
                let _ = sender.try_send(());
            }
        })?;
        Ok(Self {
            watcher,
            watched: BTreeSet::new(),
            changes,
        })
    }

    /// Also watches the folder (not what is below it). A folder that is not there is left out.
    pub fn add(&mut self, folder: &Path) {
        if self.watched.contains(folder) {
            return;
        }
        match self.watcher.watch(folder, RecursiveMode::NonRecursive) {
            Ok(()) => {
                self.watched.insert(folder.to_owned());
            }
            Err(error) => {
                tracing::warn!(event = "config.watch.error", folder = %folder.display(), err = %error);
            }
        }
    }

    /// Resolves after the next change in any of them.
    pub async fn changed(&mut self) {
        if self.changes.recv().await.is_none() {
            // The watcher's thread has ended: nothing will ever come.
            std::future::pending::<()>().await;
        }
    }
}

/// Reading is no change, else our own reads would wake us for ever.
fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_kubelet_swap_is_seen_and_a_read_is_not() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("..1")).unwrap();
        std::fs::write(folder.path().join("..1/a"), "1").unwrap();
        std::os::unix::fs::symlink("..1", folder.path().join("..data")).unwrap();
        std::os::unix::fs::symlink("..data/a", folder.path().join("a")).unwrap();

        let mut watch = FolderWatch::new().unwrap();
        watch.add(folder.path());
        watch.add(Path::new("/does/not/exist"));
        assert_eq!(std::fs::read_to_string(folder.path().join("a")).unwrap(), "1");
        assert!(
            tokio::time::timeout(Duration::from_millis(50), watch.changed())
                .await
                .is_err()
        );

        std::fs::create_dir(folder.path().join("..2")).unwrap();
        std::fs::write(folder.path().join("..2/a"), "2").unwrap();
        std::os::unix::fs::symlink("..2", folder.path().join("..data_tmp")).unwrap();
        std::fs::rename(folder.path().join("..data_tmp"), folder.path().join("..data")).unwrap();
        tokio::time::timeout(Duration::from_secs(5), watch.changed())
            .await
            .unwrap();
    }
}
