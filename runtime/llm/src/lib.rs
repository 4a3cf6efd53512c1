//! Language models behind one neutral type set. What a model says is untrusted: it is parsed at this edge, bounded, and
//! never trusted further than its types.

mod anthropic;
mod bedrock;
mod blocks;
mod body;
mod breaker;
mod client;
mod codec;
mod conversation;
pub mod dialect;
pub mod error;
pub mod failover;
#[cfg(test)]
mod fuzz;
pub mod message;
pub mod model;
mod names;
mod openai;
mod responses;
mod schema;
mod sse;
mod tokens;
mod wire;

pub use client::{ModelClient, Setup};
pub use conversation::Conversation;
pub use dialect::{Dialect, StructuredOutput};
pub use error::ModelError;
pub use failover::Failover;
pub use message::{
    ARGUMENT_LEVELS, Arguments, Block, Message, ModelReply, ModelRequest, Opaque, OutputSchema, Stop,
    ToolCall, ToolResult, ToolSpec, Usage,
};
pub use model::{CallContext, Endpoint, Model, Mute, Sink};
