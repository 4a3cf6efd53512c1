//! From a call of the model to a tool and back: ours first, then those of the servers. What went wrong is told to the
//! model, which can mend it.

use std::sync::{Arc, Mutex, PoisonError};

use agentd_base::class::Classified as _;
use agentd_base::text::{CONTENT, content};
use agentd_llm::{Arguments, Model, ToolCall};
use agentd_mcp::{CallError, CallMeta, Catalogue, Content, Entry, Policy, ReadError, ToolOutcome};
use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::desk::{Desk, RunContext};
use crate::internal;
use crate::kept::Kept;
use crate::observation::Observation;
use crate::offer::Offer;
use crate::request::Supervisor;
use crate::resumed::SoFar;
use crate::skills::{self, Skills};
use crate::view::View;
use crate::witness::{Outcome, UNKNOWN, Witness};

/// Of what a model wrote that is of no use, so that it sees its mistake.
const RAW_CHARS: usize = 200;

/// Gives a model its tools and carries out its calls. Dropping a future gives it up.
#[async_trait]
pub trait ToolRunner: Send + Sync {
    /// What the model is given in its next round. Asked before each; the same `Arc` while nothing has changed.
    async fn view(&self) -> Arc<View>;

    /// One call. `ordinal` counts the calls of the run from 0, in the order in which the model made them, whatever came
    /// of them. The calls of a round are carried out at the same time, up to [`crate::turn::PARALLEL`] of them.
    async fn call(&self, call: &ToolCall, ordinal: u32) -> Observation;

    /// The call that is made next is the last of its round, and may wait for long: the turn as it stands then.
    fn may_wait(&self, _: SoFar) {}
}

/// The connections of a worker.
#[async_trait]
pub trait Servers: Send + Sync {
    /// What they offer now. The same `Arc` while nothing has changed.
    async fn offer(&self) -> Arc<Offer>;

    /// `tools/call` at a server; none when there is no connection to it.
    async fn call(
        &self,
        entry: &Entry,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Option<Result<ToolOutcome, CallError>>;

    /// `resources/read` at a server; none when there is no connection to it.
    async fn read(&self, server: &str, uri: &str, meta: &CallMeta)
    -> Option<Result<Vec<Content>, ReadError>>;

    /// `prompts/get` at a server: its words; none when there is no connection to it.
    async fn prompt(
        &self,
        server: &str,
        name: &str,
        arguments: Map<String, Value>,
        meta: &CallMeta,
    ) -> Option<Result<String, CallError>>;
}

/// The tools of a run.
pub struct Router {
    parts: Parts,
    context: Arc<RunContext>,
    round: Mutex<Round>,
    so_far: Arc<Mutex<Option<SoFar>>>,
}

/// What a worker has for the tools of a run.
pub struct Parts {
    /// Its connections.
    pub servers: Arc<dyn Servers>,
    /// The results that it keeps.
    pub kept: Arc<Kept>,
    /// For what only the supervisor can do.
    pub supervisor: Arc<dyn Supervisor>,
    /// The model, for what thinks apart.
    pub model: Arc<dyn Model>,
    /// The skills of the conversation.
    pub skills: Arc<Skills>,
    /// Hears of the calls that reach no server.
    pub witness: Arc<dyn Witness>,
}

/// What the model was given last.
#[derive(Default)]
struct Round {
    offer: Arc<Offer>,
    view: Option<Arc<View>>,
    /// Of the skills that are loaded.
    skills: u64,
}

impl Router {
    /// Over what a worker has.
    pub fn new(parts: Parts, context: RunContext) -> Self {
        Self {
            parts,
            context: Arc::new(context),
            round: Mutex::default(),
            so_far: Arc::default(),
        }
    }

    /// The skills of the conversation.
    pub fn skills(&self) -> Arc<Skills> {
        self.parts.skills.clone()
    }

    /// Loads the skills that these texts refer to. One that cannot be loaded is left out. Without sources no server is
    /// asked what it offers.
    pub async fn follow(&self, texts: &[&str]) {
        if !self.parts.skills.has_sources() {
            return;
        }
        let offer = self.parts.servers.offer().await;
        skills::follow(&self.desk(offer), texts).await;
    }

    fn desk(&self, offer: Arc<Offer>) -> Desk {
        Desk {
            offer,
            servers: self.parts.servers.clone(),
            kept: self.parts.kept.clone(),
            supervisor: self.parts.supervisor.clone(),
            model: self.parts.model.clone(),
            skills: self.parts.skills.clone(),
            context: self.context.clone(),
            so_far: self.so_far.clone(),
        }
    }

    fn offered(&self) -> Arc<Offer> {
        self.round
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .offer
            .clone()
    }

