//! What the tools of a run work with.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use agentd_llm::Model;
use agentd_mcp::{CallMeta, Entry};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::grants::Holder;
use crate::kept::Kept;
use crate::minted::Held;
use crate::offer::{Offer, ServerOffer};
use crate::request::Supervisor;
use crate::resumed::SoFar;
use crate::router::Servers;
use crate::skills::Skills;

/// What every call of a run carries.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// The run.
    pub run_id: String,
    /// The agent's name.
    pub instance: String,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// On whose behalf.
    pub holder: Holder,
    /// What it may see and call.
    pub held: Held,
    /// What the operator leaves of it.
    pub choice: Choice,
    /// The standing instruction.
    pub instruction: Instruction,
    /// The supervisor has resources of its own for this conversation.
    pub has_own: bool,
}

/// The standing instruction, as `instruction.read` tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruction {
    /// The text; may be empty.
    pub text: String,
    /// Of the resource that it was read from; none where it is a text of the configuration.
    pub uri: Option<String>,
}

impl Instruction {
    /// Another one for another text.
    pub fn version(&self) -> String {
        agentd_base::digest::of(self.text.as_bytes())
    }
}

/// Which tools the operator leaves a turn.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Of ours.
    pub internal: Shown,
    /// Of the servers, by qualified name.
    pub mcp: Shown,
    /// Ours that are taken away, from whoever it is.
    pub disabled: BTreeSet<String>,
    /// Contracts that are carried out by a server.
    pub mapped: BTreeSet<String>,
}

/// Whether it takes a name.
type Takes = dyn Fn(&str) -> bool + Send + Sync;

/// A choice among tools: all, or those whose name it takes.
#[derive(Clone, Default)]
pub struct Shown(Option<Arc<Takes>>);

impl Shown {
    /// Those that `takes` says.
    pub fn by(takes: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(takes)))
    }

    pub(crate) fn takes(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|takes| takes(name))
    }
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "some" } else { "all" })
    }
}

impl Choice {
    /// Whether one of our tools is left.
    pub(crate) fn takes_internal(&self, name: &str) -> bool {
        // How a turn is ended in order is no matter of choice.
        !self.disabled.contains(name) && (self.internal.takes(name) || name == "finish")
    }

    /// Whether a server's tool is left.
    pub(crate) fn takes_mcp(&self, qualified: &str) -> bool {
        self.mcp.takes(qualified)
    }
}

/// The servers as they were when the round began, and everything else that a tool needs.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) offer: Arc<Offer>,
    pub(crate) servers: Arc<dyn Servers>,
    pub(crate) kept: Arc<Kept>,
    pub(crate) supervisor: Arc<dyn Supervisor>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) skills: Arc<Skills>,
    pub(crate) context: Arc<RunContext>,
    /// The turn as it stands, if the call that is made may wait for long.
    pub(crate) so_far: Arc<Mutex<Option<SoFar>>>,
}

impl Desk {
    /// The turn as it stands, with what belongs to its conversation, for a call that may wait for long.
    pub(crate) fn so_far(&self) -> Option<SoFar> {
        let mut so_far = self
            .so_far
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()?;
        self.skills.keep(&mut so_far.transcript);
        Some(so_far)
    }

    /// Whether this turn has this tool of a server: it was given it, and the operator leaves it.
    pub(crate) fn takes(&self, entry: &Entry) -> bool {
        let RunContext { held, choice, .. } = &*self.context;
        held.has_tool(&entry.server, &entry.tool.name) && choice.takes_mcp(&entry.qualified)
    }

    /// The offer of the servers that this turn was given.
    pub(crate) fn readable(&self) -> Cow<'_, Offer> {
        let has = |server: &ServerOffer| self.context.held.has_server(&server.server);
        if self.offer.servers.iter().all(has) {
            return Cow::Borrowed(&self.offer);
        }
        let servers = self.offer.servers.iter().filter(|server| has(server));
        Cow::Owned(Offer {
            catalogue: self.offer.catalogue.clone(),
            servers: servers.cloned().collect(),
        })
    }

    /// `_meta` of a request to a server.
    pub(crate) fn meta(
        &self,
        server: &str,
        tool: &str,
        arguments: &Map<String, Value>,
        ordinal: u32,
    ) -> CallMeta {
        let context = &self.context;
        CallMeta {
            run_id: context.run_id.clone(),
            instance: context.instance.clone(),
            traceparent: context.traceparent.clone(),
            idempotency_key: idempotency_key(&context.run_id, server, tool, arguments, ordinal),
            ordinal,
        }
    }
}

/// The same for the same call of the same run, whatever the attempt; another for any other call.
fn idempotency_key(
    run_id: &str,
    server: &str,
    tool: &str,
    arguments: &Map<String, Value>,
    ordinal: u32,
) -> String {
    let call = serde_json::json!([run_id, ordinal, server, tool, arguments]);
    agentd_base::digest::hex(call.to_string().as_bytes())
}
