//! Running a program and reading what it said.

use std::ffi::OsStr;
use std::fmt;
use std::process::{Command, Stdio};

/// What a program left behind.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Exit code; -1 when a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    line: String,
}

impl Finished {
    /// The standard output of a program that succeeded.
    ///
    /// # Panics
    /// When it did not, with all that it said.
    pub fn ok(self) -> String {
        assert!(self.code == 0, "{self}");
        self.stdout
    }

    /// Both outputs of a program that failed.
    ///
    /// # Panics
    /// When it succeeded.
    #[must_use]
    pub fn failed(self) -> String {
        assert!(self.code != 0, "{self}");
        self.stderr + &self.stdout
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "`{}` ended with {}\n{}{}",
            self.line, self.code, self.stdout, self.stderr
        )
    }
}

/// Runs `command` with `input` on its standard input.
///
/// # Panics
/// When it can't be started.
pub fn run_with(command: &mut Command, input: &[u8]) -> Finished {
    use std::io::Write as _;
    let line = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("`{line}`: {error}"));
    // In a thread, so that a program that talks before it has read all does not wait for us while we wait for it. One
    // that ends without reading is no fault of the test's.
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child
        .wait_with_output()
        .unwrap_or_else(|error| panic!("`{line}`: {error}"));
    writer.join().expect("the writer does not panic");
    Finished {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        line,
    }
}

/// Runs `command` without input.
///
/// # Panics
/// When it can't be started.
pub fn run(command: &mut Command) -> Finished {
    run_with(command, &[])
}
