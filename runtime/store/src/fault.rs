//! What every engine says in the same words. Pure.

use agentd_base::json::why;
use agentd_base::text::clip;
use agentd_state::StoreError;

/// Of an id, in messages.
const ID_CHARS: usize = 512;

/// A message id that its owner has used before.
pub(crate) fn taken(owner: &str, message_id: &str) -> StoreError {
    StoreError::Conflict(format!("message {message_id} of {owner}"))
}

/// A record that does not parse.
pub(crate) fn unreadable(kind: &str, id: &str, error: &serde_json::Error) -> StoreError {
    StoreError::Corrupt(format!("{kind} {}: {}", clip(id, ID_CHARS), why(error)))
}

/// Entries of one principal beyond its share.
pub(crate) fn too_much_of_one(share: u64) -> StoreError {
    StoreError::Full(format!(
        "memory and artifacts of this principal would take more than {} MiB; delete some, or give them an expiry",
        share / 1024 / 1024
    ))
}

/// Entries beyond their bound.
pub(crate) fn too_much(bound: u64) -> StoreError {
    StoreError::Full(format!(
        "memory and artifacts would take more than {} MiB together; delete some, or give them an expiry",
        bound / 1024 / 1024
    ))
}
