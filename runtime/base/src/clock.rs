//! Time as a parameter: everything that reads the wall clock takes a [`Clock`].

use std::sync::Arc;

use jiff::Timestamp;

/// Reads the wall clock.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock, shared.
pub fn system() -> SharedClock {
    Arc::new(SystemClock)
}

/// A clock that stands where it was put: for tests.
#[derive(Debug)]
pub struct FixedClock(std::sync::Mutex<Timestamp>);

impl FixedClock {
    /// A clock at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self(std::sync::Mutex::new(now))
    }

    /// Moves the clock.
    pub fn set(&self, now: Timestamp) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = now;
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
