//! One turn in the worker: what the agent crate needs, put together from the frame, the configuration and what the
//! worker holds; and its outcome as a frame.

use std::sync::Arc;

use agentd_agent::turn::run as run_turn;
use agentd_agent::{
    Choice, ContextLimits, Holder, Instruction, Kept, Metered, Parts, Router, RunContext, Shown, Skills,
    Status, Transcript, TurnInput, TurnOutcome,
};
use agentd_config::Document;
use agentd_config::document::{Dialect, StoreKind};
use agentd_config::secret::SecretError;
use agentd_llm::{Failover, Model, Mute, Sink};
use agentd_mcp::Outbound;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::asking::Asker;
use super::audited::{Audited, Clerk};
use super::frame::{Configure, FromWorker, Turn, TurnResult};
use super::models::{self, Counted};
use super::shown::shown;
use super::skills;
use super::telling::Speaker;
use super::toolbox::Toolbox;
use crate::telemetry::{About, Traces, TurnSpan};

/// What a worker keeps warm from turn to turn.
pub struct Workshop {
    /// Connections.
    pub toolbox: Toolbox,
    /// For what only the supervisor can do.
    asker: Arc<Asker>,
    /// Results that were too long for the model.
    kept: Arc<Kept>,
    /// The model's clients, of the configuration they were made for.
    model: Option<Failover>,
    /// Where spans go, by the same configuration.
    traces: Option<Traces>,
}

impl Workshop {
    /// An empty one. Questions of servers go to `asker`.
    pub fn new(asker: Arc<Asker>) -> Self {
        Self {
            toolbox: Toolbox::new(asker.clone()),
            asker,
            kept: Arc::default(),
            model: None,
            traces: None,
        }
    }

    /// Another configuration: the model's clients are made anew; connections are looked through before the next turn.
    pub fn reconfigure(&mut self) {
        self.model = None;
        self.traces = None;
        self.toolbox.forget();
    }

