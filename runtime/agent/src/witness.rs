//! Who is told of the calls that reach no server: those of our own tools and those that are refused. Of calls of servers'
//! tools hears whoever holds the connections.

use async_trait::async_trait;

/// Of a call of something that is not there, whose name a model made up.
pub const UNKNOWN: &str = "unknown";

/// How such a call came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was tried and failed.
    Failed,
    /// It was not tried: there is no such tool here, or the arguments are none.
    Refused,
}

/// Is told of each call as it begins.
pub trait Witness: Send + Sync {
    /// A call begins. `server` is that of a tool of a server, `tool` its name there; else it is a tool of ours or
    /// [`UNKNOWN`]. Whoever drops what is given back gave the call up.
    fn begin(&self, server: Option<&str>, tool: &str, ordinal: u32) -> Box<dyn Attending>;
}

/// A call under way.
#[async_trait]
pub trait Attending: Send {
    /// It has ended.
    async fn end(self: Box<Self>, outcome: Outcome);
}
