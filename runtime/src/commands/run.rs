//! `agentd [run]`: everything is checked before anything is touched.

use std::path::PathBuf;

use agentd_config::document::LogLevel;
use agentd_config::load::Layers;

use super::{checked, invalid};
use crate::logging;
use crate::pod::Pod;
use crate::supervisor::Start;

/// Loads the configuration and hands it on; the exit code.
pub fn prepare(layers: Layers, go: impl FnOnce(Start) -> u8) -> u8 {
    let level = logging::install("supervisor", LogLevel::Info);
    let layers = layers.hold();
    match checked(&layers) {
        Ok(loaded) => go(Start {
            loaded,
            layers,
            program: program(),
            level,
            pod: Pod::from_env(),
        }),
        Err(errors) => invalid(&errors),
    }
}

/// This very program, even after its file was replaced.
fn program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}
