//! Looks into a store without changing it, also while an agent runs on it: every record, and what cannot be read.

use agentd_base::json::why;
use agentd_state::{Conversation, Entry, StoreError, Task};
use serde_json::Value;

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// `context`, `task`, `inbox`, or a kind of entries.
    pub kind: String,
    /// Its id; of an entry, scope and key.
    pub id: String,
    /// The record, or why this version cannot read it.
    pub record: Result<Value, String>,
}

/// What a store says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overview {
    /// Of the store, and the newest that this version knows.
    pub schema: (u64, u64),
    /// What is wrong with the whole, not with one record.
    pub faults: Vec<String>,
}

/// Takes the records one by one; returning false ends it.
pub type Visit<'a> = &'a mut (dyn FnMut(Found) -> bool + Send);

/// Reads a record as what its kind says it is.
pub(crate) fn judge(kind: &str, text: &[u8]) -> Result<Value, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| why(&error))?;
    judge_value(kind, value)
}

/// The same, of JSON.
pub(crate) fn judge_value(kind: &str, value: Value) -> Result<Value, String> {
    fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<(), String> {
        T::deserialize(value).map(drop).map_err(|error| why(&error))
    }
    match kind {
        "context" => read::<Conversation>(&value)?,
        "task" => read::<Task>(&value)?,
        "inbox" => {}
        _ => read::<Entry>(&value)?,
    }
    Ok(value)
}

/// A store that is not there.
pub(crate) fn nothing_at(path: &std::path::Path) -> StoreError {
    StoreError::Unavailable(format!(
        "there is no store in {}; name the folder of the agent's store with `store.path`",
        path.display()
    ))
}
