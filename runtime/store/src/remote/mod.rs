//! Remote stores: an MCP server's tools and an HTTP service, each behind [`crate::Kv`]. What a document maps onto them is
//! a template with placeholders and pointers into the answer.

mod http;
mod mcp;
mod template;

pub use http::{HttpKv, HttpStoreError};
pub use mcp::McpKv;
