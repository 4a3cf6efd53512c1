//! Deliveries: one line for each configuration that is owed something, in which one request follows the other until
//! nothing is owed, with growing pauses after failures, and not for ever. What is sent is the task as it is then, so a
//! receiver that was away hears of the last change and not of each. Nothing runs while nothing is owed.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use agentd_net::{Backoff, Pace};
use agentd_state::{EntryKind, StoreError};
use jiff::{SignedDuration, Timestamp};
use tracing::Instrument as _;

use super::{AGE, Mark, Name, Push, dropped, mark};
use crate::metrics::Delivery;
use crate::supervisor::record::wire_task;
use crate::supervisor::tasks::lock;

/// Deliveries at once: one endpoint that hangs keeps none of the others for long.
pub(super) const AT_ONCE: usize = 16;
/// Between tries of one delivery.
const PACE: Pace = Pace {
    first: Duration::from_secs(1),
    max: Duration::from_secs(600),
};

/// What a configuration is owed.
pub(super) struct Debt {
    /// The change; unknown of one that the process before left.
    change: Option<Mark>,
    /// Since it heard of none.
    pub(super) since: Timestamp,
}

/// What came of a try.
enum Tried {
    /// The receiver has it.
    Told(Mark),
    /// It may later.
    Failed(String),
    /// There is nothing to tell, or nobody.
    Nothing,
}

impl Push {
    /// From now on this is owed; a line that runs goes on with it.
    pub(super) fn begin(self: Arc<Self>, name: Name, change: Option<Mark>, now: Timestamp) {
        match lock(&self.owed).entry(name.clone()) {
            Entry::Occupied(mut runs) => {
                runs.get_mut().change = change;
                return;
            }
            Entry::Vacant(none) => none.insert(Debt { change, since: now }),
        };
        let span = tracing::info_span!("push", run.id = name.0);
        tokio::spawn(async move { self.run(name).await }.instrument(span));
    }

    async fn run(&self, name: Name) {
        let mut backoff = Backoff::new(PACE);
        let mut tries: u64 = 0;
        loop {
            let Some((before, since)) = lock(&self.owed).get(&name).map(|debt| (debt.change, debt.since))
            else {
                return;
            };
            match self.send(&name).await {
                Tried::Told(told) => {
                    self.metrics.push(Delivery::Told);
                    if self.settle(&name, |now| now == before || now == Some(told)).await {
                        tracing::debug!(event = "a2a.push.delivered", tries);
                        return;
                    }
                    (tries, backoff) = (0, Backoff::new(PACE));
                }
                Tried::Nothing => {
                    self.settle(&name, |_| true).await;
                    return;
                }
                Tried::Failed(why) => {
                    tries += 1;
                    let age = self.clock.now().duration_since(since);
                    if age >= SignedDuration::try_from(AGE).unwrap_or(SignedDuration::MAX) {
                        tracing::warn!(event = "a2a.push.failed", err = why, tries, "it is given up");
                        self.metrics.push(Delivery::GivenUp);
                        self.settle(&name, |_| true).await;
                        return;
                    }
                    if tries == 1 {
                        tracing::warn!(event = "a2a.push.failed", err = why, tries, "it is tried again");
                    }
                    self.metrics.push(Delivery::Failed);
                    tokio::time::sleep(backoff.wait()).await;
                }
            }
        }
    }

    /// Tells the receiver of the task as it is.
    async fn send(&self, name: &Name) -> Tried {
        // It is held from the read of the task to the last byte, so that few tasks are in memory for it.
        let Ok(_place) = self.places.acquire().await else {
            return Tried::Nothing;
        };
        let config = {
            let book = self.book.read().await;
            let found = book.get(&name.0).and_then(|of_task| of_task.configs.get(&name.1));
            found.cloned()
        };
        let Some(config) = config else {
            return Tried::Nothing;
        };
        let task = match self.store.task(&name.0).await {
            Ok(Some(task)) => task,
            Ok(None) | Err(StoreError::Corrupt(_)) => return Tried::Nothing,
            Err(error) => return Tried::Failed(error.to_string()),
        };
        let told = mark(&task);
        match self.sender.send(&config, wire_task(task)).await {
            Ok(()) => Tried::Told(told),
            Err(why) => Tried::Failed(why),
        }
    }

    /// Ends the line if what is owed now is paid; whether it did.
    async fn settle(&self, name: &Name, is_paid: impl Fn(Option<Mark>) -> bool) -> bool {
        // No task is written meanwhile.
        let _book = self.book.write().await;
        let change = lock(&self.owed).get(name).map(|debt| debt.change);
        if !change.is_none_or(is_paid) {
            return false;
        }
        // What cannot be dropped is delivered again by the next process.
        if let Err(error) = self.store.put(vec![dropped(EntryKind::Outbox, name)]).await {
            tracing::debug!(event = "a2a.push.failed", err = %error, "it was delivered and is kept");
        }
        lock(&self.owed).remove(name);
        true
    }
}
