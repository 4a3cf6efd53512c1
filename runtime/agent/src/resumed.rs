//! A turn that waits for a person may be given up, and gone on with later, by another process too: how it stood when
//! the last call of its round began to wait, and what came of that call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::observation::Observation;

/// A turn whose last round has its results, but for one call, which waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoFar {
    /// The conversation.
    pub transcript: Value,
    /// The id of the call in its last round that waits.
    pub call: String,
    /// Model calls and tool calls, that one included.
    pub steps: u32,
    /// Of them, tool calls.
    pub tool_calls: u32,
    /// Tokens, both ways.
    pub tokens: u64,
}

/// What a turn goes on with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// Tool calls that were made: the next is another one.
    pub tool_calls: u32,
    /// The id of the call that waited.
    pub call: String,
    /// What came of it.
    pub seen: Observation,
}
