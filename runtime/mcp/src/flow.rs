//! How much a server may say that nobody asked for: a token bucket. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// Said at once: a server that has a thousand resources may say that each of them changed.
const BURST: u32 = 1_000;
/// A token comes back in this time: 100 in a second, which is 1 % of a core.
const EACH: Duration = Duration::from_millis(10);

/// Of one connection, all its streams together.
#[derive(Debug)]
pub(crate) struct Flow {
    tokens: u32,
    counted: Option<Instant>,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            tokens: BURST,
            counted: None,
        }
    }
}

impl Flow {
    /// Takes a token; false when there is none.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let since = self
            .counted
            .map_or(Duration::ZERO, |counted| now.saturating_duration_since(counted));
        let back = since.as_millis() / EACH.as_millis();
        if back > 0 || self.counted.is_none() {
            self.counted = Some(now);
            let back = u32::try_from(back).unwrap_or(u32::MAX);
            self.tokens = self.tokens.saturating_add(back).min(BURST);
        }
        match self.tokens.checked_sub(1) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_then_a_steady_flow() {
        let mut flow = Flow::default();
        let mut passed = |count: u32| (0..count).filter(|_| flow.take(Instant::now())).count();
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
    }
}
