//! A2A 0.3 at the edge: its requests become requests of 1.0, and what 1.0 answers becomes what 0.3 says. Names and shapes
//! are those of the JSON schema that 0.3.0 publishes (`specification/json/a2a.json`). Everything behind this speaks 1.0
//! alone. Pure.

mod answer;
pub(crate) mod card;
#[cfg(test)]
mod fuzz;
mod request;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use answer::{end, event, task};
pub(crate) use request::{operation, params};
