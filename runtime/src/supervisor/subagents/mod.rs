//! Subagents: turns that turns begin. Guarantees: each has exactly what was minted for it; none begins beyond
//! `limits.subagents`, nor with more than its caller has left; each is in the store before it begins and when it has
//! ended, so that none is said to run that does not; what becomes of one ends nothing else.

mod asked;
mod kept;
mod ledger;
mod life;
mod mint;
mod record;
mod watched;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentd_agent::request::{Mode, Said, SubagentRun};
use agentd_agent::{Reply, TurnLimits};
use agentd_base::rate::Rate;
use agentd_base::text::{CONTENT, content};
use agentd_base::trace::TraceContext;
use agentd_config::{Document, trifecta};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::ledger::{Bounds, Ledger, Newcomer};
pub use self::mint::narrowed;
use self::record::{Record, State};
use super::office::{Caller, Office, Spent, contracts};
use super::settings::current;
use super::turns::Charge;
use crate::audit::Audit;
use crate::origin::Origin;
use crate::trifecta::ALLOWED;
use crate::worker::confine::Confine;

/// How fast they may be begun, where the document does not say.
const RATE: Rate = Rate {
    burst: 8,
    per: agentd_base::duration::Duration::secs(2),
};
/// What a subagent is told of itself, after the agent's own instruction.
const ROLE: &str = "You are a subagent: another turn of this agent gave you the task below. Do it with the tools that \
    you have. Your last answer is all that is seen of your work; keep it under 8000 bytes.";

/// Those that live.
#[derive(Default)]
pub struct Subagents {
    live: Mutex<HashMap<String, Live>>,
    ledger: Mutex<Ledger>,
    running: TaskTracker,
    closed: CancellationToken,
}

/// One that lives.
struct Live {
    /// The conversation at the root.
    root: String,
    /// The run that began it, and whose that is.
    run_id: String,
    origin: Origin,
    record: watch::Sender<Record>,
    cancel: CancellationToken,
    /// None once it takes no more.
    messages: Option<mpsc::Sender<Message>>,
    /// What it may use up with each message.
    limits: TurnLimits,
}

/// One to a warm subagent, and where its answer goes. Dropped unanswered when the subagent has ended before it.
struct Message {
    text: String,
    /// What its sender has left, of what the subagent may use up with it.
    limits: TurnLimits,
    above: Arc<Spent>,
    /// Its sender's turn.
    trace: TraceContext,
    answer: oneshot::Sender<Value>,
}

impl Office {
    /// `subagent.run`.
    pub(super) async fn run_subagent(self: &Arc<Self>, caller: &Arc<Caller>, asked: SubagentRun) -> Reply {
        let settings = current(&self.settings);
        let document = &settings.document;
        let (handle, mode) = (self.ids.next(), asked.mode);
        let charge = match self.charge(caller, document, &asked) {
            Ok(charge) => charge,
            Err(why) => return self.refused(caller, why),
        };
        let new = Newcomer {
            handle: &handle,
            owner: &caller.owner,
            parent: &caller.conversation,
            depth: charge.depth,
        };
        let admitted = lock(&self.subagents.ledger).admit(new, &bounds(document), Instant::now());
        match admitted {
            Err(why) => return self.refused(caller, why),
            Ok(None) => {}
            Ok(Some(waited)) => self.give_up(&waited),
        }
        let place = Place {
            office: self.clone(),
            handle: handle.clone(),
        };
        let now = self.clock.now();
        let record = Record {
            handle: handle.clone(),
            parent: caller.conversation.clone(),
            depth: charge.depth,
            mode,
            state: State::Running,
            result: None,
            reason: None,
            steps: 0,
            tokens: 0,
            tool_calls: 0,
            began_at: now,
            ended_at: None,
        };
        let depth = charge.depth;
        let beginning = self.begin(
            caller,
            place,
            record,
            charge,
            task(&asked, document.skills.reference_prefix()),
        );
        let mut following = match beginning.await {
            Ok(Ok(following)) => following,
            Ok(Err(error)) => return self.refused(caller, format!("the subagent was not begun: {error}")),
            Err(_) => return self.refused(caller, "the subagent was not begun".to_owned()),
        };
        tracing::info!(
            event = "subagent.spawn",
            run.id = caller.run_id,
            subagent = handle,
            depth,
            ?mode
        );
        match mode {
            Mode::Async | Mode::Detached => {
                let told = following.borrow().told();
                Reply::Done(told)
            }
            Mode::Sync | Mode::Warm => {
                // Nobody waits any more: it has no purpose.
                let given_up = self.cancel_of(&handle).map(CancellationToken::drop_guard);
                let done = self.settled(&mut following).await;
                if let Some(given_up) = given_up {
                    given_up.disarm();
                }
                Reply::Done(done)
            }
        }
    }

    /// A turn has ended. When it was cancelled, so is what it began, unless that was to go on in any case.
    pub(super) fn turn_ended(&self, caller: &Caller, cancelled: bool) {
        if !cancelled {
            return;
        }
        for one in lock(&self.subagents.live).values() {
            if one.run_id == caller.run_id && one.record.borrow().mode != Mode::Detached {
                one.cancel.cancel();
            }
        }
    }

