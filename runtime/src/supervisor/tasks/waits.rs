//! Turns that hold a slot and wait for somebody else. Pure. Guarantees: no more wait than was said, and of one principal
//! half as many ask people, so that nobody's silence keeps others from asking.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::lock;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Waits(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    asking: HashMap<String, usize>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(in crate::supervisor) struct Waiting {
    waits: Arc<Mutex<Counts>>,
    owner: Option<String>,
}

impl Waits {
    /// One more, which is of a principal if it asks a person; none where `most` wait already.
    pub(super) fn begin(&self, owner: Option<&str>, most: usize) -> Option<Waiting> {
        let mut counts = lock(&self.0);
        if counts.all >= most {
            return None;
        }
        if let Some(owner) = owner {
            let asking = counts.asking.entry(owner.to_owned()).or_default();
            if *asking >= most.div_ceil(2) {
                return None;
            }
            *asking += 1;
        }
        counts.all += 1;
        Some(Waiting {
            waits: self.0.clone(),
            owner: owner.map(str::to_owned),
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut counts = lock(&self.waits);
        counts.all = counts.all.saturating_sub(1);
        let Some(owner) = &self.owner else { return };
        if let Some(asking) = counts.asking.get_mut(owner) {
            *asking = asking.saturating_sub(1);
            if *asking == 0 {
                counts.asking.remove(owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_principal_asks_with_half_of_what_may_wait_and_gives_it_back() {
        let waits = Waits::default();
        let first = waits.begin(Some("alice"), 3).unwrap();
        let _second = waits.begin(Some("alice"), 3).unwrap();
        assert!(waits.begin(Some("alice"), 3).is_none());
        let third = waits.begin(Some("bob"), 3).unwrap();
        assert!(waits.begin(Some("carol"), 3).is_none() && waits.begin(None, 3).is_none());
        drop((first, third));
        assert!(waits.begin(Some("alice"), 3).is_some() && waits.begin(None, 3).is_some());
        assert_eq!(lock(&waits.0).asking.len(), 1);
        assert!(waits.begin(Some("carol"), 0).is_none());
    }
}
