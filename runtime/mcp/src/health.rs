//! What one connection's transport has seen: whether the server is lost, why, and how fast a dropped notification
//! stream may be opened again. Shared by the transport, which writes it, and the connection, which reads it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agentd_net::{Backoff, Pace};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::fault::Fault;

/// A notification stream that lasted this long was a good one; the next starts with the shortest wait.
const STEADY: Duration = Duration::from_secs(30);
/// Waits before a stream is opened again. A server that ends every stream at once is asked twice a minute.
const REOPEN: Pace = Pace {
    first: Duration::from_secs(1),
    max: Duration::from_secs(30),
};
/// Failed attempts in a row to open the stream again, after which the server counts as lost.
const ATTEMPTS: u32 = 3;

/// See the module.
#[derive(Debug)]
pub(crate) struct Health {
    lost: watch::Sender<bool>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    fault: Option<Fault>,
    opened: Option<Instant>,
    failures: u32,
    backoff: Backoff,
}

impl Default for Health {
    fn default() -> Self {
        let state = State {
            fault: None,
            opened: None,
            failures: 0,
            backoff: Backoff::new(REOPEN),
        };
        Self {
            lost: watch::Sender::new(false),
            state: Mutex::new(state),
        }
    }
}

impl Health {
    /// Marks the server as lost.
    pub(crate) fn lose(&self) {
        self.lost.send_replace(true);
    }

    /// Resolves once the server is lost.
    pub(crate) async fn lost(&self) {
        let _ = self.lost.subscribe().wait_for(|lost| *lost).await;
    }

    /// Keeps how the last exchange ended, for messages that the SDK gives without their cause.
    pub(crate) fn note(&self, fault: Option<Fault>) {
        self.state().fault = fault;
    }

    /// The fault of the last exchange, if it had one.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.state().fault.clone()
    }

    /// How long to wait before the notification stream is opened: not at all the first time.
    pub(crate) fn before_stream(&self) -> Duration {
        let mut state = self.state();
        match state.opened {
            None => Duration::ZERO,
            Some(opened) if opened.elapsed() >= STEADY => {
                state.backoff.reset();
                Duration::ZERO
            }
            Some(_) => state.backoff.wait(),
        }
    }

    /// Whether the notification stream was open at some time.
    pub(crate) fn had_stream(&self) -> bool {
        self.state().opened.is_some()
    }

    /// The notification stream is open.
    pub(crate) fn stream_opened(&self) {
        let mut state = self.state();
        state.opened = Some(Instant::now());
        state.failures = 0;
    }

    /// The notification stream could not be opened again.
    pub(crate) fn stream_failed(&self) {
        let failures = {
            let mut state = self.state();
            state.failures = state.failures.saturating_add(1);
            state.failures
        };
        if failures >= ATTEMPTS {
            self.lose();
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test(start_paused = true)]
    async fn streams_that_end_at_once_are_opened_ever_more_slowly() {
        let health = Health::default();
        assert_eq!(health.before_stream(), Duration::ZERO);
        health.stream_opened();
        let waits: Vec<_> = (0..8).map(|_| health.before_stream()).collect();
        assert!(
            waits.windows(2).take(4).all(|pair| pair[1] > pair[0]),
            "{waits:?}"
        );
        assert!(
            waits[7] > Duration::from_secs(20) && waits[7] <= Duration::from_secs(30),
            "{waits:?}"
        );
        tokio::time::advance(STEADY).await;
        assert_eq!(health.before_stream(), Duration::ZERO);
    }

    #[tokio::test]
    async fn three_failures_in_a_row_lose_the_server() {
        let health = Health::default();
        health.stream_failed();
        health.stream_failed();
        health.stream_opened();
        health.stream_failed();
        health.stream_failed();
        assert!(health.lost().now_or_never().is_none());
        health.stream_failed();
        health.lost().await;
    }
}
