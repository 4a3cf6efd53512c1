//! `agentd bridge`: everything is checked before anything is touched.

use std::path::PathBuf;

use agentd_config::document::LogLevel;
use agentd_config::load::load_bridge;

use super::invalid;
use crate::bridge::Start;
use crate::logging;
use crate::pod::Pod;

/// Loads the configuration and hands it on; the exit code.
pub fn prepare(files: Vec<PathBuf>, go: impl FnOnce(Start) -> u8) -> u8 {
    let level = logging::install("bridge", LogLevel::Info);
    match load_bridge(&files) {
        Ok(loaded) => go(Start {
            loaded,
            files,
            level,
            pod: Pod::from_env(),
        }),
        Err(errors) => invalid(&errors),
    }
}
