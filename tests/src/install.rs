//! The release that the one-node suite runs against, and our own program outside of it: all said by `test.sh`.

use std::path::PathBuf;
use std::process::Command;

use crate::cluster::cluster;
use crate::command::Finished;

/// A setting that `tests/scripts/test.sh` makes.
fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run the suite by `make test-e2e`"))
}

/// Name of the Helm release.
#[must_use]
pub fn release() -> String {
    setting("TEST_RELEASE")
}

/// Namespace of the Helm release.
#[must_use]
pub fn namespace() -> String {
    setting("TEST_NAMESPACE")
}

/// The audience of the tokens that the issuer takes.
#[must_use]
pub fn audience() -> String {
    format!("agentd:{}/{}", namespace(), release())
}

/// Runs kubectl in the namespace of the release.
pub fn kubectl(arguments: &[&str]) -> Finished {
    let namespace = namespace();
    cluster().kubectl(["--namespace", &namespace].iter().chain(arguments))
}

/// The static binary that the agents' image holds.
#[must_use]
pub fn agentd() -> PathBuf {
    setting("TEST_AGENTD").into()
}

/// A Python with the pinned third-party packages of `tests/peers/python`.
#[must_use]
pub fn python() -> PathBuf {
    setting("TEST_PYTHON").into()
}

/// `agentd` as a process on this machine.
#[must_use]
pub fn agentd_command() -> Command {
    Command::new(agentd())
}
