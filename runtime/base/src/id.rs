//! Ids through a source, so that tests can script them. All are UUIDv7: unique, and ordered by time.

use std::sync::Arc;

/// Draws ids.
pub trait IdSource: Send + Sync {
    /// A new id: 36 characters of `[0-9a-f-]`.
    fn next(&self) -> String;
}

/// UUIDv7 ids.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uuids;

impl IdSource for Uuids {
    fn next(&self) -> String {
        uuid::Uuid::now_v7().to_string()
    }
}

/// A shared source.
pub type SharedIds = Arc<dyn IdSource>;

/// UUIDv7 ids, shared.
pub fn uuids() -> SharedIds {
    Arc::new(Uuids)
}
