//! What the crate does on the wire, against scripted peers on loopback.

mod client;
mod issuer;
mod peer;
mod redirect;
mod refusal;
mod session;
mod trust;
