//! How many turns run at once: as many as the document says at this moment. Guarantees: who waits is served in the order
//! of arrival; a turn that runs is never ended because the number became smaller, the next ones wait.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::supervisor::settings::{SettingsWatch, current};

/// See the module.
pub(super) struct Slots {
    free: Semaphore,
    /// Slots that there are, taken or free.
    size: Mutex<usize>,
    settings: SettingsWatch,
}

/// One of them, taken.
pub(super) struct Slot<'a> {
    slots: &'a Slots,
    permit: Option<SemaphorePermit<'a>>,
}

impl Slots {
    pub(super) fn new(settings: SettingsWatch) -> Self {
        let slots = Self {
            free: Semaphore::new(0),
            size: Mutex::new(0),
            settings,
        };
        slots.fit();
        slots
    }

    /// Waits for one. None when there will be none any more.
    pub(super) async fn take(&self) -> Option<Slot<'_>> {
        let mut settings = self.settings.clone();
        settings.mark_unchanged();
        self.fit();
        // Kept while the number changes: its place in the queue is its own.
        let mut free = pin!(self.free.acquire());
        loop {
            tokio::select! {
                permit = &mut free => {
                    let permit = Some(permit.ok()?);
                    return Some(Slot { slots: self, permit });
                }
                Ok(()) = settings.changed() => self.fit(),
            }
        }
    }

    /// As many as the document says; of those that are too many as long as they are taken the holders get rid.
    fn fit(&self) {
        let limit = self.limit();
        let mut size = self.size();
        if *size < limit {
            self.free.add_permits(limit - *size);
            *size = limit;
        } else {
            *size -= self.free.forget_permits(*size - limit);
        }
    }

    /// How many there are to be.
    pub(super) fn limit(&self) -> usize {
        let limit = current(&self.settings).document.agent.max_parallel_turns();
        usize::try_from(limit).unwrap_or(Semaphore::MAX_PERMITS)
    }

    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        let size = self.size();
        size.saturating_sub(self.free.available_permits())
    }

    fn size(&self) -> MutexGuard<'_, usize> {
        self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let limit = self.slots.limit();
        let mut size = self.slots.size();
        if *size > limit
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
            *size -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Poll;

    use agentd_config::Document;
    use futures::poll;
    use tokio::sync::watch;

    use super::*;
    use crate::supervisor::settings::Settings;

    fn settings(turns: Option<u32>) -> Arc<Settings> {
        let mut document = Document::default();
        document.agent.max_parallel_turns = turns;
        Arc::new(Settings {
            generation: 1,
            document,
            digest: None,
        })
    }

    #[tokio::test]
    async fn without_a_number_there_are_four() {
        let slots = Slots::new(watch::channel(settings(None)).1);
        let mut taken = Vec::new();
        for _ in 0..4 {
            taken.push(slots.take().await.unwrap());
        }
        assert!(poll!(pin!(slots.take())).is_pending());
        taken.clear();
        assert!(poll!(pin!(slots.take())).is_ready());
    }

    #[tokio::test]
    async fn another_number_holds_at_once_and_nobody_who_runs_is_ended_or_overtaken() {
        let (sender, watch) = watch::channel(settings(Some(1)));
        let slots = Slots::new(watch);
        let first = slots.take().await.unwrap();
        let (mut second, mut third) = (pin!(slots.take()), pin!(slots.take()));
        assert!(poll!(&mut second).is_pending() && poll!(&mut third).is_pending());
        // One more: for whoever came first.
        sender.send_replace(settings(Some(2)));
        assert!(poll!(&mut third).is_pending());
        let Poll::Ready(Some(second)) = poll!(&mut second) else {
            panic!("it waits for a slot that is free");
        };
        // One less: the one that is given back is not given to the next.
        sender.send_replace(settings(Some(1)));
        drop(first);
        assert!(poll!(&mut third).is_pending());
        drop(second);
        assert!(poll!(&mut third).is_ready());
    }
}
