//! Drain: one trigger, many watchers, a deadline. Servers and loops stop accepting when the signal fires, finish what
//! is in flight, and the process ends when every watcher is gone or the deadline has passed.

use std::time::Duration;

use tokio::sync::{mpsc, watch};

/// The half that starts the drain and waits for it.
#[derive(Debug)]
pub struct Drain {
    signal: watch::Sender<bool>,
    alive: mpsc::Sender<()>,
    gone: mpsc::Receiver<()>,
}

/// The half that in-flight work holds; the drain waits until every clone is dropped.
#[derive(Debug, Clone)]
pub struct Watch {
    signal: watch::Receiver<bool>,
    _alive: mpsc::Sender<()>,
}

impl Default for Drain {
    fn default() -> Self {
        Self::new()
    }
}

impl Drain {
    /// A drain that has not begun.
    pub fn new() -> Self {
        let (alive, gone) = mpsc::channel(1);
        Self {
            signal: watch::Sender::new(false),
            alive,
            gone,
        }
    }

    /// A watcher for one server, loop or request.
    pub fn watch(&self) -> Watch {
        Watch {
            signal: self.signal.subscribe(),
            _alive: self.alive.clone(),
        }
    }

    /// Fires the signal and waits for the watchers, at most `limit`. True when all ended in time.
    pub async fn run(self, limit: Duration) -> bool {
        let Self {
            signal,
            alive,
            mut gone,
        } = self;
        let _ = signal.send(true);
        drop(alive);
        tokio::time::timeout(limit, gone.recv()).await.is_ok()
    }
}

impl Watch {
    /// Resolves when the drain has begun (or its owner is gone).
    pub async fn signaled(&mut self) {
        let _ = self.signal.wait_for(|begun| *begun).await;
    }

    /// Whether the drain has begun.
    pub fn is_draining(&self) -> bool {
        *self.signal.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_for_watchers_and_gives_up_at_the_limit() {
        let drain = Drain::new();
        let mut watch = drain.watch();
        let worker = tokio::spawn(async move { watch.signaled().await });
        assert!(drain.run(Duration::from_secs(5)).await);
        worker.await.unwrap();

        let drain = Drain::new();
        let held = drain.watch();
        assert!(!drain.run(Duration::from_millis(1)).await);
        drop(held);
    }
}
