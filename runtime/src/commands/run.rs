//! `agentd [run]`: everything is checked before anything is touched.

use std::path::PathBuf;

use agentd_config::ConfigErrors;
use agentd_config::document::LogLevel;
use agentd_config::load::{Layers, load};

use super::invalid;
use crate::logging;
use crate::pod::Pod;
use crate::supervisor::Start;
use crate::telemetry;

/// Loads the configuration and hands it on; the exit code.
pub fn prepare(layers: Layers, go: impl FnOnce(Start) -> u8) -> u8 {
    let level = logging::install("supervisor", LogLevel::Info);
    let layers = layers.hold();
    match load(&layers) {
        Ok(loaded) => match telemetry::unsupported(&loaded.document) {
            Some(fault) => invalid(&ConfigErrors(vec![fault])),
            None => go(Start {
                loaded,
                layers,
                program: program(),
                level,
                pod: Pod::from_env(),
            }),
        },
        Err(errors) => invalid(&errors),
    }
}

/// This very program, even after its file was replaced.
fn program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}
