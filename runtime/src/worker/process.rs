//! The supervisor's end of a worker process: spawn, frames, signals, and one ordered stream of what it says and how it
//! ended. Guarantees: the exit comes after the last frame that was written, whoever else holds the other end of the
//! socket; the process and its group are gone when the handle has been dropped and the ladder has run; a signal never
//! goes to a process that was reaped already.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::frame::{FromWorker, ToWorker};
use super::framing::{FrameError, FrameReader, FrameWriter};
use crate::children::{Children, Known};

/// From closing the worker's input, or asking it to cancel, to SIGTERM: a model call in flight is dropped at once, an
/// MCP session is closed within a second.
pub const ASK: Duration = Duration::from_secs(5);
/// From SIGTERM to SIGKILL: the worker has no work to do on SIGTERM, so this is for a machine under load.
pub const TERM: Duration = Duration::from_secs(2);
/// A worker that does not read its input for so long is stuck.
const WRITE: Duration = Duration::from_secs(10);
/// For the next frame of a worker that has ended: what it wrote is there, and only a process that left its group, and
/// holds its end of the socket, keeps us waiting.
const LINGER: Duration = Duration::from_secs(1);
/// Read by the C library when a process starts.
const ALLOCATOR: &str = "GLIBC_TUNABLES";
/// Frames between the worker and whoever runs its turn: enough that the worker seldom waits, few enough to be small.
const FRAMES: usize = 16;

/// What a worker says, in order; after [`Incoming::Exited`] nothing follows.
#[derive(Debug)]
pub enum Incoming {
    /// A frame.
    Frame(FromWorker),
    /// The process has ended, and every frame it wrote has been delivered.
    Exited(Exit),
}

/// How a process ended, or why it is as good as ended.
#[derive(Debug)]
pub struct Exit {
    status: std::io::Result<ExitStatus>,
    garbled: Option<FrameError>,
}

impl Exit {
    /// Whether a signal ended it. Its side of the socket goes with it, and what it had not read with that.
    pub fn is_kill(&self) -> bool {
        let killed = self.status.as_ref().is_ok_and(|status| status.signal().is_some());
        killed && self.garbled.is_none()
    }

    /// For people: what happened to the process.
    pub fn describe(&self) -> String {
        if let Some(error) = &self.garbled {
            return error.to_string();
        }
        match &self.status {
            Ok(status) => describe_status(*status),
            Err(error) => format!("the worker process is lost: {error}"),
        }
    }
}

fn describe_status(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the worker process ended by itself with code {code}"),
        (None, Some(9)) => {
            "the worker process was killed by SIGKILL (the kernel does so when memory runs out)".to_owned()
        }
        (None, Some(number)) => {
            let signal = Signal::try_from(number);
            let name = signal.map_or_else(|_| number.to_string(), |signal| signal.to_string());
            let why = match signal {
                Ok(Signal::SIGABRT) => " (a program ends itself so when it is given no memory)",
                Ok(Signal::SIGXCPU) => " (its limit of processor time is used up)",
                _ => "",
            };
            format!("the worker process was killed by {name}{why}")
        }
        (None, None) => "the worker process ended".to_owned(),
    }
}

/// A running worker.
#[derive(Debug)]
pub struct Worker {
    pid: u32,
    outgoing: FrameWriter<OwnedWriteHalf>,
    incoming: mpsc::Receiver<Incoming>,
    signals: mpsc::Sender<Signal>,
}

