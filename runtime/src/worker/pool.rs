//! Warm workers between two turns of their conversation. Guarantees: at most [`IDLE_WORKERS`] wait, none longer than
//! [`IDLE`]; the one that waited longest goes first; nothing wakes while nothing waits.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use agentd_identity::Snapshot as IdentitySnapshot;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::process::Worker;
use crate::children::Children;

/// How long a worker waits for the next message of its conversation: people think for about as long before they give
/// up a conversation, and a new worker costs some tens of milliseconds.
pub const IDLE: Duration = Duration::from_secs(120);
/// Those of a conversation with 32 warm subagents and of a few others. Each waits with little more than a megabyte.
pub const IDLE_WORKERS: usize = 40;

/// A worker and what it was told last.
#[derive(Debug)]
pub struct Warm {
    /// The process.
    pub worker: Worker,
    /// The configuration it has; `None` before the first.
    pub generation: Option<u64>,
    /// Follows the identity; seen up to what it was told.
    pub identity: Option<watch::Receiver<Arc<IdentitySnapshot>>>,
    /// The digest of the tools that it was given, by server.
    pub tools: BTreeMap<String, String>,
}

/// The waiting workers, by conversation.
#[derive(Debug)]
pub struct Pool {
    program: PathBuf,
    children: Arc<Children>,
    idle: Mutex<HashMap<String, (Instant, Warm)>>,
    changed: Arc<Notify>,
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

impl Pool {
    /// Workers run `program`, which is this program, and are children of ours.
    pub fn new(program: PathBuf, children: Arc<Children>) -> Arc<Self> {
        let changed = Arc::new(Notify::new());
        let pool = Arc::new(Self {
            program,
            children,
            idle: Mutex::default(),
            changed: changed.clone(),
        });
        tokio::spawn(retire(Arc::downgrade(&pool), changed));
        pool
    }

    /// The warm worker of this conversation, or a new one.
    ///
    /// # Errors
    /// When a new process cannot be started.
    pub fn take(&self, conversation: &str) -> std::io::Result<Warm> {
        let warm = self.lock().remove(conversation).map(|(_, warm)| warm);
        match warm.filter(|warm| warm.worker.is_alive()) {
            Some(warm) => Ok(warm),
            None => Ok(Warm {
                worker: Worker::spawn(&self.program, &self.children)?,
                generation: None,
                identity: None,
                tools: BTreeMap::new(),
            }),
        }
    }

    /// Takes a worker back after a turn that ended in good order.
    pub fn park(&self, conversation: String, warm: Warm) {
        let mut idle = self.lock();
        idle.insert(conversation, (Instant::now(), warm));
        while idle.len() > IDLE_WORKERS {
            let Some(oldest) = idle
                .iter()
                .min_by_key(|(_, (since, _))| *since)
                .map(|(key, _)| key.clone())
            else {
                break;
            };
            idle.remove(&oldest);
        }
        self.changed.notify_one();
    }

    /// Ends the one of this conversation, which does not go on.
    pub fn let_go(&self, conversation: &str) {
        self.lock().remove(conversation);
    }

    /// Ends all that wait.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// How many wait.
    pub fn idle(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Instant, Warm)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of those that waited long enough; when the next one will have.
    fn expire(&self, now: Instant) -> Option<Instant> {
        let mut idle = self.lock();
        idle.retain(|_, (since, _)| *since + IDLE > now);
        idle.values().map(|(since, _)| *since + IDLE).min()
    }
}

/// Ends what has waited long enough, until the pool is gone.
async fn retire(pool: Weak<Pool>, changed: Arc<Notify>) {
    while let Some(next) = pool.upgrade().map(|pool| pool.expire(Instant::now())) {
        match next {
            Some(at) => tokio::select! {
                () = tokio::time::sleep_until(at) => {}
                () = changed.notified() => {}
            },
            None => changed.notified().await,
        }
    }
}
