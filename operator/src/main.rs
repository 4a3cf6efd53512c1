//! `agentd-operator controllers|issuer`.

use std::process::ExitCode;

fn main() -> ExitCode {
    agentd_operator::cli::main()
}
