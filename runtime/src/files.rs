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
    /// Those that could not be watched, so that this is said once.
    failed: BTreeSet<PathBuf>,
}

/// Links on the way to a file; the kernel follows as many.
const LINKS: usize = 40;

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
                failed: BTreeSet::new(),
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

    /// Also watches the folder (not what is below it). A folder that is not there is left out. One that is watched
    /// already may be another of the same name by now, and is watched again.
    pub fn add(&self, folder: &Path) {
        let mut kernel = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Kernel { watcher, failed }) = kernel.as_mut() else {
            return;
        };
        match watcher.watch(folder, RecursiveMode::NonRecursive) {
            Ok(()) => {
                failed.remove(folder);
            }
            Err(error) => {
                if failed.insert(folder.to_owned()) {
                    tracing::warn!(event = "config.watch.error", folder = %folder.display(), err = %error);
                }
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

/// The folders in which a change can give this file another content: its own, and that of every link on the way to it.
/// A folder that a kubelet dates (`..2026_01_02`) is not one of them: it never changes, and is gone after the next swap
/// of the link to it.
pub fn folders_of(file: &Path) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    let Ok(mut path) = std::path::absolute(file) else {
        return folders;
    };
    for _ in 0..LINKS {
        let Some((folder, target)) = first_link(&path) else {
            break;
        };
        folders.insert(folder);
        path = target;
    }
    let dated = |folder: &Path| {
        let name = folder.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(".."))
    };
    folders.extend(path.parent().filter(|folder| !dated(folder)).map(Path::to_owned));
    // No link is in them any more, but there may be a `..`: one folder has one name.
    let named = folders
        .into_iter()
        .map(|folder| folder.canonicalize().unwrap_or(folder));
    named.collect()
}

/// The folder of the first link in a path, and the path with that link followed.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut folder = PathBuf::new();
    for part in path.components() {
        let here = folder.join(part);
        if let (Ok(target), Ok(rest)) = (std::fs::read_link(&here), path.strip_prefix(&here)) {
            let target = folder.join(target);
            let path = if rest.as_os_str().is_empty() {
                target
            } else {
                target.join(rest)
            };
            return Some((folder, path));
        }
        folder = here;
    }
    None
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

    #[test]
    fn a_file_is_changed_in_its_folder_and_in_those_of_the_links_to_it() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        let folders = |name: &str| {
            let found = folders_of(&at(name));
            found.into_iter().collect::<Vec<_>>()
        };
        for name in ["plain", "releases/1", "mount/..2026"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::fs::write(at("plain/a.yaml"), "").unwrap();
        assert_eq!(folders("plain/a.yaml"), [at("plain")]);
        assert_eq!(folders("plain/not-there-yet.yaml"), [at("plain")]);
        // A kubelet's mount.
        symlink("..2026", at("mount/..data")).unwrap();
        symlink("..data/a.yaml", at("mount/a.yaml")).unwrap();
        assert_eq!(folders("mount/a.yaml"), [at("mount")]);
        // A link to a release that is the current one.
        symlink(at("releases/1"), at("current")).unwrap();
        symlink("../current/a.yaml", at("plain/b.yaml")).unwrap();
        let root = folder.path().canonicalize().unwrap();
        assert_eq!(folders("plain/b.yaml"), [root, at("plain"), at("releases/1")]);
        // A circle ends.
        symlink("two", at("one")).unwrap();
        symlink("one", at("two")).unwrap();
        assert!(!folders("one").is_empty());
    }

    /// A folder that was removed and made again is another one for the kernel.
    #[tokio::test]
    async fn a_folder_that_is_made_anew_is_watched_anew() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        let folders = Folders::watch();
        folders.add(&folder);
        let mut changes = folders.changes();
        std::fs::remove_dir(&folder).unwrap();
        tokio::time::timeout(Duration::from_secs(10), changes.next())
            .await
            .unwrap();
        std::fs::create_dir(&folder).unwrap();
        folders.add(&folder);
        let mut changes = folders.changes();
        std::fs::write(folder.join("a"), "1").unwrap();
        tokio::time::timeout(Duration::from_secs(10), changes.next())
            .await
            .unwrap();
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
