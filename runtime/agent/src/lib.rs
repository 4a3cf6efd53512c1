//! The part that reasons: transcript, prompt, turn loop with limits, tool router, our own tools. It knows models and MCP
//! by their neutral types and holds no socket, no store and no secret: a worker hands it everything.

mod internal;
mod kept;
pub mod offer;
mod prompt;
mod reading;
mod round;
pub mod router;
pub mod transcript;
pub mod turn;
mod view;

pub use internal::Holder;
pub use kept::Kept;
pub use offer::{Offer, ServerOffer};
pub use router::{Observation, Router, RunContext, Servers, ToolRunner};
pub use transcript::Transcript;
pub use turn::{Status, TurnInput, TurnLimits, TurnOutcome};
pub use view::View;
