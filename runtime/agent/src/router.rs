//! From a call of the model to a tool of a server and back: what went wrong is told to the model, which can mend it.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_base::class::Classified as _;
use agentd_llm::{Arguments, ToolCall, ToolSpec};
use agentd_mcp::{CallError, CallMeta, Catalogue, Connection, Entry, ToolOutcome};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::prompt::bounded;

/// What a model is told of one result: about 25,000 tokens. More would push everything else out of its sight.
const OBSERVATION_CHARS: usize = 100_000;
/// A description; providers refuse longer ones.
const DESCRIPTION_CHARS: usize = 1024;
/// Of arguments that were no JSON, so that the model sees its mistake.
const RAW_CHARS: usize = 200;

/// What came of a call, in the model's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// For the model; an error begins with `ERROR: `.
    pub text: String,
    /// It failed.
    pub is_error: bool,
}

impl Observation {
    /// A result.
    pub fn result(text: impl AsRef<str>) -> Self {
        Self {
            text: cut(text.as_ref()),
            is_error: false,
        }
    }

    /// A failure; the prefix is added where it is not there.
    pub fn error(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        let text = if text.starts_with("ERROR: ") {
            cut(text)
        } else {
            cut(&format!("ERROR: {text}"))
        };
        Self { text, is_error: true }
    }
}

/// Carries out calls. Dropping the future gives the call up.
#[async_trait]
pub trait ToolRunner: Send + Sync {
    /// One call. `ordinal` counts the calls of the run from 0, whatever came of them.
    async fn call(&self, call: &ToolCall, ordinal: u32) -> Observation;
}

/// The connections of a worker.
#[async_trait]
pub trait Servers: Send + Sync {
    /// `tools/call` at a server; none when there is no connection to it.
    async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Option<Result<ToolOutcome, CallError>>;
}

#[async_trait]
impl Servers for BTreeMap<String, Connection> {
    async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Option<Result<ToolOutcome, CallError>> {
        Some(self.get(server)?.call(tool, arguments, meta).await)
    }
}

/// What every call of a run carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunContext {
    /// The run.
    pub run_id: String,
    /// The agent's name.
    pub instance: String,
    /// W3C trace context.
    pub traceparent: Option<String>,
}

/// The tools of a run.
pub struct Router {
    catalogue: Arc<Catalogue>,
    servers: Arc<dyn Servers>,
    context: RunContext,
}

impl Router {
    /// Over a catalogue and the connections behind it.
    pub fn new(catalogue: Arc<Catalogue>, servers: Arc<dyn Servers>, context: RunContext) -> Self {
        Self {
            catalogue,
            servers,
            context,
        }
    }

    /// The tools as a model is offered them.
    pub fn specs(&self) -> Vec<ToolSpec> {
        specs(&self.catalogue)
    }

    fn meta(&self, entry: &Entry, arguments: &Map<String, Value>, ordinal: u32) -> CallMeta {
        CallMeta {
            run_id: self.context.run_id.clone(),
            instance: self.context.instance.clone(),
            traceparent: self.context.traceparent.clone(),
            idempotency_key: idempotency_key(&self.context.run_id, entry, arguments, ordinal),
        }
    }

    async fn dispatch(&self, entry: &Entry, arguments: Map<String, Value>, ordinal: u32) -> Observation {
        let meta = self.meta(entry, &arguments, ordinal);
        let began = std::time::Instant::now();
        let outcome = self
            .servers
            .call(&entry.server, &entry.tool.name, arguments, &meta)
            .await;
        let class = match &outcome {
            Some(Ok(outcome)) if outcome.is_error => "tool",
            Some(Ok(_)) => "none",
            Some(Err(error)) => error.class().label(),
            None => "unavailable",
        };
        tracing::info!(
            event = "tool.result",
            run.id = self.context.run_id,
            mcp.server = entry.server,
            gen_ai.tool.name = entry.qualified,
            error.class = class,
            dur_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        );
        match outcome {
            None => Observation::error(format!("server {} is not connected now; try later", entry.server)),
            Some(Ok(outcome)) => observe(&outcome),
            Some(Err(error)) => Observation::error(told(&entry.qualified, &error)),
        }
    }
}

#[async_trait]
impl ToolRunner for Router {
    async fn call(&self, call: &ToolCall, ordinal: u32) -> Observation {
        // Prompts may show the qualified name, and a model then writes that.
        let entry = self.catalogue.by_provider_name(&call.name);
        let Some(entry) = entry.or_else(|| self.catalogue.by_qualified_name(&call.name)) else {
            let name = agentd_base::text::clip(&call.name, RAW_CHARS);
            tracing::warn!(
                event = "tool.unknown",
                run.id = self.context.run_id,
                gen_ai.tool.name = name
            );
            return Observation::error(format!(
                "there is no tool {name}; use one of those you were given"
            ));
        };
        tracing::info!(
            event = "tool.call",
            run.id = self.context.run_id,
            mcp.server = entry.server,
            gen_ai.tool.name = entry.qualified,
            ordinal,
        );
        match &call.arguments {
            Arguments::Object(arguments) => self.dispatch(entry, arguments.clone(), ordinal).await,
            Arguments::Invalid(text) => {
                let text = agentd_base::text::clip(text, RAW_CHARS);
                Observation::error(format!("the arguments are not a JSON object: {text}"))
            }
        }
    }
}

/// The tools of a catalogue as a model is offered them, in its order.
pub fn specs(catalogue: &Catalogue) -> Vec<ToolSpec> {
    let spec = |entry: &Entry| ToolSpec {
        name: entry.provider.clone(),
        description: bounded(
            entry.tool.description.as_deref().unwrap_or_default(),
            DESCRIPTION_CHARS,
        ),
        input_schema: entry.tool.input_schema.clone(),
    };
    catalogue.entries().iter().map(spec).collect()
}

/// `structuredContent` where there is some, else the text.
fn observe(outcome: &ToolOutcome) -> Observation {
    let text = outcome
        .structured
        .as_ref()
        .map_or_else(|| outcome.text.clone(), Value::to_string);
    if outcome.is_error {
        Observation::error(text)
    } else {
        Observation::result(text)
    }
}

fn told(tool: &str, error: &CallError) -> String {
    match error {
        CallError::Timeout(_) | CallError::Unavailable(_) => {
            format!("{tool} gave no result: {error}; it may have been carried out")
        }
        _ => format!("{tool} was not carried out: {error}"),
    }
}

/// The same for the same call of the same run, whatever the attempt; another for any other call.
fn idempotency_key(run_id: &str, entry: &Entry, arguments: &Map<String, Value>, ordinal: u32) -> String {
    let call = serde_json::json!([run_id, ordinal, entry.server, entry.tool.name, arguments]);
    agentd_base::digest::hex(call.to_string().as_bytes())
}

fn cut(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(OBSERVATION_CHARS) else {
        return text.to_owned();
    };
    let kept = text.get(..end).unwrap_or_default();
    format!(
        "{kept}\n[cut here: the result has {} characters]",
        text.chars().count()
    )
}
