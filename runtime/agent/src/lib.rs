//! The part that reasons: transcript, prompt, turn loop with limits, tool router. It knows models and MCP by their
//! neutral types and holds no socket, no store and no secret: a worker hands it everything.

pub mod prompt;
mod round;
pub mod router;
pub mod transcript;
pub mod turn;

pub use prompt::ServerNote;
pub use router::{Observation, Router, RunContext, Servers, ToolRunner};
pub use transcript::Transcript;
pub use turn::{Status, TurnInput, TurnLimits, TurnOutcome};
