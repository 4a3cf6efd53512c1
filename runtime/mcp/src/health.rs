//! What one connection's transport has seen: whether the server is lost, why, and how fast a dropped notification
//! stream may be opened again. Shared by the transport, which writes it, and the connection, which reads it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agentd_base::class::Class;
use agentd_net::{Backoff, Pace};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::events::Flood;
use crate::fault::Fault;

/// A notification stream that lasted this long was a good one; the next starts with the shortest wait.
const STEADY: Duration = Duration::from_secs(30);
/// Waits before a stream is opened again. A server that ends every stream at once is asked twice a minute.
const REOPEN: Pace = Pace {
    first: Duration::from_secs(1),
    max: Duration::from_secs(30),
};
/// Between two resumptions of answers: a server that breaks off each of them at once does not make us busy.
const RESUME: Duration = Duration::from_millis(100);
/// A server that sent too much is not asked for the rest of an answer for this long.
const FLOODED: Duration = Duration::from_secs(1);
/// Failed attempts in a row to open the stream again, after which the server counts as lost.
const ATTEMPTS: u32 = 3;

/// See the module.
#[derive(Debug)]
pub(crate) struct Health {
    server: String,
    lost: watch::Sender<bool>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    fault: Option<Fault>,
    opened: Option<Instant>,
    failures: u32,
    backoff: Backoff,
    flooded: Option<Instant>,
    floods: u32,
    resumed: Option<Instant>,
}

impl Health {
    pub(crate) fn new(server: &str) -> Self {
        let state = State {
            fault: None,
            opened: None,
            failures: 0,
            backoff: Backoff::new(REOPEN),
            flooded: None,
            floods: 0,
            resumed: None,
        };
        Self {
            server: server.to_owned(),
            lost: watch::Sender::new(false),
            state: Mutex::new(state),
        }
    }

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
        let state = self.state();
        // Requests that went well before it change nothing about it.
        if state.floods >= ATTEMPTS {
            return Some(flood());
        }
        state.fault.clone()
    }

    /// How long to wait before the notification stream is opened: not at all the first time.
    pub(crate) fn before_stream(&self) -> Duration {
        let mut state = self.state();
        match state.opened {
            None => Duration::ZERO,
            Some(opened) if opened.elapsed() >= STEADY => {
                state.backoff.reset();
                state.floods = 0;
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

    /// A stream was ended because the server said too much on it. One that does it again and again counts as lost.
    pub(crate) fn flooded(&self, notices: bool) {
        let floods = {
            let mut state = self.state();
            state.fault = Some(flood());
            state.flooded = Some(Instant::now());
            if notices {
                state.floods = state.floods.saturating_add(1);
            }
            state.floods
        };
        tracing::warn!(event = "mcp.stream.flood", mcp.server = %self.server, "{Flood}; the stream is closed");
        if floods >= ATTEMPTS {
            self.lose();
        }
    }

    /// Whether that is why the server is lost.
    pub(crate) fn is_lost_to_floods(&self) -> bool {
        self.state().floods >= ATTEMPTS
    }

    /// Whether a stream was ended so a moment ago.
    pub(crate) fn is_flooded(&self) -> bool {
        self.state().flooded.is_some_and(|at| at.elapsed() < FLOODED)
    }

    /// When an answer that broke off may be asked for again.
    pub(crate) fn resume_at(&self) -> Instant {
        let mut state = self.state();
        let now = Instant::now();
        let at = state.resumed.map_or(now, |last| now.max(last + RESUME));
        state.resumed = Some(at);
        at
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn flood() -> Fault {
    Fault::failed(Class::Unavailable, Flood.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test(start_paused = true)]
    async fn streams_that_end_at_once_are_opened_ever_more_slowly() {
        let health = Health::new("s");
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

    #[tokio::test(start_paused = true)]
    async fn a_server_that_floods_every_stream_is_lost() {
        let health = Health::new("s");
        health.flooded(false);
        assert!(health.is_flooded());
        tokio::time::advance(FLOODED).await;
        assert!(!health.is_flooded());
        for _ in 0..2 {
            health.stream_opened();
            health.flooded(true);
        }
        assert!(health.lost().now_or_never().is_none());
        assert_eq!(
            health.fault().map(|fault| fault.message).as_deref(),
            Some("the server sends more than is asked for")
        );
        health.stream_opened();
        health.flooded(true);
        health.lost().await;
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_resumed_one_after_the_other() {
        let health = Health::new("s");
        let now = Instant::now();
        let waits: Vec<_> = (0..3).map(|_| health.resume_at() - now).collect();
        assert_eq!(waits, [Duration::ZERO, RESUME, RESUME * 2]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(health.resume_at(), Instant::now());
    }

    #[tokio::test]
    async fn three_failures_in_a_row_lose_the_server() {
        let health = Health::new("s");
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
