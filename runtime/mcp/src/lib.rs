//! The MCP client: the official SDK over our own transport. Connections, the tool catalogue, and the supervision that
//! keeps every declared server connected. Text from servers is untrusted: bounded here, shown, never obeyed.

pub mod catalogue;
pub mod connection;
pub mod outbound;
pub mod supervised;

pub use catalogue::{Catalogue, Entry, Tool};
pub use connection::{CallError, CallMeta, ConnectError, Connection, Era, Kind, ToolOutcome};
pub use outbound::Outbound;
pub use supervised::{ServerView, ServersView, Supervised};
