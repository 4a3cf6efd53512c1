//! Readiness as guards: each start-up task registers under a name and is ready once its guard is released. What is
//! not ready is named, so `/readyz` can say why.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What still blocks readiness. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Readiness {
    /// Nothing blocks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Blocks readiness under `name`, with the cause for people.
    pub fn block(&self, name: &'static str, cause: impl Into<String>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, cause.into());
    }

    /// Releases `name`.
    pub fn release(&self, name: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// What blocks, as `name: cause`; empty when ready.
    pub fn blockers(&self) -> Vec<String> {
        let blockers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        blockers
            .iter()
            .map(|(name, cause)| format!("{name}: {cause}"))
            .collect()
    }
}
