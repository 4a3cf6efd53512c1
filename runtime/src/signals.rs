//! The signals a process of ours listens to. Role: turn them into futures; what follows is decided elsewhere.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Handlers for the end of the process and for reload.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// SIGTERM or SIGINT: end, in order the first time, at once the second.
    End,
    /// SIGHUP: read the configuration again.
    Reload,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// When the kernel refuses one.
    pub fn install() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.terminate.recv() => Event::End,
            _ = self.interrupt.recv() => Event::End,
            _ = self.hangup.recv() => Event::Reload,
        }
    }
}
