//! The servers of a turn, with every call told to the supervisor as it ends, never its arguments, never its result; and
//! with what only this worker was told.

use std::sync::Arc;
use std::time::Instant;

use agentd_agent::{Attending, Offer, Outcome, Servers, Witness};
use agentd_mcp::{CallError, CallMeta, Content, Entry, ReadError};
use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::frame::{Action, FromWorker, ToolCalled, ToolOutcome};
use super::listing::Listing;

/// See the module.
pub struct Audited {
    /// The servers.
    pub listing: Listing,
    /// To the supervisor.
    pub frames: mpsc::Sender<FromWorker>,
}

#[async_trait]
impl Servers for Audited {
    async fn offer(&self) -> Arc<Offer> {
        let (offer, changed) = self.listing.offer().await;
        for server in changed {
            let _ = self.frames.send(FromWorker::ServerChanged { server }).await;
        }
        offer
    }

    async fn call(
        &self,
        entry: &Entry,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Option<Result<agentd_mcp::ToolOutcome, CallError>> {
        // A call that is given up was made all the same: it is told when this future is dropped.
        let told = Told::of(&self.frames, Action::Tool, &entry.server, &entry.tool.name, meta);
        let Some(connection) = self.listing.connection(&entry.server) else {
            told.end(ToolOutcome::Unavailable).await;
            return None;
        };
        let answer = connection.call(&entry.tool.name, arguments, meta).await;
        told.end(match &answer {
            Ok(outcome) if outcome.is_error => ToolOutcome::ToolError,
            Ok(_) => ToolOutcome::Ok,
            Err(error) => outcome_of(error),
        })
        .await;
        Some(answer)
    }

    async fn prompt(
        &self,
        server: &str,
        name: &str,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Option<Result<String, CallError>> {
        let connection = self.listing.connection(server)?;
        let told = Told::of(&self.frames, Action::Prompt, server, name, meta);
        let answer = connection.prompt(name, arguments, meta).await;
        told.end(match &answer {
            Ok(_) => ToolOutcome::Ok,
            Err(error) => outcome_of(error),
        })
        .await;
        Some(answer)
    }

    async fn read(
        &self,
        server: &str,
        uri: &str,
        meta: &CallMeta,
    ) -> Option<Result<Vec<Content>, ReadError>> {
        let connection = self.listing.connection(server)?;
        let told = Told::of(&self.frames, Action::Read, server, "", meta);
        let answer = connection.read(uri, meta).await;
        told.end(match &answer {
            Ok(_) => ToolOutcome::Ok,
            Err(ReadError::NotFound { .. }) => ToolOutcome::ToolError,
            Err(ReadError::Call(error)) => outcome_of(error),
        })
        .await;
        Some(answer)
    }
}

fn outcome_of(error: &CallError) -> ToolOutcome {
    match error {
        CallError::Unavailable(_) | CallError::Denied(_) => ToolOutcome::Unavailable,
        _ => ToolOutcome::Failed,
    }
}

/// A call under way. Dropped before its end it is told as one that failed.
struct Told {
    frames: mpsc::Sender<FromWorker>,
    /// With the outcome of a call that is given up; none once it was told.
    call: Option<ToolCalled>,
    began: Instant,
}

impl Told {
    fn begin(frames: &mpsc::Sender<FromWorker>, call: ToolCalled) -> Self {
        Self {
            frames: frames.clone(),
            call: Some(call),
            began: Instant::now(),
        }
    }

    /// Of a request to a server.
    fn of(
        frames: &mpsc::Sender<FromWorker>,
        action: Action,
        server: &str,
        what: &str,
        meta: &CallMeta,
    ) -> Self {
        let call = ToolCalled {
            server: Some(server.to_owned()),
            tool: what.to_owned(),
            trace: meta.traceparent.clone().unwrap_or_default(),
            ..ToolCalled::begin(action, &meta.run_id, meta.ordinal)
        };
        Self::begin(frames, call)
    }

    /// The frame, once.
    fn frame(&mut self) -> Option<FromWorker> {
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let call = self.call.take()?;
        Some(FromWorker::ToolCalled(ToolCalled { millis, ..call }))
    }

    async fn end(mut self, outcome: ToolOutcome) {
        if let Some(call) = &mut self.call {
            call.outcome = outcome;
        }
        if let Some(frame) = self.frame() {
            // A supervisor that is gone counts nothing.
            let _ = self.frames.send(frame).await;
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(frame) = self.frame() {
            // A full queue loses one audit line of a cancelled call, which the result counts.
            let _ = self.frames.try_send(frame);
        }
    }
}

#[async_trait]
impl Attending for Told {
    async fn end(self: Box<Self>, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Done => ToolOutcome::Ok,
            Outcome::Failed => ToolOutcome::ToolError,
            Outcome::Refused => ToolOutcome::Refused,
        };
        Told::end(*self, outcome).await;
    }
}

/// Tells the supervisor of the calls of a run that reach no server.
pub struct Clerk {
    /// To the supervisor.
    pub frames: mpsc::Sender<FromWorker>,
    /// The run.
    pub run_id: String,
    /// W3C trace context of the turn.
    pub trace: String,
}

impl Witness for Clerk {
    fn begin(&self, server: Option<&str>, tool: &str, ordinal: u32) -> Box<dyn Attending> {
        let call = ToolCalled {
            server: server.map(str::to_owned),
            tool: tool.to_owned(),
            trace: self.trace.clone(),
            ..ToolCalled::begin(Action::Tool, &self.run_id, ordinal)
        };
        Box::new(Told::begin(&self.frames, call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_is_given_up_is_told_with_the_time_it_took() {
        let (frames, mut queue) = mpsc::channel(4);
        let clerk = Clerk {
            frames: frames.clone(),
            run_id: "r".into(),
            trace: "00-t".into(),
        };
        let meta = CallMeta {
            run_id: "r".into(),
            traceparent: Some("00-s".into()),
            ordinal: 1,
            ..CallMeta::default()
        };
        let mut told = Told::of(&frames, Action::Tool, "fs", "slow", &meta);
        told.began -= std::time::Duration::from_secs(15);
        drop(told);
        clerk.begin(None, "memory.set", 2).end(Outcome::Failed).await;
        let mut seen = Vec::new();
        for _ in 0..2 {
            let Some(FromWorker::ToolCalled(call)) = queue.recv().await else {
                panic!("no frame")
            };
            seen.push(ToolCalled {
                millis: call.millis / 1000,
                ..call
            });
        }
        let slow = ToolCalled {
            action: Action::Tool,
            request_id: "r/1".into(),
            server: Some("fs".into()),
            tool: "slow".into(),
            outcome: ToolOutcome::Failed,
            millis: 15,
            trace: "00-s".into(),
        };
        let ours = ToolCalled {
            request_id: "r/2".into(),
            server: None,
            tool: "memory.set".into(),
            outcome: ToolOutcome::ToolError,
            millis: 0,
            trace: "00-t".into(),
            ..slow.clone()
        };
        assert_eq!(seen, [slow, ours]);
        assert!(queue.try_recv().is_err(), "each is told once");
    }
}
