//! A2A: the listener through which others reach the agent, and the client with which it is called.
//!
//! Guarantees: a request is served only after its caller was matched against the principals of this moment; every
//! size, count and wait that a peer can influence is bounded; nothing a peer sends panics. Wire types of A2A 1.0 come
//! from the official crate and are re-exported as [`wire`]; callers of 0.3 are served at the edge. What a message does is none of this crate's business: it
//! is behind [`Service`].

mod access;
mod audience;
mod bearer;
mod binding;
mod body;
mod budget;
mod call;
pub mod caller;
pub mod card;
pub mod client;
pub mod command;
mod connection;
mod extension;
mod fault;
#[cfg(test)]
mod fuzz;
mod http;
pub mod limit;
mod list;
pub mod listener;
mod message;
mod oidc;
pub mod operation;
mod proto;
pub mod push;
mod quota;
mod rest;
mod rpc;
pub mod server;
pub mod service;
mod signature;
mod stream;
mod throttle;
pub mod tls;
mod v03;
pub mod version;
pub mod wire;

pub use caller::{Caller, Principals, Role};
pub use card::{Card, CardConfig};
pub use command::Command;
pub use listener::{Authentication, ListenError, Listener, Transport};
pub use service::{Away, GetTask, ListTasks, Listed, SendMessage, Sent, Service, ServiceError, Subscription};
