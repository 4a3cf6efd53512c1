//! The `agentd` program: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    agentd::main()
}
