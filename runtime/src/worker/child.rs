//! The worker's own process: frames from the supervisor in, frames to it out, one turn at a time. It ends when the
//! supervisor closes its input or is gone, and never outlives it.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use agentd_agent::Reply;
use agentd_base::class::exit;
use agentd_base::clock;
use agentd_config::document::LogLevel;
use agentd_identity::{Bundle, IdentitySource, Svid};
use agentd_mcp::{Answer, Outbound};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::asking::Asker;
use super::frame::{Configure, FromWorker, IdentityMaterial, ToWorker, Turn};
use super::framing::{FrameError, FrameReader, FrameWriter};
use super::turn::{Workshop, fault, without_transcript};
use crate::logging;

/// Frames that wait to be written; a turn that is faster than the supervisor waits.
const FRAMES: usize = 16;

/// So long a frame waits for another to go with, if the supervisor does nothing at once for it: to be woken twice a round
/// costs both processes more than what the frames say.
const SOON: Duration = Duration::from_millis(50);

/// Of the thread that works: as much as the first thread of a process usually has.
const STACK: usize = 8 * 1024 * 1024;
/// The system says at once of how many connections something came; a worker has a few.
const EVENTS: usize = 16;

/// What a worker runs on.
pub fn runtime() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.max_io_events_per_tick(EVENTS);
    builder
}

/// Runs the worker until its input ends; the exit code. Whatever there is to do is done on a thread that ends with it: a
/// turn touches half a megabyte of stack, which the first thread of a process never gives back to the system.
pub fn main(runtime: &Runtime) -> u8 {
    // It is lost with the thread that asks for it.
    let orphaned = prctl::set_pdeathsig(Signal::SIGKILL);
    let begun = at_work(|| runtime.block_on(async { begin(orphaned) }));
    let (mut child, mut reader, writing) = match begun {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    let ended = loop {
        match at_work(|| runtime.block_on(child.serve(&mut reader))) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
        if let Err(error) = runtime.block_on(reader.readable()) {
            break Err(error.into());
        }
    };
    let Child { frames, workshop, .. } = child;
    drop(frames);
    runtime.block_on(async {
        workshop.toolbox.close().await;
        let _ = writing.await;
    });
    match ended {
        Ok(()) => exit::DONE,
        Err(error) => {
            tracing::error!(event = "child.unhealthy", err = %error);
            exit::FAILURE
        }
    }
}

/// Does it on a thread of its own; on this one when the system has none left.
fn at_work<T: Send>(mut work: impl FnMut() -> T + Send) -> T {
    let worked = thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK);
        Ok::<_, std::io::Error>(thread.spawn_scoped(scope, &mut work)?.join())
    });
    match worked {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(_) => work(),
    }
}

/// What a worker begins with, or the code it ends with at once.
fn begin(orphaned: nix::Result<()>) -> Result<(Child, FrameReader<OwnedReadHalf>, JoinHandle<()>), u8> {
    let level = logging::install("agent", LogLevel::Info);
    if let Err(error) = orphaned {
        tracing::warn!(event = "proc.fail", err = %error, "an orphan ends only with its input");
    }
    let (read, write) = connect().map(UnixStream::into_split).map_err(|error| {
        tracing::error!(
            event = "config.invalid",
            key = "worker",
            "worker: {error}; it is started by agentd run"
        );
        exit::CONFIG
    })?;
    let (frames, queue) = mpsc::channel(FRAMES);
    let asker = Arc::new(Asker::new(&frames));
    let writing = tokio::spawn(write_frames(FrameWriter::new(write), queue, asker.clone()));
    let child = Child {
        frames,
        level,
        configure: None,
        outbound: Outbound::default(),
        workshop: Workshop::new(asker.clone()),
        asker,
    };
    Ok((child, FrameReader::new(read), writing))
}

