//! From YAML to objects: the real validation and the real build, without a client. Fixtures are documents as a person
//! applies them; the first is the subject, the others are the world around it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test, helpers included"
)]

mod agent;
mod api_server;
mod contract;
mod fields;
mod mcp_server;
mod refusals;
mod restricted;
mod standing;
mod world;
