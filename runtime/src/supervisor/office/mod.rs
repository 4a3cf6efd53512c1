//! Carries out what turns ask of the supervisor. What a holder may ask is decided by the one table of grants, and by
//! what was minted for it. Guarantees: a request that is not granted touches nothing; there is a reply to every request.

mod caller;
pub mod human;
mod mapped;
mod memory;
mod message;
mod observing;
mod plan;
mod spent;
mod status;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use agentd_agent::request::{Await, ItemStatus, Mapped};
use agentd_agent::{Reply, Request, grants};
use agentd_base::clock::SharedClock;
use agentd_base::id::SharedIds;
use agentd_mcp::supervised::Lines;
use agentd_mcp::{CallError, CallMeta, ServersView};
use agentd_state::{Entry, EntryKind, Store, StoreError, Write};
use serde_json::{Value, json};
use tokio::sync::watch;

pub use self::caller::Caller;
use self::mapped::shown;
pub use self::mapped::{Behind, contracts};
use self::memory::{End, Shelf};
pub use self::observing::Changes;
use self::plan::Plan;
pub use self::spent::Spent;
use super::asking::Human;
use super::budget::Budget;
use super::instruction::Standing;
use super::settings::{SettingsWatch, current};
use super::subagents::Subagents;
use super::tasks::Tasks;
use super::turns::TurnRunner;
use crate::audit;
use crate::worker::frame::{Action, ToolCalled, ToolOutcome};

/// The only plan of a conversation.
pub(super) const PLAN: &str = "plan";

/// See the module.
pub struct Office {
    /// The agent's name.
    pub instance: String,
    /// The configuration.
    pub settings: SettingsWatch,
    /// The MCP servers.
    pub servers: watch::Receiver<Arc<ServersView>>,
    /// What is kept.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: SharedClock,
    /// New names.
    pub ids: SharedIds,
    /// Who can be asked.
    pub human: Option<Arc<dyn Human>>,
    /// Runs the turns of subagents.
    pub runner: Weak<TurnRunner>,
    /// Those that live.
    pub subagents: Subagents,
    /// What the model may cost.
    pub budget: Budget,
    /// The supervisor's own connections.
    pub lines: Lines,
    /// The conversations, once there are some.
    pub tasks: OnceLock<Weak<Tasks>>,
    /// A value of the memory, or a plan, is read and written again by one turn at a time.
    pub remembering: tokio::sync::Mutex<()>,
    /// Tells those who wait for a condition.
    pub changes: Changes,
    /// What the agent is for, where that is a resource.
    pub instruction: Standing,
}

impl std::fmt::Debug for Office {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Office")
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

impl Office {
    /// Carries a request out. Dropped when nobody waits for the reply any more.
    pub async fn carry_out(self: Arc<Self>, caller: Arc<Caller>, request: Request) -> Reply {
        if let Some(tool) = request.tool() {
            let disabled = &current(&self.settings).document.tools.disabled;
            let is_disabled = disabled.iter().any(|name| name == tool);
            if is_disabled || !grants::may(caller.holder, &caller.held, tool) {
                tracing::warn!(
                    event = "tool.refused",
                    run.id = caller.run_id,
                    gen_ai.tool.name = tool
                );
                return Reply::Refused(format!("{tool} is not granted here"));
            }
            if !request.goes_on() {
                caller.spent.add(1, 0);
            }
        }
        let changes = is_change(&request);
        let replied = self.kept(&caller, request).await;
        if changes {
            self.changes.note(&caller.owner);
        }
        match replied {
            Ok(reply) => reply,
            Err(error) => {
                tracing::warn!(event = "store.put.fail", run.id = caller.run_id, err = %error);
                Reply::Refused(error.to_string())
            }
        }
    }

