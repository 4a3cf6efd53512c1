//! Waits between tries: growing, bounded, with jitter, so that many pods do not come back in step.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// How long to wait between tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// After the first failure; doubles.
    pub first: Duration,
    /// The longest.
    pub max: Duration,
}

/// The waits of one series of failures.
#[derive(Debug, Clone)]
pub struct Backoff {
    pace: Pace,
    next: Duration,
}

impl Backoff {
    /// Starts a series.
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            next: pace.first,
        }
    }

    /// The next wait: three quarters to all of the nominal one, never more than `max`.
    pub fn wait(&mut self) -> Duration {
        let nominal = self.next.min(self.pace.max);
        self.next = nominal.saturating_mul(2);
        jittered(nominal, 0.25)
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.next = self.pace.first;
    }
}

/// `duration` shortened by a random part of at most `fraction` of it.
pub fn jittered(duration: Duration, fraction: f64) -> Duration {
    // The seeds of `RandomState` are random: enough to spread load, and no generator to carry.
    let bits = u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or(0);
    let random = f64::from(bits) / f64::from(u32::MAX);
    duration.mul_f64(1.0 - fraction.clamp(0.0, 1.0) * random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_bound_and_start_over() {
        let pace = Pace {
            first: Duration::from_secs(1),
            max: Duration::from_secs(30),
        };
        let mut backoff = Backoff::new(pace);
        for nominal in [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] {
            let wait = backoff.wait().as_secs_f64();
            assert!(wait <= nominal && wait >= nominal * 0.75, "{wait} of {nominal}");
        }
        backoff.reset();
        assert!(backoff.wait() <= Duration::from_secs(1));
    }

    #[test]
    fn jitter_differs_and_stays_inside() {
        let all: Vec<_> = (0..100)
            .map(|_| jittered(Duration::from_secs(100), 0.1))
            .collect();
        assert!(all.iter().all(|one| (90..=100).contains(&one.as_secs())));
        assert!(all.windows(2).any(|pair| pair[0] != pair[1]));
    }
}
