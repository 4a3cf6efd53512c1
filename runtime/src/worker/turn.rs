//! One turn in the worker: what the agent crate needs, put together from the frame, the configuration and what the
//! worker holds; and its outcome as a frame. The supervisor hears of every tool call as it ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use agentd_agent::turn::run as run_turn;
use agentd_agent::{
    Router, RunContext, ServerNote, Servers, Status, Transcript, TurnInput, TurnLimits, TurnOutcome,
};
use agentd_config::Document;
use agentd_llm::Failover;
use agentd_mcp::{CallError, CallMeta, Connection, Outbound};
use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::frame::{FromWorker, ToolCalled, ToolOutcome, Turn, TurnResult};
use super::models::{self, Counted};
use super::toolbox::Toolbox;

/// What a worker keeps warm from turn to turn.
#[derive(Default)]
pub struct Workshop {
    /// Connections and catalogue.
    pub toolbox: Toolbox,
    /// The model's clients, of the configuration they were made for.
    model: Option<Failover>,
}

impl Workshop {
    /// Another configuration: the model's clients are made anew; connections are looked through before the next turn.
    pub fn reconfigure(&mut self) {
        self.model = None;
    }

    /// Runs a turn to its end; when `cancel` fires, soon.
    pub async fn run(
        &mut self,
        turn: Turn,
        document: &Document,
        outbound: &Outbound,
        frames: &mpsc::Sender<FromWorker>,
        cancel: &CancellationToken,
    ) -> TurnResult {
        tokio::select! {
            failed = self.toolbox.prepare(document, &turn.servers, outbound) => {
                for server in failed {
                    let _ = frames.send(FromWorker::ServerFailed { server }).await;
                }
            }
            () = cancel.cancelled() => {
                return TurnResult {
                    status: Status::Cancelled,
                    ..fault(&turn.run_id, "cancelled before it began".to_owned())
                };
            }
        }
        let model = match self
            .model
            .take()
            .map_or_else(|| models::build(&document.intelligence, outbound), Ok)
        {
            Ok(model) => self.model.insert(model).clone(),
            Err(problem) => return fault(&turn.run_id, problem),
        };
        let instruction = match document.instruction(outbound.secrets.as_ref()) {
            Ok(instruction) => instruction.unwrap_or_default(),
            Err(error) => return fault(&turn.run_id, format!("the instruction cannot be read: {error}")),
        };
        let run_id = turn.run_id.clone();
        let router = self.router(&turn, frames);
        let model = Counted {
            model,
            frames: frames.clone(),
        };
        let input = input(turn, document, instruction, self.toolbox.notes(), &router);
        result(run_id, run_turn(input, &model, &router, cancel).await)
    }

    fn router(&self, turn: &Turn, frames: &mpsc::Sender<FromWorker>) -> Router {
        let servers = Audited {
            connections: self.toolbox.connections(),
            frames: frames.clone(),
        };
        let context = RunContext {
            run_id: turn.run_id.clone(),
            instance: turn.instance.clone(),
            traceparent: Some(traceparent(&turn.run_id)),
        };
        Router::new(self.toolbox.catalogue(), Arc::new(servers), context)
    }
}

fn input(
    turn: Turn,
    document: &Document,
    instruction: String,
    notes: Vec<ServerNote>,
    router: &Router,
) -> TurnInput {
    let loaded = Transcript::load(turn.transcript);
    for repair in loaded.repairs {
        tracing::warn!(event = "restore.context.mended", run.id = turn.run_id, "{repair}");
    }
    let limits = &document.limits.run;
    TurnInput {
        traceparent: Some(traceparent(&turn.run_id)),
        run_id: turn.run_id,
        instruction,
        notes,
        transcript: loaded.transcript,
        text: turn.text,
        tools: router.specs(),
        limits: TurnLimits {
            steps: limits.steps(),
            tokens: limits.tokens(),
            deadline: limits.deadline(),
        },
    }
}

fn result(run_id: String, outcome: TurnOutcome) -> TurnResult {
    match serde_json::to_value(&outcome.transcript) {
        Ok(transcript) => TurnResult {
            run_id,
            status: outcome.status,
            text: outcome.text,
            reason: outcome.reason,
            transcript,
            steps: outcome.steps.into(),
            tokens: outcome.usage.total(),
            tool_calls: outcome.tool_calls.into(),
        },
        Err(error) => fault(&run_id, format!("the transcript cannot be written: {error}")),
    }
}

/// A turn that did not begin.
pub fn fault(run_id: &str, reason: String) -> TurnResult {
    TurnResult {
        run_id: run_id.to_owned(),
        status: Status::Failed,
        text: String::new(),
        reason: Some(reason),
        transcript: Value::Null,
        steps: 0,
        tokens: 0,
        tool_calls: 0,
    }
}

/// The W3C trace context of a run: its trace is the run, whatever the attempt.
fn traceparent(run_id: &str) -> String {
    let digest = agentd_base::digest::hex(run_id.as_bytes());
    let hex: String = run_id
        .chars()
        .filter(char::is_ascii_hexdigit)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let trace = if hex.len() == 32 {
        hex
    } else {
        digest.chars().take(32).collect()
    };
    let span: String = digest.chars().skip(48).collect();
    format!("00-{trace}-{span}-01")
}

/// The connections, with every call told to the supervisor: never its arguments, never its result.
struct Audited {
    connections: BTreeMap<String, Connection>,
    frames: mpsc::Sender<FromWorker>,
}

#[async_trait]
impl Servers for Audited {
    async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Option<Result<agentd_mcp::ToolOutcome, CallError>> {
        let connection = self.connections.get(server)?;
        let called = |outcome, began: Instant| {
            FromWorker::ToolCalled(ToolCalled {
                run_id: meta.run_id.clone(),
                server: server.to_owned(),
                tool: tool.to_owned(),
                outcome,
                millis: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            })
        };
        let began = Instant::now();
        // A call that is given up was made all the same: it is told when this future is dropped.
        let mut given_up = OnDrop {
            frames: &self.frames,
            frame: Some(called(ToolOutcome::Failed, began)),
        };
        let answer = connection.call(tool, arguments, meta).await;
        given_up.frame = None;
        let outcome = match &answer {
            Ok(outcome) if outcome.is_error => ToolOutcome::ToolError,
            Ok(_) => ToolOutcome::Ok,
            Err(CallError::Unavailable(_) | CallError::Denied(_)) => ToolOutcome::Unavailable,
            Err(_) => ToolOutcome::Failed,
        };
        // A supervisor that is gone counts nothing.
        let _ = self.frames.send(called(outcome, began)).await;
        Some(answer)
    }
}

/// Sends its frame when it is dropped with one.
struct OnDrop<'a> {
    frames: &'a mpsc::Sender<FromWorker>,
    frame: Option<FromWorker>,
}

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take() {
            // A full queue loses one audit line of a cancelled call, which the result counts.
            let _ = self.frames.try_send(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_a_trace() {
        let parent = traceparent("01a2344a-11c7-7638-8534-036a30d188e8");
        let parts: Vec<&str> = parent.split('-').collect();
        assert_eq!(parts[1], "01a2344a11c776388534036a30d188e8");
        assert_eq!(
            parts.iter().map(|part| part.len()).collect::<Vec<_>>(),
            [2, 32, 16, 2]
        );
        assert_eq!(traceparent("x").len(), 55);
        assert!(
            traceparent("x")
                .bytes()
                .all(|b| b == b'-' || b.is_ascii_hexdigit())
        );
    }
}
