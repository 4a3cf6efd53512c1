//! How much a server may say that nobody asked for: a token bucket. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// Said at once, beside one word for each resource that is watched.
const BURST: usize = 1_000;
/// A word is forgotten in this time: 100 in a second, which is 1 % of a core.
const EACH: Duration = Duration::from_millis(10);

/// Of one connection, all its streams together.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Words that are not forgotten yet.
    said: usize,
    counted: Option<Instant>,
}

impl Flow {
    /// Takes a word; false when it is too many. `watched` is how many resources may each have changed.
    pub(crate) fn take(&mut self, now: Instant, watched: usize) -> bool {
        let since = self
            .counted
            .map_or(Duration::ZERO, |counted| now.saturating_duration_since(counted));
        let back = since.as_millis() / EACH.as_millis();
        if back > 0 || self.counted.is_none() {
            self.counted = Some(now);
            self.said = self
                .said
                .saturating_sub(usize::try_from(back).unwrap_or(usize::MAX));
        }
        let fits = self.said < BURST.saturating_add(watched);
        if fits {
            self.said += 1;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_then_a_steady_flow() {
        let mut flow = Flow::default();
        let mut passed = |count: u32| (0..count).filter(|_| flow.take(Instant::now(), 0)).count();
        assert_eq!(passed(1_500), 1_000);
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(passed(100), 50);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(passed(2_000), 1_000);
        // A flow that comes faster than a token is not cheated of the time between.
        for _ in 0..20 {
            tokio::time::advance(Duration::from_millis(6)).await;
            passed(1);
        }
        tokio::time::advance(Duration::from_millis(10)).await;
        assert!(passed(100) >= 1);
        // Each resource that is watched may say so.
        let mut flow = Flow::default();
        let passed = (0..20_000).filter(|_| flow.take(Instant::now(), 10_000)).count();
        assert_eq!(passed, 11_000);
    }
}