    async fn carry_out(&self, call: &ToolCall, ordinal: u32) -> Observation {
        let desk = self.desk(self.offered());
        let ours = internal::find(&call.name, &desk);
        // Prompts may show the qualified name, and a model then writes that.
        let catalogue = &desk.offer.catalogue;
        let entry = catalogue.by_provider_name(&call.name);
        let entry = entry.or_else(|| catalogue.by_qualified_name(&call.name));
        let entry = entry.filter(|entry| desk.takes(entry));
        let (server, name) = match (ours, entry) {
            (Some(tool), _) => (None, tool.name),
            (None, Some(entry)) => (Some(entry.server.as_str()), entry.qualified.as_str()),
            (None, None) => return self.unknown(call, ordinal, catalogue).await,
        };
        tracing::info!(
            event = "tool.call",
            run.id = self.context.run_id,
            mcp.server = server,
            gen_ai.tool.name = name,
            ordinal,
        );
        tracing::info!(
            target: CONTENT,
            event = "content.arguments",
            run.id = self.context.run_id,
            ordinal,
            text = match &call.arguments {
                Arguments::Object(arguments) => content(&serde_json::Value::Object(arguments.clone()).to_string()),
                Arguments::Invalid(text) => content(text),
            },
        );
        let arguments = match &call.arguments {
            Arguments::Object(arguments) => arguments.clone(),
            Arguments::Invalid(text) => {
                let text = agentd_base::text::clip(text, RAW_CHARS);
                let tool = entry
                    .filter(|_| ours.is_none())
                    .map_or(name, |entry| &entry.tool.name);
                self.refused(server, tool, ordinal).await;
                return Observation::error(format!("the arguments are not a JSON object: {text}"));
            }
        };
        let began = std::time::Instant::now();
        let (observation, class) = match (ours, entry) {
            (Some(tool), _) => {
                let attending = self.parts.witness.begin(None, tool.name, ordinal);
                let seen = tool.call(arguments, ordinal, &desk).await;
                let (outcome, class) = match seen.is_error {
                    true => (Outcome::Failed, "tool"),
                    false => (Outcome::Done, "none"),
                };
                attending.end(outcome).await;
                (seen, class)
            }
            (None, Some(entry)) => dispatch(&desk, entry, arguments, ordinal).await,
            (None, None) => return self.unknown(call, ordinal, catalogue).await,
        };
        tracing::info!(
            event = "tool.result",
            run.id = self.context.run_id,
            mcp.server = server,
            gen_ai.tool.name = name,
            error.class = class,
            dur_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        );
        tracing::info!(
            target: CONTENT,
            event = "content.result",
            run.id = self.context.run_id,
            ordinal,
            text = content(&observation.text),
        );
        observation
    }

    /// A call that is not tried.
    async fn refused(&self, server: Option<&str>, tool: &str, ordinal: u32) {
        let attending = self.parts.witness.begin(server, tool, ordinal);
        attending.end(Outcome::Refused).await;
    }

    /// A tool that this turn does not have. Its name is the model's word, unless somebody else has it.
    async fn unknown(&self, call: &ToolCall, ordinal: u32, catalogue: &Catalogue) -> Observation {
        let entry = catalogue.by_provider_name(&call.name);
        let entry = entry.or_else(|| catalogue.by_qualified_name(&call.name));
        match entry {
            Some(entry) => self.refused(Some(&entry.server), &entry.tool.name, ordinal).await,
            None => {
                let tool = internal::named(&call.name).unwrap_or(UNKNOWN);
                self.refused(None, tool, ordinal).await;
            }
        }
        let name = agentd_base::text::clip(&call.name, RAW_CHARS);
        tracing::warn!(event = "tool.unknown", run.id = self.context.run_id);
        tracing::info!(
            target: CONTENT,
            event = "content.unknown_tool",
            run.id = self.context.run_id,
            text = name
        );
        Observation::error(format!(
            "there is no tool {name} now; use one of those you were given last"
        ))
    }
}

#[async_trait]
impl ToolRunner for Router {
    fn may_wait(&self, so_far: SoFar) {
        *self.so_far.lock().unwrap_or_else(PoisonError::into_inner) = Some(so_far);
    }

    async fn view(&self) -> Arc<View> {
        let offer = self.parts.servers.offer().await;
        let desk = self.desk(offer.clone());
        let revision = desk.skills.revision();
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = &round.view
            && Arc::ptr_eq(&round.offer, &offer)
            && round.skills == revision
            && view.is_of(&desk)
        {
            return view.clone();
        }
        let view = Arc::new(View::of(&desk));
        *round = Round {
            offer,
            view: Some(view.clone()),
            skills: revision,
        };
        view
    }

    async fn call(&self, call: &ToolCall, ordinal: u32) -> Observation {
        let seen = self.carry_out(call, ordinal).await;
        self.parts.kept.admit(&self.context.run_id, ordinal, seen)
    }
}

/// A call of a server's tool, and the class of what went wrong. It is sent once: that it may be carried out twice nobody
/// says whose word counts, and what never reached the server was tried again below us.
async fn dispatch(
    desk: &Desk,
    entry: &Entry,
    arguments: Map<String, Value>,
    ordinal: u32,
) -> (Observation, &'static str) {
    let meta = desk.meta(&entry.server, &entry.tool.name, &arguments, ordinal);
    match desk.servers.call(entry, arguments, &meta).await {
        None => {
            let gone = format!("server {} is not connected now; try later", entry.server);
            (Observation::error(gone), "unavailable")
        }
        Some(Ok(outcome)) => {
            desk.kept.link(&entry.server, &outcome.links);
            let class = if outcome.is_error { "tool" } else { "none" };
            (observe(&outcome), class)
        }
        Some(Err(error)) => (
            Observation::error(told(&entry.qualified, &error)),
            error.class().label(),
        ),
    }
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

/// Why there is no result. The server's own words only where the model can mend what they say.
fn told(what: &str, error: &CallError) -> String {
    match (error, error.policy()) {
        (CallError::Protocol { .. }, Policy::Tell) => format!("{what} was not carried out: {error}"),
        (CallError::Protocol { code, .. }, Policy::Retry) => {
            format!("{what} gave no result: its server failed (error {code}); it may have been carried out")
        }
        (CallError::Protocol { code, .. }, Policy::Abort) => {
            format!("{what} was not carried out: its server cannot take this call (error {code})")
        }
        (CallError::Timeout(_) | CallError::Unavailable(_), _) => {
            format!("{what} gave no result: {error}; it may have been carried out")
        }
        _ => format!("{what} was not carried out: {error}"),
    }
}
