//! The part that reasons: transcript, prompt, turn loop with limits, tool router, our own tools. It knows models and MCP
//! by their neutral types and holds no socket, no store and no secret: a worker hands it everything.

mod answer;
pub mod budget;
mod compaction;
mod condition;
mod desk;
mod end;
mod folding;
#[cfg(test)]
mod fuzz;
pub mod grants;
mod guard;
mod internal;
mod keeping;
mod kept;
mod metered;
mod minted;
mod observation;
pub mod offer;
mod prompt;
mod reading;
mod repeat;
pub mod request;
mod resumed;
mod round;
mod rounds;
pub mod router;
pub mod skills;
mod status;
mod tokens;
mod tools;
pub mod transcript;
pub mod turn;
mod view;
mod voice;
pub mod witness;

pub use compaction::ContextLimits;
pub use desk::{Choice, Instruction, RunContext, Shown};
pub use grants::Holder;
pub use kept::Kept;
pub use metered::Metered;
pub use minted::Held;
pub use observation::{Effect, Observation};
pub use offer::{Offer, ServerOffer};
pub use request::{Nobody, Reply, Request, Supervisor};
pub use resumed::{Resumed, SoFar};
pub use router::{Parts, Router, Servers, ToolRunner};
pub use skills::Skills;
pub use status::Status;
pub use transcript::Transcript;
pub use turn::{TurnInput, TurnLimits, TurnOutcome};
pub use view::View;
pub use witness::{Attending, Outcome, Witness};
