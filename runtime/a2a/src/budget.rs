//! Memory that requests may hold together, and those of one caller: who finds none left waits, so that a caller with many
//! connections is slowed down and the agent is not.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What a permit stands for. Less is not worth counting.
const UNIT: usize = 1024;

/// What there is, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// For all callers.
    pub(crate) all: usize,
    /// For one.
    pub(crate) each: usize,
    /// Requests of one caller that may wait for their part.
    pub(crate) waiting: usize,
}

/// The budget of one listener.
#[derive(Debug)]
pub(crate) struct Budget {
    share: Share,
    all: Arc<Semaphore>,
    callers: Mutex<HashMap<String, Weak<Own>>>,
}

/// One caller's part.
#[derive(Debug)]
struct Own {
    units: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// Too many requests of the caller wait.
#[derive(Debug)]
pub(crate) struct Busy;

/// A part that is in use. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Reserved {
    own: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
    // Keeps the caller's count alive as long as something of it is in use.
    _caller: Arc<Own>,
}

/// Counts one that waits.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Budget {
    pub(crate) fn new(share: Share) -> Self {
        Self {
            share,
            all: Arc::new(Semaphore::new(units(share.all) as usize)),
            callers: Mutex::default(),
        }
    }

    /// Waits for `bytes`. More than one caller may have is taken as that: a bound must not refuse for ever.
    pub(crate) async fn reserve(&self, caller: &str, bytes: usize) -> Result<Reserved, Busy> {
        let units = units(bytes.min(self.share.each));
        let caller = self.own(caller);
        let waits = Waits(&caller.waiting);
        if caller.waiting.fetch_add(1, Ordering::SeqCst) >= self.share.waiting {
            return Err(Busy);
        }
        // The caller's part first, so that its surplus does not stand in the others' way.
        let own = caller.units.clone().acquire_many_owned(units).await;
        let all = self.all.clone().acquire_many_owned(units).await;
        drop(waits);
        // They are never closed.
        let (own, all) = (own.map_err(|_| Busy)?, all.map_err(|_| Busy)?);
        Ok(Reserved {
            own,
            all,
            _caller: caller,
        })
    }

    fn own(&self, caller: &str) -> Arc<Own> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = callers.get(caller).and_then(Weak::upgrade) {
            return own;
        }
        callers.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Own {
            units: Arc::new(Semaphore::new(units(self.share.each) as usize)),
            waiting: AtomicUsize::new(0),
        });
        callers.insert(caller.to_owned(), Arc::downgrade(&own));
        own
    }
}

impl Reserved {
    /// It was less.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        for permit in [&mut self.own, &mut self.all] {
            let surplus = permit.num_permits().saturating_sub(units(bytes) as usize);
            drop(permit.split(surplus));
        }
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn budget() -> Budget {
        Budget::new(Share {
            all: 10 * UNIT,
            each: 4 * UNIT,
            waiting: 2,
        })
    }

    #[tokio::test]
    async fn a_caller_that_has_its_part_waits_and_the_others_do_not() {
        let budget = budget();
        let mut first = budget.reserve("alice", 3 * UNIT).await.unwrap();
        assert!(budget.reserve("alice", 2 * UNIT).now_or_never().is_none());
        assert!(budget.reserve("bob", 4 * UNIT).now_or_never().is_some());
        // It was less than it might have been.
        first.shrink(UNIT + 1);
        assert!(budget.reserve("alice", 2 * UNIT).now_or_never().is_some());
        assert!(budget.reserve("alice", 3 * UNIT).now_or_never().is_none());
        drop(first);
        let all = budget.reserve("alice", 100 * UNIT).await.unwrap();
        assert_eq!(all.own.num_permits(), 4);
        drop(all);
        assert_eq!(budget.all.available_permits(), 10);
    }

    #[tokio::test]
    async fn all_together_have_no_more_than_there_is() {
        let budget = budget();
        let held = [
            budget.reserve("alice", 4 * UNIT).await.unwrap(),
            budget.reserve("bob", 4 * UNIT).await.unwrap(),
        ];
        assert!(budget.reserve("carol", 3 * UNIT).now_or_never().is_none());
        drop(held);
        assert!(budget.reserve("carol", 3 * UNIT).now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_waits_is_counted_and_forgotten_when_it_goes() {
        let budget = budget();
        let held = budget.reserve("alice", 4 * UNIT).await.unwrap();
        let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(budget.reserve("alice", 1))).collect();
        for waiting in &mut waiting {
            assert!(waiting.now_or_never().is_none());
        }
        assert!(matches!(
            budget.reserve("alice", 1).now_or_never(),
            Some(Err(Busy))
        ));
        waiting.pop();
        assert!(budget.reserve("alice", 1).now_or_never().is_none());
        drop((held, waiting));
        assert!(budget.reserve("bob", 1).now_or_never().is_some());
        assert_eq!(
            budget.callers.lock().unwrap().len(),
            1,
            "nobody is kept for nothing"
        );
    }
}
