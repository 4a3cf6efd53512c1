//! The runtime document: its types, how layers make one (file < env < flag < live folder), secret references,
//! validation. The operator serialises the very types that the pod parses. No I/O beyond reading files.

pub mod bridge;
pub mod defaults;
pub mod document;
pub mod endpoint;
pub mod fault;
pub mod file;
pub mod filter;
pub mod header;
pub mod live;
pub mod load;
mod parse;
pub mod paths;
pub mod reload;
pub mod secret;
mod shape;
mod spiffe;
pub mod trifecta;
pub mod validate;

pub use bridge::BridgeDocument;
pub use document::Document;
pub use fault::{ConfigErrors, Fault};
