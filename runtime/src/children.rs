//! The children of this process: those it started, and those that it did not. A process that a worker leaves behind,
//! and as PID 1 of a container whatever anybody leaves behind there, becomes our child. Guarantees: what was adopted is
//! reaped as soon as it ends; the end of a child that somebody waits for is never taken from them; what a worker leaves
//! in its process group is killed with it. Nothing wakes while no child ends.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as Arrivals, SignalKind, signal};
use tokio::sync::Notify;

/// See the module.
#[derive(Debug, Default)]
pub struct Children {
    /// Those that somebody waits for. Locked while one is started, and while one is reaped.
    known: Mutex<BTreeSet<i32>>,
    released: Notify,
}

/// A child that somebody waits for. Dropped when it has ended: what is left of its process group is killed.
#[derive(Debug)]
pub struct Known {
    pid: i32,
    of: Arc<Children>,
}

impl Children {
    /// From now on this process adopts what its descendants leave behind, and reaps it.
    ///
    /// # Errors
    /// When the system does not tell of the end of children.
    pub fn adopt() -> std::io::Result<Arc<Self>> {
        // Before the first look: a child that ends between the two is told.
        let ends = signal(SignalKind::child())?;
        if let Err(error) = prctl::set_child_subreaper(true) {
            tracing::warn!(event = "proc.fail", err = %error, "what a worker leaves behind is not ours to reap");
        }
        let children = Arc::new(Self::default());
        tokio::spawn(children.clone().attend(ends));
        Ok(children)
    }

    /// Starts a process, in a group of its own, that the caller waits for.
    ///
    /// # Errors
    /// When the system has no process, descriptor or memory left.
    pub fn spawn(self: &Arc<Self>, command: &mut Command) -> std::io::Result<(Child, Known)> {
        // Until it is known it must not be taken for another's.
        let mut known = self.lock();
        let child = command.process_group(0).spawn()?;
        let pid = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .unwrap_or_default();
        known.insert(pid);
        let of = self.clone();
        Ok((child, Known { pid, of }))
    }

    async fn attend(self: Arc<Self>, mut ends: Arrivals) {
        loop {
            self.reap();
            tokio::select! {
                _ = ends.recv() => {}
                // Whoever ended first may have hidden others.
                () = self.released.notified() => {}
            }
        }
    }

    /// Reaps what has ended and is nobody's.
    fn reap(&self) {
        let known = self.lock();
        while let Some(ended) = first_ended() {
            let reaped = match ended {
                Some(pid) if known.contains(&pid.as_raw()) => return,
                Some(pid) => nix::sys::wait::waitpid(pid, Some(WaitPidFlag::WNOHANG)).is_ok(),
                None if known.iter().any(|pid| has_ended(*pid)) => return,
                None => rustix::process::waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
                    .is_ok(),
            };
            if !reaped {
                return;
            }
            tracing::debug!(event = "proc.reaped", child = ended.map(Pid::as_raw));
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Its process id, which is that of its group.
    pub fn pid(&self) -> i32 {
        self.pid
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let mut known = self.of.lock();
        known.remove(&self.pid);
        // The number is the group's as long as one of it is left, and what was left is our child. Else it may be
        // another's by now.
        if has_children_in(self.pid) {
            let _ = killpg(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
        drop(known);
        self.of.released.notify_one();
    }
}

/// The child that ended first and was not waited for, without waiting for it; `Some(None)` when there is one that a
/// real-time signal ended, for which the library has no words.
fn first_ended() -> Option<Option<Pid>> {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    match waitid(Id::All, look) {
        Ok(WaitStatus::StillAlive) | Err(nix::errno::Errno::ECHILD | nix::errno::Errno::EINTR) => None,
        Ok(status) => status.pid().map(Some),
        Err(_) => Some(None),
    }
}

const LOOK: WaitIdOptions = WaitIdOptions::EXITED
    .union(WaitIdOptions::NOHANG)
    .union(WaitIdOptions::NOWAIT);

fn has_ended(pid: i32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid);
    pid.is_some_and(|pid| matches!(rustix::process::waitid(WaitId::Pid(pid), LOOK), Ok(Some(_))))
}

fn has_children_in(group: i32) -> bool {
    // None at all is an error.
    rustix::process::Pid::from_raw(group)
        .is_some_and(|group| rustix::process::waitid(WaitId::Pgid(Some(group)), LOOK).is_ok())
}