impl Worker {
    /// Starts `<program> worker` in a process group of its own. Its standard input is our socket, its output is
    /// closed, its standard error is ours.
    ///
    /// # Errors
    /// When the system has no process, descriptor or memory left.
    pub fn spawn(program: &Path, children: &Arc<Children>) -> std::io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(program);
        command
            .arg("worker")
            .envs(allocator())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true);
        let (child, known) = children.spawn(&mut command)?;
        // Our copy of the worker's end would keep the socket open.
        drop(command);
        let pid = child.id().unwrap_or_default();
        let (read, write) = UnixStream::from_std(ours)?.into_split();
        let (frames, incoming) = mpsc::channel(FRAMES);
        let (signals, commands) = mpsc::channel(4);
        let process = Process { child, known };
        tokio::spawn(attend(process, FrameReader::new(read), frames, commands));
        Ok(Self {
            pid,
            outgoing: FrameWriter::new(write),
            incoming,
            signals,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it has not ended, as far as anybody knows.
    pub fn is_alive(&self) -> bool {
        !self.signals.is_closed()
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// When the worker is gone or does not read; [`Worker::next`] then says how it ended.
    pub async fn send(&mut self, frame: &ToWorker) -> Result<(), FrameError> {
        tokio::time::timeout(WRITE, self.outgoing.send(frame))
            .await
            .unwrap_or_else(|_| {
                Err(FrameError::Connection(std::io::Error::new(
                    std::io::ErrorKind::TimedOut,
                    "the worker does not read",
                )))
            })
    }

    /// What it says next; `None` once it has ended and that has been said. Cancel safe.
    pub async fn next(&mut self) -> Option<Incoming> {
        self.incoming.recv().await
    }

    /// SIGTERM to its group, then SIGKILL; returns when it is gone.
    pub async fn kill(mut self) {
        for (signal, patience) in [(Signal::SIGTERM, TERM), (Signal::SIGKILL, TERM)] {
            if self.signals.send(signal).await.is_err() {
                return;
            }
            let gone = async { while self.incoming.recv().await.is_some() {} };
            if tokio::time::timeout(patience, gone).await.is_ok() {
                return;
            }
        }
    }
}

/// A process that was not waited for. In this order: it ends first.
struct Process {
    child: Child,
    known: Known,
}

/// How the C library of a worker allocates, where nobody says it: the thread that works uses the memory that the first
/// one uses, and what it frees goes back.
fn allocator() -> Option<(&'static str, &'static str)> {
    let of_us = "glibc.malloc.arena_max=1:glibc.pthread.stack_cache_size=0";
    std::env::var_os(ALLOCATOR)
        .is_none()
        .then_some((ALLOCATOR, of_us))
}

/// Owns the process: reads its frames to their end, then waits for it, and is the only one to signal it. When the
/// handle is dropped, the worker's input is closed with it, and the ladder ends the worker that does not leave.
async fn attend(
    mut process: Process,
    mut reader: FrameReader<OwnedReadHalf>,
    frames: mpsc::Sender<Incoming>,
    mut commands: mpsc::Receiver<Signal>,
) {
    let group = Pid::from_raw(process.known.pid());
    let signal = |signal| {
        // Gone already is fine.
        let _ = killpg(group, signal);
    };

    let mut garbled = None;
    let mut ended = None;
    loop {
        tokio::select! {
            frame = reader.next::<FromWorker>() => match frame {
                Ok(Some(frame)) => {
                    // With nobody left to read, go on to the end of the process.
                    let _ = frames.send(Incoming::Frame(frame)).await;
                }
                // A process that ends with something unread resets its connection: how it ended says more.
                Ok(None) | Err(FrameError::Connection(_)) => break,
                Err(error) => {
                    garbled = Some(error);
                    signal(Signal::SIGKILL);
                    break;
                }
            },
            command = commands.recv() => match command {
                Some(command) => signal(command),
                None => break,
            },
            status = process.child.wait() => {
                ended = Some(status);
                break;
            }
        }
    }

    let status = match ended {
        Some(status) => {
            // What it started holds the socket too.
            drop(process);
            garbled = rest(&mut reader, &frames).await.err();
            status
        }
        None => {
            let status = end(&mut process.child, &mut commands, signal).await;
            drop(process);
            status
        }
    };
    // Whoever holds the handle learns from the closed channel that the worker is gone.
    drop(commands);
    let _ = frames.send(Incoming::Exited(Exit { status, garbled })).await;
}

/// Hands on what a process that has ended had written.
async fn rest(
    reader: &mut FrameReader<OwnedReadHalf>,
    frames: &mpsc::Sender<Incoming>,
) -> Result<(), FrameError> {
    while let Ok(read) = tokio::time::timeout(LINGER, reader.next::<FromWorker>()).await {
        match read {
            Ok(Some(frame)) => {
                if frames.send(Incoming::Frame(frame)).await.is_err() {
                    break;
                }
            }
            Ok(None) | Err(FrameError::Connection(_)) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits for the process, obeying signals, with the ladder behind it.
async fn end(
    child: &mut Child,
    commands: &mut mpsc::Receiver<Signal>,
    signal: impl Fn(Signal),
) -> std::io::Result<ExitStatus> {
    let mut ladder = [(ASK, Signal::SIGTERM), (TERM, Signal::SIGKILL)].into_iter();
    let mut step = ladder.next();
    let mut open = true;
    let mut waited = Box::pin(tokio::time::sleep(step.map_or(TERM, |(wait, _)| wait)));
    loop {
        tokio::select! {
            status = child.wait() => return status,
            command = commands.recv(), if open => match command {
                Some(command) => signal(command),
                None => open = false,
            },
            () = &mut waited, if step.is_some() => {
                if let Some((_, next)) = step {
                    signal(next);
                }
                step = ladder.next();
                waited = Box::pin(tokio::time::sleep(step.map_or(TERM, |(wait, _)| wait)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_in_words() {
        for (raw, text) in [
            (0, "the worker process ended by itself with code 0"),
            (101 << 8, "the worker process ended by itself with code 101"),
            (
                9,
                "the worker process was killed by SIGKILL (the kernel does so when memory runs out)",
            ),
            (
                6,
                "the worker process was killed by SIGABRT (a program ends itself so when it is given no memory)",
            ),
            (11, "the worker process was killed by SIGSEGV"),
            (
                24,
                "the worker process was killed by SIGXCPU (its limit of processor time is used up)",
            ),
            (34, "the worker process was killed by 34"),
        ] {
            assert_eq!(describe_status(ExitStatus::from_raw(raw)), text);
        }
    }
}
