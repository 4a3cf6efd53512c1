//! `agentd`: runs one agent. A supervisor owns state, triggers and limits and never calls a model; workers, processes
//! of the same program, think and call tools. The same program is the bridge in front of an MCP server, and three small
//! clients. Nothing here is global but what a process has once: the TLS provider, the log.

pub mod admin;
pub mod audit;
pub mod bridge;
pub mod children;
pub mod cli;
pub mod commands;
pub mod files;
pub mod identity;
mod line;
pub mod logging;
pub mod metrics;
pub mod origin;
mod output;
pub mod pod;
pub mod reload;
pub mod report;
pub mod signals;
pub mod supervisor;
pub mod telemetry;
mod trifecta;
pub mod worker;

use std::future::Future;
use std::process::ExitCode;

use agentd_base::class::exit;
use tokio::runtime::{Builder, Runtime};

use crate::cli::Invocation;

/// Threads of a supervisor or a bridge: TLS handshakes of one peer do not keep another waiting, and an idle process
/// stays small.
const THREADS: usize = 2;

/// The program.
pub fn main() -> ExitCode {
    // Before anything that could build a TLS config. An error means that it was done already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let code = match cli::parse(std::env::args_os()) {
        Ok(Invocation::Worker) => within(worker::child::runtime(), worker::child::main),
        Ok(Invocation::Run {
            files,
            flags,
            servers,
        }) => {
            let layers = Invocation::layers(files, flags, servers, std::env::vars_os().filter_map(text));
            commands::run::prepare(layers, |start| block_on(threads(), supervisor::run(start)))
        }
        Ok(Invocation::Bridge { files }) => {
            commands::bridge::prepare(files, |start| block_on(threads(), bridge::run(start)))
        }
        Ok(Invocation::IdentityFetch(arguments)) => block_on(
            Builder::new_current_thread(),
            commands::identity_fetch::run(arguments),
        ),
        Ok(Invocation::A2a(arguments)) => {
            block_on(Builder::new_current_thread(), commands::a2a::run(arguments))
        }
        Ok(Invocation::Mcp(arguments)) => block_on(
            Builder::new_current_thread(),
            commands::mcp::run(arguments, std::env::vars_os().filter_map(text)),
        ),
        Ok(Invocation::Store {
            verb,
            files,
            flags,
            servers,
        }) => {
            let layers = Invocation::layers(files, flags, servers, std::env::vars_os().filter_map(text));
            block_on(Builder::new_current_thread(), commands::store::run(verb, layers))
        }
        Ok(Invocation::Ask {
            ask,
            files,
            flags,
            servers,
        }) => {
            let layers = Invocation::layers(files, flags, servers, std::env::vars_os().filter_map(text));
            commands::ask::run(ask, layers)
        }
        Ok(Invocation::Completions(shell)) => commands::ask::print(&cli::completions(shell)),
        Ok(Invocation::Reference) => commands::ask::print(&cli::reference()),
        Err(error) => commands::usage(&error),
    };
    ExitCode::from(code)
}

/// A variable that is text; none of ours is anything else.
fn text((name, value): (std::ffi::OsString, std::ffi::OsString)) -> Option<(String, String)> {
    Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
}

fn threads() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(THREADS);
    builder
}

fn block_on(builder: Builder, future: impl Future<Output = u8>) -> u8 {
    within(builder, |runtime| runtime.block_on(future))
}

fn within(mut builder: Builder, work: impl FnOnce(&Runtime) -> u8) -> u8 {
    match builder.enable_all().build() {
        Ok(runtime) => {
            let code = work(&runtime);
            // What still runs is a task that nobody waits for.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            tracing::error!(event = "proc.fail", err = %error);
            exit::FAILURE
        }
    }
}
