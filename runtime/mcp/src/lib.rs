//! The MCP client: the official SDK over our own transport. Connections, the tool catalogue, and the supervision that
//! keeps every declared server connected. Text from servers is untrusted: bounded here, shown, never obeyed.

mod audit;
pub mod call;
pub mod catalogue;
pub mod connection;
pub mod elicit;
mod events;
mod fault;
mod flow;
mod form;
#[cfg(test)]
mod fuzz;
mod gate;
mod handler;
mod health;
mod lifecycle;
mod mend;
mod notices;
pub mod oauth;
pub mod outbound;
mod pages;
pub mod prompt;
mod reading;
pub mod resource;
pub mod schema;
mod screen;
mod status;
pub mod supervised;
mod transport;
mod view;
mod watching;

pub use call::{CallError, CallMeta, Policy, ToolOutcome, WholeOutcome};
pub use catalogue::{Catalogue, Entry, Tool};
pub use connection::{ConnectError, Connection, Era, Kind, Proof};
pub use elicit::{Answer, Ask, Elicitor, Hooks, Question};
pub use oauth::{Login, Opener, Registered};
pub use outbound::Outbound;
pub use prompt::Prompt;
pub use resource::{Content, Digest, ReadError, Resource, ResourceTemplate};
pub use supervised::{ServerView, ServersView, Supervised};
pub use watching::{Change, ResourceConsumer, Watch};
