//! Counts what one peer holds at once, so that no peer holds everything.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts by key, each up to one limit. A key that holds nothing takes no memory. Cheap to clone: clones count together.
#[derive(Debug)]
pub(crate) struct Tally<K> {
    limit: usize,
    counts: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K> Clone for Tally<K> {
    fn clone(&self) -> Self {
        Self {
            limit: self.limit,
            counts: self.counts.clone(),
        }
    }
}

/// One that is counted, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted<K: Eq + Hash>(Tally<K>, K);

impl<K: Clone + Eq + Hash> Tally<K> {
    /// At most `limit` of each key.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            counts: Arc::default(),
        }
    }

    /// Counts one more; none when the key has all that it may have.
    pub(crate) fn enter(&self, key: &K) -> Option<Counted<K>> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.clone()).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Counted(self.clone(), key.clone()))
    }
}

impl<K: Eq + Hash> Drop for Counted<K> {
    fn drop(&mut self) {
        let mut counts = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_is_bounded_and_gives_its_place_back() {
        let tally = Tally::new(2);
        let first = tally.enter(&"a");
        let second = tally.enter(&"a");
        assert!(first.is_some() && second.is_some() && tally.enter(&"a").is_none());
        assert!(tally.enter(&"b").is_some());
        drop(first);
        let third = tally.clone().enter(&"a");
        assert!(third.is_some());
        drop((second, third));
        assert!(tally.counts.lock().unwrap().is_empty());
    }
}
