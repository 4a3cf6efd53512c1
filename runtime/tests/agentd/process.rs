//! Starts the program and reads its standard error, every line of which must be JSON.

use std::collections::HashMap;
use std::path::Path;
use std::process::{ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_agentd");

/// A running `agentd`.
pub struct Agentd {
    child: Child,
    pub lines: Arc<Mutex<Vec<Value>>>,
    count: watch::Receiver<usize>,
    seen: HashMap<String, usize>,
}

impl Agentd {
    /// Starts it with these arguments and variables and no others.
    pub fn start<A: AsRef<std::ffi::OsStr>>(
        arguments: &[A],
        variables: &[(&str, &str)],
        folder: &Path,
    ) -> Self {
        Self::start_program(Path::new(PROGRAM), arguments, variables, folder)
    }

    /// As [`Self::start`], another build of it.
    pub fn start_program<A: AsRef<std::ffi::OsStr>>(
        program: &Path,
        arguments: &[A],
        variables: &[(&str, &str)],
        folder: &Path,
    ) -> Self {
        let mut command = Command::new(program);
        command.args(arguments);
        Self::spawn(command, variables, folder)
    }

    /// As [`Self::start`], on a node that has no inotify instance left for it.
    pub fn start_without_inotify(arguments: &[&str], variables: &[(&str, &str)], folder: &Path) -> Self {
        let line = r#"exec /usr/bin/unshare --user --map-root-user /bin/sh -c \
            'echo 0 > /proc/sys/user/max_inotify_instances && exec "$0" "$@"' "$0" "$@""#;
        Self::start_by_shell(line, arguments, variables, folder)
    }

    /// As [`Self::start`], by this line of a shell: `"$0" "$@"` stands for the program.
    pub fn start_by_shell<A: AsRef<std::ffi::OsStr>>(
        line: &str,
        arguments: &[A],
        variables: &[(&str, &str)],
        folder: &Path,
    ) -> Self {
        let mut command = Command::new("/bin/bash");
        command.args(["-c", line, PROGRAM]).args(arguments);
        Self::spawn(command, variables, folder)
    }

    fn spawn(mut command: Command, variables: &[(&str, &str)], folder: &Path) -> Self {
        let mut child = command
            .env_clear()
            .envs(variables.iter().copied())
            .env("HOME", folder)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (sender, count) = watch::channel(0);
        let written = lines.clone();
        tokio::spawn(async move {
            let mut reader = BufReader::new(stderr).lines();
            while let Some(line) = reader.next_line().await.unwrap() {
                let value = serde_json::from_str(&line).unwrap_or_else(|_| Value::String(line));
                written.lock().unwrap().push(value);
                sender.send_modify(|count| *count += 1);
            }
        });
        Self {
            child,
            lines,
            count,
            seen: HashMap::new(),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// The address that the next line with this event names.
    pub async fn address(&mut self, event: &str) -> String {
        self.event(event).await["address"].as_str().unwrap().to_owned()
    }

    /// The next line with this event after the one that was waited for before.
    pub async fn event(&mut self, event: &str) -> Value {
        let line = self.next(event).await;
        line.unwrap_or_else(|| panic!("the program has ended: {:#?}", self.lines.lock().unwrap()))
    }

    /// As [`Self::event`]; none when the program has ended before.
    pub async fn next(&mut self, event: &str) -> Option<Value> {
        let wait = async {
            loop {
                let seen = self.seen.entry(event.to_owned()).or_default();
                let found = {
                    let lines = self.lines.lock().unwrap();
                    let position = lines.iter().skip(*seen).position(|line| line["event"] == event);
                    position.map(|at| {
                        *seen += at + 1;
                        lines[*seen - 1].clone()
                    })
                };
                if found.is_some() {
                    return found;
                }
                self.count.changed().await.ok()?;
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(line) => line,
            Err(_) => panic!("no {event} in {:#?}", self.lines.lock().unwrap()),
        }
    }

    /// The lines so far with this event.
    pub fn lines(&self, event: &str) -> Vec<Value> {
        let lines = self.lines.lock().unwrap();
        lines
            .iter()
            .filter(|line| line["event"] == event)
            .cloned()
            .collect()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.pid()).unwrap()), signal).unwrap();
    }

    /// Its end: status, standard output, and every line of standard error.
    pub async fn end(mut self) -> (ExitStatus, String, Vec<Value>) {
        let mut output = String::new();
        let read = async {
            self.child
                .stdout
                .take()
                .unwrap()
                .read_to_string(&mut output)
                .await
                .unwrap();
            self.child.wait().await.unwrap()
        };
        let status = tokio::time::timeout(PATIENCE, read)
            .await
            .expect("it does not end");
        // The sender is dropped when the last line was read.
        while self.count.changed().await.is_ok() {}
        (status, output, self.lines.lock().unwrap().clone())
    }

    /// How many inotify instances it holds; a node has few.
    pub fn inotify_instances(&self) -> usize {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        let targets = descriptors.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
        targets
            .filter(|target| target.to_string_lossy().contains("inotify"))
            .count()
    }

    /// The processes that it started.
    pub fn workers(&self) -> Vec<u32> {
        children_of(self.pid())
    }
}

/// The children of a process that lives, the oldest first.
pub fn children_of(pid: u32) -> Vec<u32> {
    // A child belongs to the thread that made it: look at all of them.
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut children: Vec<u32> = tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok())
        .flat_map(|text| {
            text.split_whitespace()
                .map(|pid| pid.parse().unwrap())
                .collect::<Vec<u32>>()
        })
        .collect();
    children.sort_unstable();
    children
}

/// What the system says of a process or a thread, by its folder in `/proc`: what stands in `stat` after the name, of which
/// the state is the first; none when it is gone.
pub fn stat(folder: &Path) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(folder.join("stat")).ok()?;
    // The name may hold spaces.
    let (_, rest) = text.rsplit_once(") ")?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Kills a process that the program started.
pub fn kill_worker(pid: u32) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
}

/// Stops a process that the program started, so that it hangs.
pub fn stop(pid: u32) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGSTOP).unwrap();
}

/// Runs a command to its end: exit code, standard output, standard error.
pub async fn outcome(mut command: Command) -> (i32, String, String) {
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let Output {
        status,
        stdout,
        stderr,
    } = output
        .unwrap_or_else(|_| panic!("{command:?} does not end"))
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}
