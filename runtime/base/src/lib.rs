//! What every crate may use: ids, clock, error classes, size limits, secrets' redaction, durations, rates, times of day,
//! drain and readiness, trace contexts, places of a listener, the cost of a JSON text, and the wire types that operator and pods share. No I/O, no sockets.

pub mod class;
pub mod clock;
pub mod digest;
pub mod drain;
pub mod duration;
pub mod id;
pub mod issuance;
pub mod json;
pub mod limit;
pub mod places;
pub mod rate;
pub mod readiness;
pub mod report;
pub mod text;
pub mod time_of_day;
pub mod trace;
