//! `resource.read`: in the catalogue only while there is something to read.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{object, text};
use crate::grants::READ;
use crate::internal::{Call, Came, Handler, Internal};
use crate::reading;

struct Read;

pub(super) fn tools() -> Vec<Internal> {
    let read = Internal::new(
        READ,
        "Reads a resource: one of those that the MCP servers list, or an agentd:// URI that a result named.",
        object([("uri*", text(reading::URI_CHARS, "The URI."))]),
        json!(null),
        &Read,
    );
    vec![read.when(reading::is_useful)]
}

#[async_trait]
impl Handler for Read {
    async fn call(&self, call: Call<'_>) -> Came {
        let uri = call
            .arguments
            .get("uri")
            .and_then(Value::as_str)
            .unwrap_or_default();
        Came::Seen(reading::read(uri, call.ordinal, call.desk).await)
    }
}