    /// Ends all, and returns when they have.
    pub async fn close_subagents(&self) {
        self.subagents.closed.cancel();
        self.subagents.running.close();
        self.subagents.running.wait().await;
    }

    /// How many live, in how many generations, and the most that one turn has.
    pub fn extent_of_subagents(&self) -> (usize, u32, usize) {
        let ledger = lock(&self.subagents.ledger);
        let (depth, breadth) = ledger.extent();
        (ledger.live(), depth, breadth)
    }

    /// What it is given: of what its caller holds, within what its caller has left.
    fn charge(&self, caller: &Caller, document: &Document, asked: &SubagentRun) -> Result<Charge, String> {
        if self.subagents.closed.is_cancelled() {
            return Err("the agent is about to stop".to_owned());
        }
        if !asked.skills.is_empty() && document.skills.sources.is_empty() {
            return Err("there are no skills here (skills.sources)".to_owned());
        }
        let view = self.servers.borrow().clone();
        let giver = mint::Giver {
            holder: caller.holder,
            held: &caller.held,
            document,
            catalogue: &view.catalogue,
            contracts: &contracts(document, &view),
        };
        let held = giver.mint(asked)?;
        if let Some(three) = trifecta::check(document, &giver.tools(&held)) {
            if !document.security.allow_trifecta {
                return Err(format!(
                    "the subagent would hold tools of all three kinds: untrusted input ({}), sensitive ({}) and egress \
                     ({}); give it fewer",
                    three.untrusted_input, three.sensitive, three.egress
                ));
            }
            Audit {
                instance: &self.instance,
                principal: &caller.owner,
                role: caller.holder.label(),
                action: ALLOWED,
                target: &three.to_string(),
                outcome: "ok",
                request_id: &caller.run_id,
                trace: &caller.trace().to_string(),
                dur_ms: None,
            }
            .write();
        }
        let limits = caller.left(asked.limits.unwrap_or_default(), asked.mode, &document.limits.run)?;
        Ok(Charge {
            role: ROLE.to_owned(),
            root: caller.root.clone(),
            depth: caller.depth + 1,
            held,
            limits,
            // One that goes on without its caller is nobody's share.
            above: (asked.mode != Mode::Detached).then(|| caller.spent.clone()),
            output_schema: asked.output_schema.clone(),
            confine: Confine::of(asked)?,
            is_warm: asked.mode == Mode::Warm,
        })
    }

    /// Ends a warm one that only waited: others need its place.
    fn give_up(&self, handle: &str) {
        if let Some(one) = lock(&self.subagents.live).get(handle) {
            one.origin.span(&one.run_id).in_scope(|| {
                tracing::info!(event = "subagent.given_up", subagent = handle);
            });
            one.cancel.cancel();
        }
    }

    fn cancel_of(&self, handle: &str) -> Option<CancellationToken> {
        lock(&self.subagents.live)
            .get(handle)
            .map(|one| one.cancel.clone())
    }

    async fn settled(&self, following: &mut watch::Receiver<Record>) -> Value {
        // The sender goes after the last word only.
        let _ = following.wait_for(|record| record.state != State::Running).await;
        following.borrow().told()
    }

    fn refused(&self, caller: &Caller, why: String) -> Reply {
        tracing::warn!(event = "tool.refused", run.id = caller.run_id);
        // It may name what the model asked for, in its words.
        tracing::info!(target: CONTENT, event = "content.refused", run.id = caller.run_id, reason = content(&why));
        Reply::Refused(why)
    }
}

impl Live {
    /// Whether this caller began it, in whichever turn.
    fn is_of(&self, caller: &Caller) -> bool {
        self.root == caller.root && self.record.borrow().parent == caller.conversation
    }
}

/// A place among the living, given back with it.
struct Place {
    office: Arc<Office>,
    handle: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.office.subagents.ledger).release(&self.handle);
        lock(&self.office.subagents.live).remove(&self.handle);
    }
}

fn bounds(document: &Document) -> Bounds {
    let limits = &document.limits.subagents;
    let count =
        |limit: Option<u32>, absent: u32| usize::try_from(limit.unwrap_or(absent)).unwrap_or(usize::MAX);
    Bounds {
        depth: limits.depth.unwrap_or(3),
        breadth: count(limits.breadth, 8),
        total: count(limits.total, 64),
        rate: limits.rate.unwrap_or(RATE),
        is_shared: document.a2a.principals.len() > 1,
    }
}

/// The task as a subagent reads it. `prefix` is before the name of a skill that a text refers to.
fn task(asked: &SubagentRun, prefix: &str) -> String {
    let mut parts = Vec::new();
    if !asked.context.is_empty() {
        let said = asked
            .context
            .iter()
            .map(|Said { role, content }| format!("{role}: {content}"));
        parts.push(format!(
            "What was said before:\n\n{}",
            said.collect::<Vec<_>>().join("\n\n")
        ));
    }
    parts.push(asked.instruction.clone());
    if let Some(contract) = &asked.output_contract {
        parts.push(format!("The form of your answer: {contract}"));
    }
    if !asked.skills.is_empty() {
        let names = asked.skills.iter().map(|name| format!("{prefix}{name}"));
        let names = names.collect::<Vec<_>>().join(" ");
        parts.push(format!("Go by these skills: {names}"));
    }
    parts.join("\n\n")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
