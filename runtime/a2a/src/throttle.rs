//! Log lines that strangers can cause: at most one a second, and it says how many were left out.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Often enough to see an attack, seldom enough not to be one.
const EVERY: Duration = Duration::from_secs(1);

/// One kind of line.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    left_out: u64,
}

impl Throttle {
    /// `Some(lines left out before this one)` when a line may be written now.
    pub(crate) fn pass(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state
            .last
            .is_some_and(|last| now.saturating_duration_since(last) < EVERY)
        {
            state.left_out = state.left_out.saturating_add(1);
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_that_counts_the_others() {
        let throttle = Throttle::default();
        let start = Instant::now();
        assert_eq!(throttle.pass(start), Some(0));
        assert_eq!(throttle.pass(start), None);
        assert_eq!(throttle.pass(start + Duration::from_millis(999)), None);
        assert_eq!(throttle.pass(start + Duration::from_secs(1)), Some(2));
    }
}
