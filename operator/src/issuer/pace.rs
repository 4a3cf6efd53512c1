//! How often one may ask: a token bucket for each key. What asks all the time is broken or means harm, and must not keep
//! the issuer from the others.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// The bounds of a [`Pace`].
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Requests at once.
    pub burst: f64,
    /// Requests a second after that.
    pub per_second: f64,
    /// Keys remembered at once. Above, those whose bucket is full again are forgotten first.
    pub keys: usize,
}

/// A token bucket for each key.
#[derive(Debug)]
pub struct Pace<K> {
    rate: Rate,
    buckets: HashMap<K, Bucket>,
}

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn refilled(&self, rate: Rate, now: Instant) -> f64 {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        (self.left + since * rate.per_second).min(rate.burst)
    }
}

impl<K: Eq + Hash> Pace<K> {
    /// Nobody has asked.
    pub fn new(rate: Rate) -> Self {
        let buckets = HashMap::new();
        Self { rate, buckets }
    }

    /// Counts one request.
    ///
    /// # Errors
    /// When it comes too early: how long to wait.
    pub fn take(&mut self, key: K, now: Instant) -> Result<(), Duration> {
        let rate = self.rate;
        if self.buckets.len() >= rate.keys && !self.buckets.contains_key(&key) {
            self.buckets
                .retain(|_, bucket| bucket.refilled(rate, now) < rate.burst);
            if self.buckets.len() >= rate.keys {
                return Err(Duration::from_secs_f64(1.0 / rate.per_second));
            }
        }
        let bucket = self.buckets.entry(key).or_insert(Bucket {
            left: rate.burst,
            at: now,
        });
        let left = bucket.refilled(rate, now);
        bucket.at = now;
        bucket.left = left;
        if left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - left) / rate.per_second));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate {
        burst: 30.0,
        per_second: 0.5,
        keys: 1000,
    };

    #[test]
    fn one_is_slowed_and_the_others_are_not() {
        let mut pace = Pace::new(RATE);
        let start = Instant::now();
        for _ in 0..30 {
            assert_eq!(pace.take("a", start), Ok(()));
        }
        assert_eq!(pace.take("a", start), Err(Duration::from_secs(2)));
        assert_eq!(pace.take("b", start), Ok(()));
        let later = start + Duration::from_secs(2);
        assert_eq!(pace.take("a", later), Ok(()));
        assert!(pace.take("a", later).is_err());
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_idle_make_room() {
        let mut pace = Pace::new(RATE);
        let start = Instant::now();
        for key in 0..RATE.keys {
            assert!(pace.take(key, start).is_ok());
        }
        assert!(pace.take(RATE.keys, start).is_err());
        assert!(pace.take(7, start).is_ok(), "who is remembered may go on");
        let later = start + Duration::from_secs(2);
        assert!(pace.take(RATE.keys, later).is_ok());
        assert_eq!(pace.buckets.len(), 2);
    }
}
