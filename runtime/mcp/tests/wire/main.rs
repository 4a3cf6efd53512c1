//! What the MCP client does on the wire, against a scripted server that writes down everything it is sent.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr
)]

mod calls;
mod case;
mod changed_lists;
mod credentials;
mod elicitation;
mod everything;
mod handshake;
mod lists;
mod log;
mod missed;
mod modern;
mod peer;
mod questions;
mod requests;
mod resources;
mod script;
mod storms;
mod supervised;
mod watching;