    /// Runs a turn to its end; when `cancel` fires, soon.
    pub async fn run(
        &mut self,
        turn: Turn,
        configure: &Configure,
        outbound: &Outbound,
        frames: &mpsc::Sender<FromWorker>,
        cancel: &CancellationToken,
    ) -> TurnResult {
        let Configure {
            document, generation, ..
        } = configure;
        tokio::select! {
            failed = self.toolbox.prepare(document, *generation, &turn.servers, outbound) => {
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
        let configured = || {
            let text = document.instruction(outbound.secrets.as_ref())?;
            Ok::<_, SecretError>(Instruction {
                text: text.unwrap_or_default(),
                uri: None,
            })
        };
        let instruction = match turn.instruction.clone().map_or_else(configured, Ok) {
            Ok(instruction) => instruction,
            Err(error) => return fault(&turn.run_id, format!("the instruction cannot be read: {error}")),
        };
        let traces = match self
            .traces
            .take()
            .map_or_else(|| Traces::open(document, outbound), Ok)
        {
            Ok(traces) => self.traces.insert(traces),
            Err(problem) => return fault(&turn.run_id, format!("observability.otel.endpoint: {problem}")),
        };
        let run_id = turn.run_id.clone();
        let span = traces.turn(About {
            run_id: &run_id,
            parent: turn.origin.parent,
            agent: &turn.instance,
            provider: provider(document.intelligence.dialect),
            model: document.intelligence.model.as_deref().unwrap_or_default(),
        });
        let counted = span.model(Counted {
            model,
            frames: frames.clone(),
        });
        let model: Arc<dyn Model> = match &document.intelligence.budget {
            None => Arc::new(counted),
            Some(budget) => Arc::new(Metered {
                model: counted,
                supervisor: self.asker.clone(),
                fixed: budget.reserve.fixed,
            }),
        };
        let router = self.router(&turn, document, frames, model.clone(), &instruction, &span);
        let skills = router.skills();
        // Each read has its own clock; together they have that of the turn.
        let texts = [instruction.text.as_str(), turn.role.as_str(), turn.text.as_str()];
        let follow = router.follow(&texts);
        tokio::select! {
            _ = tokio::time::timeout(turn.limits.deadline, follow) => {}
            () = cancel.cancelled() => {}
        }
        let router = span.tools(router);
        let speaker = turn.is_heard.then(Arc::<Speaker>::default);
        let listener: Arc<dyn Sink> = match &speaker {
            Some(speaker) => speaker.clone(),
            None => Arc::new(Mute),
        };
        let limits = (window(document), kept_bytes(document));
        let input = input(turn, instruction.text, limits, span.traceparent(), listener);
        let telling = async {
            if let Some(speaker) = &speaker {
                speaker.tell(&run_id, frames).await;
            }
            std::future::pending().await
        };
        let outcome = tokio::select! {
            outcome = run_turn(input, model.as_ref(), &router, cancel) => outcome,
            outcome = telling => outcome,
        };
        if let Some(speaker) = &speaker {
            speaker.rest(&run_id, frames).await;
        }
        span.end(&outcome).await;
        let mut result = result(run_id, outcome);
        skills.keep(&mut result.transcript);
        result
    }

    fn router(
        &self,
        turn: &Turn,
        document: &Document,
        frames: &mpsc::Sender<FromWorker>,
        model: Arc<dyn Model>,
        instruction: &Instruction,
        span: &TurnSpan,
    ) -> Router {
        let servers = span.servers(Audited {
            listing: self.toolbox.listing(document),
            frames: frames.clone(),
        });
        let context = RunContext {
            run_id: turn.run_id.clone(),
            instance: turn.instance.clone(),
            traceparent: Some(span.traceparent()),
            holder: turn.holder,
            held: turn.held.clone(),
            choice: choice(document, turn),
            instruction: instruction.clone(),
            has_own: turn.has_own,
        };
        let parts = Parts {
            servers: Arc::new(servers),
            kept: self.kept.clone(),
            supervisor: self.asker.clone(),
            model,
            skills: Arc::new(Skills::restored(
                skills::settings(document, window(document).window),
                &turn.transcript,
            )),
            witness: Arc::new(Clerk {
                frames: frames.clone(),
                run_id: turn.run_id.clone(),
                trace: span.traceparent(),
            }),
        };
        Router::new(parts, context)
    }
}

/// The family of a model's wire, in the words of the conventions on traces.
fn provider(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Openai | Dialect::OpenaiResponses => "openai",
        Dialect::Anthropic => "anthropic",
        Dialect::Bedrock => "aws.bedrock",
    }
}

/// Which tools the document leaves a turn. What a conversation's model is shown is chosen; what others hold was minted.
fn choice(document: &Document, turn: &Turn) -> Choice {
    let chosen = |names: &Option<Vec<String>>| {
        let names = names.as_deref().filter(|_| turn.holder == Holder::Root)?;
        match names {
            [one] if one == "all" => None,
            [one] if one == "none" => Some(Shown::by(|_| false)),
            globs => Some(shown(globs)),
        }
    };
    let tools = &document.agent.tools;
    Choice {
        internal: chosen(&tools.internal).unwrap_or_default(),
        mcp: chosen(&tools.mcp).unwrap_or_default(),
        disabled: document.tools.disabled.iter().cloned().collect(),
        mapped: turn.mapped.clone(),
    }
}

/// How a conversation is kept short.
fn window(document: &Document) -> ContextLimits {
    let model = document.intelligence.model.as_deref().unwrap_or_default();
    ContextLimits {
        compact_at: document.context.compact_at(),
        keep_last: document.context.keep_last(),
        window: document.context.model_window(model),
    }
}

/// How much of a conversation its store takes together with its task. The longest windows of today's models hold four
/// megabytes of text; a remote store has it in a message of its server's, escaped once or more.
fn kept_bytes(document: &Document) -> u64 {
    match document.store_kind() {
        StoreKind::Mcp => 768 * 1024,
        StoreKind::Http => 2 * 1024 * 1024,
        StoreKind::File | StoreKind::Memory => 6 * 1024 * 1024,
    }
}

fn input(
    turn: Turn,
    instruction: String,
    (context, kept_bytes): (ContextLimits, u64),
    traceparent: String,
    listener: Arc<dyn Sink>,
) -> TurnInput {
    let loaded = Transcript::load(turn.transcript);
    for repair in loaded.repairs {
        tracing::warn!(event = "restore.context.mended", run.id = turn.run_id, "{repair}");
    }
    TurnInput {
        traceparent: Some(traceparent),
        run_id: turn.run_id,
        instruction: match turn.role.is_empty() {
            true => instruction,
            false => format!("{}\n\n{}", instruction.trim(), turn.role),
        },
        transcript: loaded.transcript,
        text: turn.text,
        resumed: turn.resumed,
        limits: turn.limits,
        output_schema: turn.output_schema,
        context,
        kept_bytes,
        listener,
    }
}

fn result(run_id: String, outcome: TurnOutcome) -> TurnResult {
    match serde_json::to_value(&outcome.transcript) {
        Ok(transcript) => TurnResult {
            run_id,
            status: outcome.status,
            text: outcome.text,
            reason: outcome.reason,
            plain: outcome.plain,
            transcript,
            steps: outcome.steps.into(),
            tokens: outcome.usage.total(),
            tool_calls: outcome.tool_calls.into(),
        },
        Err(error) => fault(&run_id, format!("the transcript cannot be written: {error}")),
    }
}

/// The same end of a turn, when its conversation is too much for a frame.
pub fn without_transcript(result: &TurnResult, why: &str) -> TurnResult {
    let lost = format!("what was said in this turn will not be remembered: {why}");
    let reason = match &result.reason {
        Some(reason) => format!("{reason}; {lost}"),
        None => lost,
    };
    TurnResult {
        transcript: Value::Null,
        reason: Some(reason),
        ..result.clone()
    }
}

/// A turn that did not begin.
pub fn fault(run_id: &str, reason: String) -> TurnResult {
    TurnResult {
        run_id: run_id.to_owned(),
        status: Status::Failed,
        text: String::new(),
        reason: Some(reason),
        plain: None,
        transcript: Value::Null,
        steps: 0,
        tokens: 0,
        tool_calls: 0,
    }
}
