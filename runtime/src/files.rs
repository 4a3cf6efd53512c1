//! Tells when something in the folders of this process may have changed. Role: inotify, coalesced into "look again";
//! what to read and whether it is good is decided by who asked. Guarantees: one inotify instance for the process,
//! however many parts of it watch (a node has 128 for all pods of one user); without one the process runs on and looks
//! again when it is told to. No polling: nothing wakes while nothing changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::watch;

/// The watched folders of a process. Clones share them.
#[derive(Debug, Clone)]
pub struct Folders {
    kernel: Arc<Mutex<Option<Kernel>>>,
    changes: watch::Sender<()>,
}

/// The inotify instance.
#[derive(Debug)]
struct Kernel {
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
}

/// What one part of the process has not looked at yet.
#[derive(Debug)]
pub struct Changes(watch::Receiver<()>);

impl Folders {
    /// Watches nothing yet. Without an inotify instance it says so and tells of nothing but [`Self::look_again`].
    pub fn watch() -> Self {
        let changes = watch::Sender::new(());
        let tell = changes.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| is_change(event.kind)) {
                tell.send_replace(());
            }
        });
        let kernel = match watcher {
            Ok(watcher) => Some(Kernel {
                watcher,
                watched: BTreeSet::new(),
            }),
            Err(error) => {
                tracing::warn!(
                    event = "config.watch.error",
                    err = %error,
                    "folders cannot be watched (fs.inotify.max_user_instances of the node?); they are read again on \
                     SIGHUP and at each renewal of the SVID"
                );
                None
            }
        };
        Self {
            kernel: Arc::new(Mutex::new(kernel)),
            changes,
        }
    }

    /// Also watches the folder (not what is below it). A folder that is not there is left out.
    pub fn add(&self, folder: &Path) {
        let mut kernel = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Kernel { watcher, watched }) = kernel.as_mut() else {
            return;
        };
        if watched.contains(folder) {
            return;
        }
        match watcher.watch(folder, RecursiveMode::NonRecursive) {
            Ok(()) => {
                watched.insert(folder.to_owned());
            }
            Err(error) => {
                tracing::warn!(event = "config.watch.error", folder = %folder.display(), err = %error);
            }
        }
    }

    /// Lets everybody look again, whatever the kernel says.
    pub fn look_again(&self) {
        self.changes.send_replace(());
    }

    /// What changes from now on, in any of the folders.
    pub fn changes(&self) -> Changes {
        Changes(self.changes.subscribe())
    }
}

impl Changes {
    /// Resolves after the next change. Changes that came together, or while nobody waited, are one.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // Nobody is left to tell.
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

        let folders = Folders::watch();
        folders.add(folder.path());
        folders.add(Path::new("/does/not/exist"));
        let (mut one, mut other) = (folders.changes(), folders.changes());
        assert_eq!(std::fs::read_to_string(folder.path().join("a")).unwrap(), "1");
        assert!(
            tokio::time::timeout(Duration::from_millis(50), one.next())
                .await
                .is_err()
        );

        std::fs::create_dir(folder.path().join("..2")).unwrap();
        std::fs::write(folder.path().join("..2/a"), "2").unwrap();
        std::os::unix::fs::symlink("..2", folder.path().join("..data_tmp")).unwrap();
        std::fs::rename(folder.path().join("..data_tmp"), folder.path().join("..data")).unwrap();
        let both = async { tokio::join!(one.next(), other.next()) };
        tokio::time::timeout(Duration::from_secs(5), both).await.unwrap();
    }

    #[tokio::test]
    async fn without_the_kernel_one_is_told_by_hand() {
        let folders = Folders {
            kernel: Arc::default(),
            changes: watch::Sender::new(()),
        };
        folders.add(Path::new("/tmp"));
        let mut changes = folders.changes();
        folders.look_again();
        folders.look_again();
        changes.next().await;
    }
}
