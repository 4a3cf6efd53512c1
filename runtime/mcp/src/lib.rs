//! The MCP client: the official SDK over our own transport. Connections, the tool catalogue, and the supervision that
//! keeps every declared server connected. Text from servers is untrusted: bounded here, shown, never obeyed.

pub mod call;
pub mod catalogue;
pub mod connection;
mod fault;
mod handler;
mod health;
mod lifecycle;
pub mod outbound;
mod reading;
mod screen;
mod status;
pub mod supervised;
mod transport;

pub use call::{CallError, CallMeta, ToolOutcome};
pub use catalogue::{Catalogue, Entry, Tool};
pub use connection::{ConnectError, Connection, Era, Kind, Proof};
pub use outbound::Outbound;
pub use supervised::{ServerView, ServersView, Supervised};
