//! The MCP client: the official SDK over our own transport. Connections, the tool catalogue, and the supervision that
//! keeps every declared server connected. Text from servers is untrusted: bounded here, shown, never obeyed.

pub mod catalogue;
pub mod connection;
mod fault;
mod handler;
mod health;
pub mod outbound;
pub mod pool;
mod reading;
pub mod supervised;
mod transport;

pub use catalogue::{Catalogue, Entry, Tool};
pub use connection::{CallError, CallMeta, ConnectError, Connection, Era, Kind, Proof, ToolOutcome, prove};
pub use outbound::Outbound;
pub use pool::{Member, Pool};
pub use supervised::{ServerView, ServersView, Supervised};
