//! The two controllers. Each is `dereference -> validate -> build -> apply -> status`, one file a step: only
//! dereference, apply and status hold a client, only validate and build hold policy. What both build alike stands here.

pub mod account;
pub mod agent;
mod apply;
pub mod callers;
pub mod destination;
mod engine;
pub mod mcp_server;
pub mod mounts;
pub mod network;
pub mod pair;
pub mod platform;
mod quantities;
mod statuses;
pub mod subject;
#[cfg(test)]
mod testing;
pub mod unsupported;
mod upkeep;
mod verdicts;
pub mod workload;
