//! The listener, over real connections.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods
)]

mod access;
mod bounds;
mod calls;
mod cards;
mod commands;
mod extensions;
mod life;
mod lists;
mod people;
mod push;
mod rest;
mod rules;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod tokens;
mod v03;
