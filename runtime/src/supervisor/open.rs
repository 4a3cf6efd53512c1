//! What a worker waits for in a turn, by the worker's id of it. Each can be withdrawn; dropping the whole withdraws all.

use std::collections::BTreeMap;
use std::future::Future;

use futures::StreamExt as _;
use futures::future::{AbortHandle, Abortable, Aborted, BoxFuture};
use futures::stream::FuturesUnordered;

/// See the module.
pub(super) struct Open<T> {
    limit: usize,
    handles: BTreeMap<u64, AbortHandle>,
    running: FuturesUnordered<Abortable<BoxFuture<'static, (u64, T)>>>,
}

impl<T> Open<T> {
    /// At most `limit` at the same time.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            handles: BTreeMap::new(),
            running: FuturesUnordered::new(),
        }
    }

    /// Whether no more may begin.
    pub(super) fn is_full(&self) -> bool {
        self.handles.len() >= self.limit
    }

    /// Begins to wait. The caller has asked [`Open::is_full`].
    pub(super) fn begin(&mut self, id: u64, work: impl Future<Output = T> + Send + 'static) {
        let (handle, registration) = AbortHandle::new_pair();
        // An id that is used again is a worker's fault; the one before it is given up.
        if let Some(before) = self.handles.insert(id, handle) {
            before.abort();
        }
        let work: BoxFuture<'static, _> = Box::pin(async move { (id, work.await) });
        self.running.push(Abortable::new(work, registration));
    }

    /// Nobody waits for this one any more.
    pub(super) fn withdraw(&mut self, id: u64) {
        if let Some(handle) = self.handles.remove(&id) {
            handle.abort();
        }
    }

    /// Withdraws all.
    pub(super) fn close(&mut self) {
        self.running.clear();
        self.handles.clear();
    }

    /// The next that is there; never while nothing is waited for. Cancel safe.
    pub(super) async fn next(&mut self) -> (u64, T) {
        loop {
            match self.running.next().await {
                Some(Ok((id, done))) => {
                    self.handles.remove(&id);
                    return (id, done);
                }
                Some(Err(Aborted)) => {}
                None => std::future::pending().await,
            }
        }
    }
}
