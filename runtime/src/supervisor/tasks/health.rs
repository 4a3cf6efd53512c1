//! The store, and whether it can be written: from a write that fails until one succeeds this process is not ready.
//! While nobody writes it is probed, with a growing pause: room that somebody made is noticed by itself. A write that
//! takes too long counts as failing until it has ended; it is never given up, since it may still be carried out.
//! A record that a store refuses says nothing of the store if it takes something else at once.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use agentd_base::readiness::Readiness;
use agentd_state::{
    Conversation, Entry, EntryKind, EntryPage, EntryQuery, Noted, OpenTask, Store, StoreError, Task,
    TaskPage, TaskQuery, Write,
};
use jiff::Timestamp;
use tokio::sync::watch;

use super::push::Push;
use crate::supervisor::refusals::{FIRST_PAUSE, PROBE_BYTES, of_record};

/// The name under which it blocks readiness.
const NAME: &str = "store";
/// What everybody in the cluster may know of it; the log says more.
const CAUSE: &str = "the last write failed or hangs; it is tried again until one succeeds";
/// A disk that takes longer for one write is stuck.
const SLOW: Duration = Duration::from_secs(10);
/// The longest: a disk that was full is noticed soon after it is not.
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// A store that knows how it is. Cheap to clone.
#[derive(Clone)]
pub(super) struct Watched(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    readiness: Readiness,
    failing: watch::Sender<bool>,
    /// Who is to hear of tasks; absent: nobody asked for it.
    push: OnceLock<Weak<Push>>,
}

impl Watched {
    /// Nothing has failed yet.
    pub(super) fn new(store: Arc<dyn Store>, readiness: Readiness) -> Self {
        Self(Arc::new(Inner {
            store,
            readiness,
            failing: watch::Sender::new(false),
            push: OnceLock::new(),
        }))
    }

    /// From now on what is written of tasks is told to those who asked for it.
    pub(super) fn tell(&self, push: &Arc<Push>) {
        let _ = self.0.push.set(Arc::downgrade(push));
    }

    /// Applies all or none, and with it what is owed to those who are to hear of it. A failure to write, be it a full
    /// disk, blocks readiness.
    pub(super) async fn write(&self, mut batch: Vec<Write>) -> Result<(), StoreError> {
        let Some(push) = self.0.push.get().and_then(Weak::upgrade) else {
            return self.put(batch).await;
        };
        let owing = push.owing(&mut batch).await;
        let written = self.put(batch).await;
        if written.is_ok() {
            push.owe(owing);
        }
        written
    }

    /// The same for what is told to nobody.
    pub(super) async fn put(&self, batch: Vec<Write>) -> Result<(), StoreError> {
        let mut writing = self.0.store.write(batch);
        let written = match tokio::time::timeout(SLOW, &mut writing).await {
            Ok(written) => written,
            Err(_) => {
                tracing::error!(event = "store.put.slow", limit_s = SLOW.as_secs());
                self.fails();
                writing.await
            }
        };
        let written = match written {
            Err(error) => Err(of_record(&*self.0.store, error).await),
            Ok(()) => Ok(()),
        };
        match &written {
            // Whoever reads the store's answer can write to it.
            Ok(()) | Err(StoreError::Conflict(_) | StoreError::Full(_) | StoreError::Refused(_)) => {
                self.0.works();
            }
            Err(StoreError::Unavailable(_) | StoreError::Lost(_)) => self.fails(),
            // That is one record of a store that answers; one that is damaged as a whole ends the process.
            Err(StoreError::Corrupt(_)) => {}
        }
        written
    }

    /// Returns when the last write, whoever made it, succeeded.
    pub(super) async fn works(&self) {
        // The sender lives as long as we do.
        let _ = self.0.failing.subscribe().wait_for(|failing| !failing).await;
    }

    pub(super) async fn conversation(&self, id: &str) -> Result<Option<Conversation>, StoreError> {
        self.0.store.conversation(id).await
    }

    pub(super) async fn task(&self, id: &str) -> Result<Option<Task>, StoreError> {
        self.0.store.task(id).await
    }

    pub(super) async fn message(&self, owner: &str, message_id: &str) -> Result<Option<Noted>, StoreError> {
        self.0.store.message(owner, message_id).await
    }

    pub(super) async fn entry(
        &self,
        kind: EntryKind,
        scope: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Entry>, StoreError> {
        self.0.store.entry(kind, scope, key, now).await
    }

    pub(super) async fn entries(&self, query: EntryQuery, now: Timestamp) -> Result<EntryPage, StoreError> {
        self.0.store.entries(query, now).await
    }

    pub(super) async fn open_tasks(&self) -> Result<Vec<OpenTask>, StoreError> {
        self.0.store.open_tasks().await
    }

    pub(super) async fn tasks(&self, query: TaskQuery) -> Result<TaskPage, StoreError> {
        self.0.store.tasks(query).await
    }

    fn fails(&self) {
        let inner = &self.0;
        let begins = inner
            .failing
            .send_if_modified(|failing| !std::mem::replace(failing, true));
        if begins {
            inner.readiness.block(NAME, CAUSE);
            tokio::spawn(probe(inner.clone()));
        }
    }
}

impl Inner {
    fn works(&self) {
        let ends = self
            .failing
            .send_if_modified(|failing| std::mem::replace(failing, false));
        if ends {
            self.readiness.release(NAME);
            tracing::info!(event = "store.recovered");
        }
    }
}

/// Tries until a write succeeds, this one or another.
async fn probe(inner: Arc<Inner>) {
    let mut failing = inner.failing.subscribe();
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::select! {
            _ = failing.wait_for(|failing| !failing) => return,
            () = tokio::time::sleep(pause) => {}
        }
        if inner.store.probe(PROBE_BYTES).await.is_ok() {
            return inner.works();
        }
        pause = (pause * 2).min(LAST_PAUSE);
    }
}
