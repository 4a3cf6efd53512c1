//! One verb a file: from checked arguments to an exit code.

pub mod a2a;
pub mod ask;
pub mod bridge;
pub mod identity_fetch;
mod kubectl;
pub mod mcp;
pub mod run;
pub mod store;
mod table;

use agentd_base::class::{Class, exit};
use agentd_config::ConfigErrors;
use agentd_config::document::LogLevel;
use agentd_config::load::{Layers, Loaded, load};
use clap::error::{ContextKind, ContextValue};

use crate::{logging, output, telemetry};

/// Arguments that are none: help and version on stdout, a fault as one line on stderr.
pub fn usage(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        // Whoever closed our output does not want it.
        let _ = error.print();
        return exit::DONE;
    }
    logging::install("cli", LogLevel::Info);
    let key = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.clone(),
        Some(ContextValue::Strings(arguments)) => arguments.join(", "),
        _ => "arguments".to_owned(),
    };
    let text = error.to_string();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:"))
        .collect();
    let problem = lines.join(" ");
    let problem = problem.trim().trim_start_matches("error: ");
    tracing::error!(event = "config.invalid", key, "{problem}; see agentd --help");
    exit::CONFIG
}

/// The configuration, if this build can do what it asks for.
fn checked(layers: &Layers) -> Result<Loaded, ConfigErrors> {
    let loaded = load(layers)?;
    match telemetry::unsupported(&loaded.document) {
        Some(fault) => Err(ConfigErrors(vec![fault])),
        None => Ok(loaded),
    }
}

/// Every fault as one line; the exit code.
fn invalid(errors: &ConfigErrors) -> u8 {
    for fault in &errors.0 {
        tracing::error!(event = "config.invalid", key = fault.key, "{fault}");
    }
    exit::CONFIG
}

/// Prints a command's answer; `code`, or that of a failure when nobody has the answer.
fn answered(text: &str, code: u8) -> u8 {
    match output::print(text) {
        Ok(()) => code,
        Err(error) => {
            tracing::error!(event = "proc.fail", err = %error, "the answer could not be written to standard output");
            exit::FAILURE
        }
    }
}

/// The exit code of a command that failed.
const fn code_of(class: Class) -> u8 {
    match class {
        Class::Invalid => exit::CONFIG,
        Class::Unavailable | Class::Denied | Class::Conflict | Class::Internal => exit::FAILURE,
    }
}
