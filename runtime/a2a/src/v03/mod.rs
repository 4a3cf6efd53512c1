//! A2A 0.3 at the edge: its requests become requests of 1.0, and what 1.0 answers becomes what 0.3 says. Names and shapes
//! are those of the JSON schema that 0.3.0 publishes (`specification/json/a2a.json`). Everything behind this speaks 1.0
//! alone. Pure.

mod answer;
pub(crate) mod card;
#[cfg(test)]
mod fuzz;
mod push;
mod request;
#[cfg(test)]
mod tests;
mod types;

use http::header;
use http::request::Parts;

use crate::call::{EVENTS, version};
use crate::version::Version;

pub(crate) use answer::{end, event, task};
pub(crate) use push::shown as push_config;
pub(crate) use request::{operation, params};

/// Whether this is a request of 0.3 whose caller reads nothing but events: it is told of a fault by an event too, since
/// clients of 0.3 look into no other answer to a stream that they ask for.
pub(crate) fn reads_events_alone(head: &Parts) -> bool {
    let accepted = head.headers.get(header::ACCEPT).map(|value| value.as_bytes());
    accepted.is_some_and(|accepted| accepted.eq_ignore_ascii_case(EVENTS.as_bytes()))
        && Version::of(version(head).as_deref()) == Some(Version::ZeroThree)
}
