//! The two controllers. Each is `dereference -> validate -> build -> apply -> status`, one file a step: only
//! dereference, apply and status hold a client, only validate and build hold policy.

pub mod agent;
pub mod callers;
pub mod mcp_server;
