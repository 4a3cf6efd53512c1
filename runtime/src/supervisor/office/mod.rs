//! Carries out what turns ask of the supervisor. Who asks is known from the turn that a worker was given, never from
//! what the worker says; what a holder may ask is decided by the one table of grants. Guarantees: a request that is
//! not granted touches nothing; there is a reply to every request.

use std::sync::Arc;

use agentd_agent::request::Reservation;
use agentd_agent::{Held, Holder, Reply, Request, grants};
use agentd_base::clock::SharedClock;
use agentd_base::id::SharedIds;
use agentd_state::Store;

use super::asking::Human;
use super::settings::SettingsWatch;

/// On whose behalf a turn asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The principal that the conversation belongs to.
    pub owner: String,
    /// The conversation.
    pub conversation: String,
    /// The run.
    pub run_id: String,
    /// The kind of turn.
    pub holder: Holder,
    /// What was minted for it.
    pub held: Held,
}

/// See the module.
pub struct Office {
    /// The agent's name.
    pub instance: String,
    /// The configuration.
    pub settings: SettingsWatch,
    /// What is kept.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: SharedClock,
    /// New names.
    pub ids: SharedIds,
    /// Who can be asked.
    pub human: Option<Arc<dyn Human>>,
}

impl std::fmt::Debug for Office {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Office")
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

impl Office {
    /// Carries a request out.
    pub async fn carry_out(self: Arc<Self>, caller: Arc<Caller>, request: Request) -> Reply {
        if let Some(tool) = request.tool()
            && !grants::may(caller.holder, &caller.held, tool)
        {
            tracing::warn!(
                event = "tool.refused",
                run.id = caller.run_id,
                gen_ai.tool.name = tool
            );
            return Reply::Refused(format!("{tool} is not granted here"));
        }
        match request {
            // Nothing is bounded: what is not configured is not counted.
            Request::Reserve { .. } => Reply::Reserved(Reservation::Granted { id: 0, model: None }),
            Request::Settle { .. } => Reply::Done(serde_json::Value::Null),
            other => {
                let tool = other.tool().unwrap_or_default();
                Reply::Refused(format!("this agent has nothing that carries out {tool}"))
            }
        }
    }
}
