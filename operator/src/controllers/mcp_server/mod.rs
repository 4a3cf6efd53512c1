//! The five steps.

pub mod apply;
pub mod build;
pub mod dereference;
pub mod inputs;
pub mod status;
pub mod validate;
