//! What the crate does on the wire, against scripted peers on loopback.

mod client;
mod compression;
mod guard;
mod issuer;
mod peer;
mod redirect;
mod refusal;
mod retry;
mod session;
mod trust;
