//! `agentd` as a process: started like a user or a pod starts it, judged by its output, its exit code and its ports.
//! Model and MCP servers are scripted here, on loopback.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice
)]
// The modules are one program.
#![allow(unreachable_pub)]

mod a2a;
mod a2a_cli;
mod a2a_rules;
mod a2a_tasks;
mod aimock;
mod asked;
mod attacked;
mod bounds;
mod bridge;
mod cards;
mod cli;
mod commands;
mod confined;
mod counted;
mod crash;
mod crowded;
mod dialects;
mod drained;
mod elicited;
mod events;
mod hops;
mod human;
mod install;
mod instruction;
mod kubectl;
mod last_run;
mod library;
mod loopback;
mod mcp_cli;
mod mcp_rich;
mod mcp_server;
mod mcp_terminal;
mod model;
mod notes;
mod observed;
mod office;
mod one_shot;
mod orphans;
#[cfg(feature = "otel")]
mod otel;
mod peers;
mod pod;
#[path = "../../../tests/src/probes.rs"]
mod probes;
mod process;
mod push;
mod rejected;
mod reload;
mod runner;
mod service;
mod skills;
mod stored;
mod streamed;
mod subagents;
mod through_bridge;
mod tokens;
mod tools;
mod traced;
mod tree;
mod world;