    /// What is about what is kept, and the rest.
    async fn kept(self: &Arc<Self>, caller: &Arc<Caller>, request: Request) -> Result<Reply, StoreError> {
        let settings = current(&self.settings);
        let memory = &settings.document.memory;
        let count =
            |limit: Option<u32>, absent: u32| usize::try_from(limit.unwrap_or(absent)).unwrap_or(usize::MAX);
        let shelf = Shelf {
            store: self.store.as_ref(),
            clock: &self.clock,
            owner: &caller.owner,
            max_value_bytes: count(memory.max_value_bytes, 65_536),
            list_limit: count(memory.list_default_limit, 100),
        };
        let max_items = count(settings.document.context.plan.max_items, 32);
        match request {
            Request::MemoryGet(key) => shelf.get(&key.key).await,
            Request::MemorySet(set) => {
                let _one = self.remembering.lock().await;
                shelf.set(set).await
            }
            Request::MemoryList(listed) => shelf.list(listed).await,
            Request::MemoryDelete(key) => {
                let _one = self.remembering.lock().await;
                shelf.delete(&key.key).await
            }
            Request::MemoryPush(push) => {
                let _one = self.remembering.lock().await;
                shelf.push(push).await
            }
            Request::MemoryPop(key) => {
                let _one = self.remembering.lock().await;
                shelf.take(key.key, End::Last).await
            }
            Request::MemoryShift(key) => {
                let _one = self.remembering.lock().await;
                shelf.take(key.key, End::First).await
            }
            Request::ArtifactCreate(made) => shelf.create(self.ids.next(), made).await,
            Request::ArtifactGet(id) => shelf.open(&id.id).await,
            Request::ArtifactList(listed) => shelf.list_artifacts(listed).await,
            Request::ArtifactDelete(id) => shelf.drop_artifact(&id.id).await,
            Request::PlanCreate(made) => {
                let _one = self.remembering.lock().await;
                self.planned(caller, Plan::new(made, max_items)).await
            }
            Request::PlanGet(_) => Ok(Reply::Done(self.plan_told(&caller.conversation).await?)),
            Request::PlanUpdate(change) => {
                let _one = self.remembering.lock().await;
                match self.plan(&caller.conversation).await? {
                    None => Ok(Reply::Refused(
                        "there is no plan; write one with plan_create".to_owned(),
                    )),
                    Some(plan) => self.planned(caller, plan.change(change, max_items)).await,
                }
            }
            Request::PlanClear(_) => {
                let _one = self.remembering.lock().await;
                let cleared = self.plan(&caller.conversation).await?.is_some();
                let drop = Write::DropEntry {
                    kind: EntryKind::Plan,
                    scope: caller.conversation.clone(),
                    key: PLAN.to_owned(),
                };
                self.store.write(vec![drop]).await?;
                Ok(Reply::Done(json!({"cleared": cleared})))
            }
            Request::Observe(observe) => self.observe(caller, *observe).await,
            other => Ok(self.done(caller, other).await),
        }
    }

    /// What is about others: people, subagents, servers.
    async fn done(self: &Arc<Self>, caller: &Arc<Caller>, request: Request) -> Reply {
        match request {
            Request::Status(_) => {
                let view = self.servers.borrow().clone();
                let told = status::told(&self.instance, &current(&self.settings), &view, caller);
                Reply::Done(told)
            }
            Request::AskHuman(asked) => human::ask(self.human.as_ref(), caller, asked).await,
            Request::SubagentRun(asked) => self.run_subagent(caller, *asked).await,
            Request::SubagentSend(send) => self.send_subagent(caller, send).await,
            Request::SubagentKill(kill) => self.kill_subagent(caller, kill).await,
            Request::SubagentRetire(handle) => self.retire_subagent(caller, &handle.handle).await,
            Request::SubagentStatus(handle) => self.status_of(caller, &handle.handle).await,
            Request::SubagentList(_) => self.list_subagents(caller).await,
            Request::SubagentAwait(wait) => {
                let handle = wait.handle;
                let on = Await {
                    on: vec![handle.clone()],
                    timeout: wait.timeout,
                };
                match self.await_subagents(caller, on).await {
                    Ok(Some(told)) => Reply::Done(told),
                    // It still runs.
                    Ok(None) => self.status_of(caller, &handle).await,
                    Err(why) => Reply::Refused(why),
                }
            }
            Request::Await(wait) => match self.await_subagents(caller, wait).await {
                Ok(Some(told)) => Reply::Done(json!({"satisfied": true, "value": told})),
                Ok(None) => Reply::Done(json!({"satisfied": false})),
                Err(why) => Reply::Refused(why),
            },
            Request::ResourceRead(uri) => self.read_subagent(caller, &uri.uri).await,
            Request::Reserve { tokens } => {
                Reply::Reserved(self.budget.reserve(&caller.run_id, tokens, caller.until).await)
            }
            Request::Settle { id, tokens } => {
                self.budget.settle(&caller.run_id, id, tokens).await;
                Reply::Done(Value::Null)
            }
            Request::MessageSend(send) => {
                let tasks = self.tasks.get().and_then(Weak::upgrade);
                message::send(tasks, caller, self.ids.next(), send).await
            }
            Request::InstructionSubscribe(asked) => {
                let read = self.instruction.subscribe(asked.uri, &self.lines, &self.instance);
                match read.await {
                    Ok(read) => Reply::Done(json!({"uri": read.uri, "version": read.version()})),
                    Err(why) => Reply::Refused(why),
                }
            }
            Request::Mapped(call) => self.mapped(caller, call).await,
            other => {
                let tool = other.tool().unwrap_or_default();
                Reply::Refused(format!("this agent has nothing that carries out {tool}"))
            }
        }
    }

