//! The part that reasons: transcript, prompt, turn loop with limits, tool router, our own tools. It knows models and MCP
//! by their neutral types and holds no socket, no store and no secret: a worker hands it everything.

mod internal;
mod kept;
mod observation;
pub mod offer;
mod prompt;
mod reading;
mod round;
pub mod router;
mod status;
pub mod transcript;
pub mod turn;
mod view;

pub use internal::Holder;
pub use kept::Kept;
pub use observation::{Effect, Observation};
pub use offer::{Offer, ServerOffer};
pub use router::{Router, RunContext, Servers, ToolRunner};
pub use status::Status;
pub use transcript::Transcript;
pub use turn::{TurnInput, TurnLimits, TurnOutcome};
pub use view::View;
