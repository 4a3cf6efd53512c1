//! The operator of agentd: reconciles `Agent` and `McpServer` into pods, configuration and identities, and issues
//! those identities. Two processes from one binary: `controllers` and `issuer`.

pub mod app;
pub mod authority_store;
pub mod bundle;
pub mod cli;
pub mod conditions;
pub mod context;
pub mod controllers;
pub mod events;
pub mod install;
pub mod issuer;
pub mod labels;
mod leader;
pub mod leadership;
pub mod live;
pub mod metrics;
pub mod names;
pub mod owned;
pub mod problem;
pub mod reports;
pub mod rollout;
#[cfg(test)]
mod scripted;
pub mod server;
mod tally;
pub mod tls_listener;
pub mod world;