/// The socket that is our standard input.
fn connect() -> std::io::Result<UnixStream> {
    let stream = StdUnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    // Only a socket has a peer.
    stream.peer_addr()?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

async fn write_frames<W: tokio::io::AsyncWrite + Unpin>(
    mut writer: FrameWriter<W>,
    mut queue: mpsc::Receiver<FromWorker>,
    asker: Arc<Asker>,
) {
    // When what waits is written.
    let mut due = None;
    loop {
        let next = match due {
            None => Ok(queue.recv().await),
            Some(due) => tokio::time::timeout_at(due, queue.recv()).await,
        };
        let is_over = matches!(next, Ok(None));
        let Ok(Some(frame)) = next else {
            if writer.flush().await.is_err() || is_over {
                return;
            }
            due = None;
            continue;
        };
        let may_wait = matches!(frame, FromWorker::ModelCalled(_));
        let sent = match may_wait {
            true => writer.put(&frame).await,
            false => writer.send(&frame).await,
        };
        let Err(error) = sent else {
            due = may_wait.then(|| due.unwrap_or_else(|| Instant::now() + SOON));
            continue;
        };
        if let FrameError::Connection(_) = error {
            return;
        }
        let why = error.to_string();
        let result = match frame {
            FromWorker::Done(result) => result,
            // Whoever waits would wait for the end of the turn.
            FromWorker::Request { id, .. } => {
                asker.reply(id, Reply::Refused(format!("it could not be asked for: {why}")));
                continue;
            }
            FromWorker::Ask { id, .. } => {
                asker.answer(id, Answer::Cancel);
                continue;
            }
            _ => {
                tracing::error!(event = "child.unhealthy", err = why);
                continue;
            }
        };
        // A result that is too much for a frame must still be an answer.
        for less in [
            without_transcript(&result, &why),
            fault(&result.run_id, format!("the result is lost: {why}")),
        ] {
            if writer.send(&FromWorker::Done(Box::new(less))).await.is_ok() {
                break;
            }
        }
    }
}

/// What a worker holds between turns.
struct Child {
    frames: mpsc::Sender<FromWorker>,
    level: logging::LevelHandle,
    configure: Option<Configure>,
    outbound: Outbound,
    workshop: Workshop,
    asker: Arc<Asker>,
}

impl Child {
    /// Does what there is to do; false when the input has ended, or is not that of our parent.
    async fn serve<R>(&mut self, reader: &mut FrameReader<R>) -> Result<bool, FrameError>
    where
        R: tokio::io::AsyncRead + Unpin,
    {
        while let Some(frame) = reader.ready::<ToWorker>().await {
            let Some(frame) = frame? else {
                return Ok(false);
            };
            match frame {
                ToWorker::Configure(configure) => {
                    if !self.configure(*configure) {
                        return Ok(false);
                    }
                }
                ToWorker::Identity(material) => self.identify(&material),
                ToWorker::Tools { server, tools } => self.workshop.toolbox.give(server, tools),
                ToWorker::Turn(turn) => {
                    if !self.turn(*turn, reader).await? {
                        return Ok(false);
                    }
                }
                // Of a turn that has ended.
                ToWorker::Cancel { .. } | ToWorker::Answer { .. } | ToWorker::Reply { .. } => {}
            }
        }
        // What it said is written as long as there is stack for it.
        let _ = self.frames.reserve_many(FRAMES).await;
        Ok(true)
    }

    /// False when whoever sent it is not our parent: we are an orphan.
    fn configure(&mut self, configure: Configure) -> bool {
        let parent = u32::try_from(nix::unistd::getppid().as_raw()).unwrap_or_default();
        if parent != configure.parent {
            return false;
        }
        self.level.set(&configure.document.observability);
        self.outbound.tls_ca = configure.document.security.tls_ca.clone();
        self.configure = Some(configure);
        self.workshop.reconfigure();
        true
    }

    fn identify(&mut self, material: &IdentityMaterial) {
        if let Err(problem) = take_identity(&mut self.outbound.identity, material) {
            tracing::error!(event = "identity.svid.fail", err = problem);
        }
    }

    /// Runs a turn and meanwhile obeys; false when the input has ended.
    async fn turn<R>(&mut self, turn: Turn, reader: &mut FrameReader<R>) -> Result<bool, FrameError>
    where
        R: tokio::io::AsyncRead + Unpin,
    {
        let Some(configure) = self.configure.clone() else {
            let result = fault(&turn.run_id, "the worker was not configured".to_owned());
            let _ = self.frames.send(FromWorker::Done(Box::new(result))).await;
            return Ok(true);
        };
        // A worker is of one conversation, or of one subagent.
        self.level.name(&turn.origin.agent_id, &turn.origin.agent_path);
        if let Err(error) = turn.confine.apply() {
            let reason = format!("the limits of its process could not be set: {error}");
            let result = fault(&turn.run_id, reason);
            let _ = self.frames.send(FromWorker::Done(Box::new(result))).await;
            return Ok(true);
        }
        let cancel = CancellationToken::new();
        let run_id = turn.run_id.clone();
        let began = FromWorker::Began {
            run_id: run_id.clone(),
        };
        let _ = self.frames.send(began).await;
        // It shares the identity source, so a rotation reaches the turn.
        let outbound = self.outbound.clone();
        let identity = &mut self.outbound.identity;
        let asker = self.asker.clone();
        let _asking = asker.turn(&run_id);
        let span = turn.origin.span(&run_id);
        let running = self
            .workshop
            .run(turn, &configure, &outbound, &self.frames, &cancel)
            .instrument(span);
        tokio::pin!(running);
        loop {
            tokio::select! {
                result = &mut running => {
                    let _ = self.frames.send(FromWorker::Done(Box::new(result))).await;
                    return Ok(true);
                }
                frame = reader.next::<ToWorker>() => match frame? {
                    Some(ToWorker::Cancel { run_id: asked }) if asked == run_id => cancel.cancel(),
                    Some(ToWorker::Identity(material)) => {
                        if let Err(problem) = take_identity(identity, &material) {
                            tracing::error!(event = "identity.svid.fail", err = problem);
                        }
                    }
                    Some(ToWorker::Answer { id, answer }) => asker.answer(id, answer),
                    Some(ToWorker::Reply { id, reply }) => asker.reply(id, reply),
                    // None of these comes while a turn runs.
                    Some(
                        ToWorker::Cancel { .. }
                        | ToWorker::Configure(_)
                        | ToWorker::Tools { .. }
                        | ToWorker::Turn(_),
                    ) => {}
                    // The supervisor is gone: nobody waits for this turn.
                    None => return Ok(false),
                },
            }
        }
    }
}

fn take_identity(source: &mut Option<IdentitySource>, material: &IdentityMaterial) -> Result<(), String> {
    let trust_domain: agentd_identity::TrustDomain = material
        .trust_domain
        .parse()
        .map_err(|error: agentd_identity::IdError| error.to_string())?;
    let source = source.get_or_insert_with(|| IdentitySource::new(trust_domain.clone()));
    let Some(pem) = &material.bundle else {
        return Ok(());
    };
    let bundle = Bundle::from_pem(trust_domain, pem.as_bytes()).map_err(|error| error.to_string())?;
    source
        .set_bundle(bundle.clone())
        .map_err(|error| error.to_string())?;
    if let (Some(chain), Some(key)) = (&material.certificates, &material.key) {
        let svid = Svid::from_pem(
            chain.as_bytes(),
            key.expose().as_bytes(),
            &bundle,
            clock::system().now(),
        )
        .map_err(|error| error.to_string())?;
        source.set_svid(svid).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use agentd_agent::{Request, Supervisor as _};
    use agentd_mcp::{Ask, Elicitor as _, Question};
    use serde_json::{Value, json};

    use super::*;
    use crate::worker::frame::ModelCalled;

    /// A worker that has an answer gives it, whatever its transcript is like.
    #[tokio::test]
    async fn a_conversation_that_goes_into_no_frame_costs_no_answer() {
        let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
        let long = json!("x".repeat(super::super::framing::FRAME_BYTES));
        for transcript in [deep, long] {
            let (here, there) = tokio::io::duplex(64 * 1024);
            let (frames, queue) = mpsc::channel(4);
            let asker = Arc::new(Asker::new(&frames));
            let writing = tokio::spawn(write_frames(FrameWriter::new(here), queue, asker));
            let done = crate::worker::frame::TurnResult {
                status: agentd_agent::Status::Completed,
                text: "the answer".into(),
                reason: None,
                transcript,
                steps: 3,
                tool_calls: 2,
                tokens: 7,
                ..fault("r", String::new())
            };
            frames.send(FromWorker::Done(Box::new(done))).await.unwrap();
            let Some(FromWorker::Done(read)) = FrameReader::new(there).next().await.unwrap() else {
                panic!("no answer")
            };
            assert_eq!(read.transcript, Value::Null);
            assert_eq!(
                (read.status, read.text.as_str()),
                (agentd_agent::Status::Completed, "the answer")
            );
            assert_eq!((read.steps, read.tool_calls, read.tokens), (3, 2, 7));
            assert!(
                read.reason
                    .unwrap()
                    .starts_with("what was said in this turn will not be remembered: ")
            );
            drop(frames);
            writing.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_model_call_took_is_told_with_what_comes_next_or_soon() {
        let called = || {
            FromWorker::ModelCalled(ModelCalled {
                run_id: "r".into(),
                input_tokens: 1,
                output_tokens: 2,
                error: None,
                millis: 3,
            })
        };
        let began = || FromWorker::Began { run_id: "r".into() };
        let (here, there) = tokio::io::duplex(64 * 1024);
        let (frames, queue) = mpsc::channel(4);
        let asker = Arc::new(Asker::new(&frames));
        let writing = tokio::spawn(write_frames(FrameWriter::new(here), queue, asker));
        let mut reader = FrameReader::new(there);
        let start = Instant::now();
        for (given, after) in [
            (vec![called(), called()], SOON),
            (vec![called(), began()], SOON),
            (vec![began()], SOON),
            (vec![called()], SOON * 2),
        ] {
            let count = given.len();
            for frame in given {
                frames.send(frame).await.unwrap();
            }
            for _ in 0..count {
                assert!(reader.next::<FromWorker>().await.unwrap().is_some());
            }
            assert_eq!(start.elapsed().as_millis(), after.as_millis());
        }
        frames.send(called()).await.unwrap();
        drop(frames);
        assert!(reader.next::<FromWorker>().await.unwrap().is_some());
        assert!(reader.next::<FromWorker>().await.unwrap().is_none());
        assert_eq!(start.elapsed().as_millis(), (SOON * 2).as_millis());
        writing.await.unwrap();
    }

    /// Nobody waits for a reply to what was never asked.
    #[tokio::test]
    async fn what_goes_into_no_frame_is_answered_at_once() {
        let (here, _there) = tokio::io::duplex(64 * 1024);
        let (frames, queue) = mpsc::channel(4);
        let asker = Arc::new(Asker::new(&frames));
        tokio::spawn(write_frames(FrameWriter::new(here), queue, asker.clone()));
        let _turn = asker.turn("r");
        let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
        for value in [deep, json!("x".repeat(super::super::framing::FRAME_BYTES))] {
            let arguments = json!({"key": "k", "value": value});
            let request = Request::of_tool("memory.set", arguments.as_object().unwrap().clone()).unwrap();
            match asker.request(request).await {
                Reply::Refused(why) => assert!(why.starts_with("it could not be asked for: "), "{why}"),
                other => panic!("{other:?}"),
            }
        }
        let question = Question {
            server: "fs".into(),
            message: "x".repeat(super::super::framing::FRAME_BYTES),
            ask: Ask::Form { schema: json!({}) },
        };
        assert_eq!(asker.ask(question).await, Answer::Cancel);
    }
}
