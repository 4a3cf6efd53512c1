//! The servers of a turn, with every call told to the supervisor as it ends, never its arguments, never its result; and
//! with what only this worker was told.

use std::sync::Arc;
use std::time::Instant;

use agentd_agent::grants::READ;
use agentd_agent::skills::LOAD;
use agentd_agent::{Offer, Servers};
use agentd_mcp::{CallError, CallMeta, Content, Entry, ReadError};
use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::frame::{FromWorker, ToolCalled, ToolOutcome};
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
        let connection = self.listing.connection(&entry.server)?;
        // A call that is given up was made all the same: it is told when this future is dropped.
        let told = Told::begin(&self.frames, &meta.run_id, &entry.server, &entry.tool.name);
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
        let told = Told::begin(&self.frames, &meta.run_id, server, LOAD);
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
        let told = Told::begin(&self.frames, &meta.run_id, server, READ);
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
struct Told<'a> {
    frames: &'a mpsc::Sender<FromWorker>,
    /// With the outcome of a call that is given up; none once it was told.
    call: Option<ToolCalled>,
    began: Instant,
}

impl<'a> Told<'a> {
    fn begin(frames: &'a mpsc::Sender<FromWorker>, run_id: &str, server: &str, tool: &str) -> Self {
        let call = ToolCalled {
            run_id: run_id.to_owned(),
            server: server.to_owned(),
            tool: tool.to_owned(),
            outcome: ToolOutcome::Failed,
            millis: 0,
        };
        Self {
            frames,
            call: Some(call),
            began: Instant::now(),
        }
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

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if let Some(frame) = self.frame() {
            // A full queue loses one audit line of a cancelled call, which the result counts.
            let _ = self.frames.try_send(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_is_given_up_is_told_with_the_time_it_took() {
        let (frames, mut queue) = mpsc::channel(4);
        let mut told = Told::begin(&frames, "r", "fs", "slow");
        told.began -= std::time::Duration::from_secs(15);
        drop(told);
        Told::begin(&frames, "r", "fs", "quick")
            .end(ToolOutcome::Ok)
            .await;
        let mut seen = Vec::new();
        for _ in 0..2 {
            let Some(FromWorker::ToolCalled(call)) = queue.recv().await else {
                panic!("no frame")
            };
            seen.push((call.tool, call.outcome, call.millis / 1000));
        }
        assert_eq!(
            seen,
            [
                ("slow".to_owned(), ToolOutcome::Failed, 15),
                ("quick".to_owned(), ToolOutcome::Ok, 0)
            ]
        );
        assert!(queue.try_recv().is_err(), "each is told once");
    }
}