    /// A contract: by the tool of the server that stands behind it, on the supervisor's connection.
    async fn mapped(&self, caller: &Caller, call: Mapped) -> Reply {
        let view = self.servers.borrow().clone();
        let mut contracts = contracts(&current(&self.settings).document, &view);
        let Some(behind) = contracts.remove(&call.tool) else {
            return Reply::Refused(format!("nothing stands behind {} now", call.tool));
        };
        let Some(connection) = self.lines.connection(&behind.server) else {
            return Reply::Refused(format!(
                "server {} is not connected now; try later",
                behind.server
            ));
        };
        let arguments = match behind.arguments(call.arguments) {
            Ok(arguments) => arguments,
            Err(why) => return Reply::Refused(why),
        };
        let meta = CallMeta {
            run_id: caller.run_id.clone(),
            instance: self.instance.clone(),
            traceparent: call.traceparent,
            idempotency_key: call.idempotency_key,
            ordinal: call.ordinal,
        };
        let began = Instant::now();
        let answer = connection.call_whole(&behind.tool, arguments, &meta).await;
        let called = ToolCalled {
            server: Some(behind.server.clone()),
            tool: behind.tool.clone(),
            outcome: match &answer {
                Ok(outcome) if outcome.is_error => ToolOutcome::ToolError,
                Ok(_) => ToolOutcome::Ok,
                Err(CallError::Unavailable(_) | CallError::Denied(_)) => ToolOutcome::Unavailable,
                Err(_) => ToolOutcome::Failed,
            },
            millis: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            trace: meta.traceparent.clone().unwrap_or_default(),
            ..ToolCalled::begin(Action::Contract, &caller.run_id, meta.ordinal)
        };
        audit::call(&self.instance, &caller.owner, caller.holder.label(), &called);
        match answer {
            Ok(outcome) if outcome.is_error => Reply::Refused(match shown(outcome.value) {
                Value::String(text) => text,
                other => other.to_string(),
            }),
            Ok(outcome) => behind
                .result(outcome.value)
                .map_or_else(Reply::Refused, |result| Reply::Done(shown(result))),
            Err(error) => Reply::Refused(format!("{} gave no result: {error}", call.tool)),
        }
    }

    async fn plan(&self, conversation: &str) -> Result<Option<Plan>, StoreError> {
        let entry = self
            .store
            .entry(EntryKind::Plan, conversation, PLAN, self.clock.now())
            .await?;
        Ok(entry.and_then(|entry| serde_json::from_value(entry.value).ok()))
    }

    /// A conversation's plan, as it is told.
    pub(in crate::supervisor) async fn plan_told(&self, conversation: &str) -> Result<Value, StoreError> {
        let plan = self.plan(conversation).await?;
        Ok(plan.map_or(json!({"exists": false}), |plan| plan.told()))
    }

    async fn planned(&self, caller: &Caller, plan: Result<Plan, String>) -> Result<Reply, StoreError> {
        let plan = match plan {
            Ok(plan) => plan,
            Err(why) => return Ok(Reply::Refused(why)),
        };
        self.store
            .write(vec![self.plan_entry(&caller.conversation, &plan)])
            .await?;
        Ok(Reply::Done(plan.told()))
    }

    fn plan_entry(&self, conversation: &str, plan: &Plan) -> Write {
        Write::Entry(Entry {
            kind: EntryKind::Plan,
            scope: conversation.to_owned(),
            key: PLAN.to_owned(),
            value: serde_json::to_value(plan).unwrap_or_default(),
            expires_at: None,
            updated_at: self.clock.now(),
        })
    }

    /// A subagent has gone on: items of the plan that are bound to it follow. A plan that cannot be kept is no reason
    /// to fail it.
    pub(super) async fn follow_plan(&self, caller: &Caller, subagent: &str, status: ItemStatus) {
        let conversation = &caller.conversation;
        let _one = self.remembering.lock().await;
        let plan = self.plan(conversation).await.ok().flatten();
        if let Some(next) = plan.and_then(|plan| plan.follow(subagent, status)) {
            let _ = self.store.write(vec![self.plan_entry(conversation, &next)]).await;
            self.changes.note(&caller.owner);
        }
    }
}

/// Whether a request changes something that the conditions of turns are about.
fn is_change(request: &Request) -> bool {
    matches!(
        request,
        Request::MemorySet(_)
            | Request::MemoryDelete(_)
            | Request::MemoryPush(_)
            | Request::MemoryPop(_)
            | Request::MemoryShift(_)
            | Request::PlanCreate(_)
            | Request::PlanUpdate(_)
            | Request::PlanClear(_)
            | Request::SubagentRun(_)
    )
}
