//! How often one ServiceAccount may ask. A pod asks once when it starts and a few times a day; what asks all the time
//! is broken, and must not keep the issuer from the others.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Requests at once: all pods of a Job under one ServiceAccount may start together.
const BURST: f64 = 30.0;
/// Requests a second after that.
const PER_SECOND: f64 = 0.5;
/// ServiceAccounts remembered at once. Above, those who have not asked for a minute are forgotten first.
const MAX_ACCOUNTS: usize = 20_000;

/// A token bucket for each ServiceAccount.
#[derive(Debug, Default)]
pub struct Pace {
    buckets: HashMap<(String, String), Bucket>,
}

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn refilled(&self, now: Instant) -> f64 {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        (self.left + since * PER_SECOND).min(BURST)
    }
}

impl Pace {
    /// Counts one request.
    ///
    /// # Errors
    /// When it comes too early: how long to wait.
    pub fn take(&mut self, namespace: &str, account: &str, now: Instant) -> Result<(), Duration> {
        if self.buckets.len() >= MAX_ACCOUNTS {
            self.buckets.retain(|_, bucket| bucket.refilled(now) < BURST);
        }
        if self.buckets.len() >= MAX_ACCOUNTS {
            return Err(Duration::from_secs_f64(1.0 / PER_SECOND));
        }
        let key = (namespace.to_owned(), account.to_owned());
        let bucket = self.buckets.entry(key).or_insert(Bucket { left: BURST, at: now });
        let left = bucket.refilled(now);
        bucket.at = now;
        bucket.left = left;
        if left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - left) / PER_SECOND));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_account_is_slowed_and_the_others_are_not() {
        let mut pace = Pace::default();
        let start = Instant::now();
        for _ in 0..30 {
            assert_eq!(pace.take("ns", "a", start), Ok(()));
        }
        assert_eq!(pace.take("ns", "a", start), Err(Duration::from_secs(2)));
        assert_eq!(pace.take("ns", "b", start), Ok(()));
        assert_eq!(pace.take("other", "a", start), Ok(()));
        let later = start + Duration::from_secs(2);
        assert_eq!(pace.take("ns", "a", later), Ok(()));
        assert!(pace.take("ns", "a", later).is_err());
    }

    #[test]
    fn what_is_remembered_is_bounded_and_idle_accounts_make_room() {
        let mut pace = Pace::default();
        let start = Instant::now();
        for at in 0..MAX_ACCOUNTS {
            assert!(pace.take("ns", &at.to_string(), start).is_ok());
        }
        assert!(pace.take("ns", "one more", start).is_err());
        assert!(
            pace.take("ns", "one more", start + Duration::from_secs(2))
                .is_ok()
        );
        assert_eq!(pace.buckets.len(), 1);
    }
}
