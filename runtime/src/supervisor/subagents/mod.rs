//! Subagents: turns that turns begin. Guarantees: each has exactly what was minted for it; none begins beyond
//! `limits.subagents`, nor with more than its caller has left; each is in the store before it begins and when it has
//! ended, so that none is said to run that does not; what becomes of one ends nothing else.

mod ledger;
mod mint;
mod record;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentd_agent::request::{Await, ItemStatus, Mode, Said, SubagentKill, SubagentRun, SubagentSend};
use agentd_agent::{Reply, Status};
use agentd_base::rate::Rate;
use agentd_config::{Document, trifecta};
use agentd_state::{Entry, EntryKind, EntryQuery, StoreError, Write};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::ledger::{Bounds, Ledger};
pub use self::mint::narrowed;
use self::record::{RESOURCES, Record, State};
use super::office::{Caller, Office, contracts};
use super::settings::current;
use super::turns::{Charge, TurnEnd, TurnInput};
use crate::logging::AUDIT;

/// The scope of the marks of those that live, by handle: what a restart looks through.
const LIVE: &str = "live";
/// A warm one that nobody speaks to for so long has ended.
const WARM: Duration = Duration::from_secs(3600);
/// Messages to a warm one that wait: its callers wait for the answers.
const MESSAGES: usize = 8;
/// Marks that a restart reads at a time.
const PAGE: usize = 256;
/// Before an end that could not be stored is stored again.
const AGAIN: Duration = Duration::from_secs(1);
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
    /// The run that began it.
    run_id: String,
    record: watch::Sender<Record>,
    cancel: CancellationToken,
    messages: mpsc::Sender<String>,
}

/// What a live one is run with.
struct Life {
    caller: Arc<Caller>,
    handle: String,
    charge: Charge,
    record: watch::Sender<Record>,
    cancel: CancellationToken,
    messages: mpsc::Receiver<String>,
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
        let admitted = lock(&self.subagents.ledger).admit(
            &handle,
            &caller.conversation,
            charge.depth,
            &bounds(document),
            Instant::now(),
        );
        if let Err(why) = admitted {
            return self.refused(caller, why);
        }
        // Given back unless it lives.
        let place = Place {
            office: self.clone(),
            handle: handle.clone(),
            lives: false,
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
        if let Err(error) = self
            .store
            .write(vec![
                self.entry(&caller.root, &record),
                mark(&caller.root, &record),
            ])
            .await
        {
            return self.refused(caller, format!("the subagent was not begun: {error}"));
        }
        tracing::info!(
            event = "subagent.spawn",
            run.id = caller.run_id,
            subagent = handle,
            depth = charge.depth,
            ?mode
        );
        let mut following = self.begin(caller, place, record, charge, task(&asked));
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

    /// Puts it among the living, and lets it live. Not async: a turn is run by a turn here.
    fn begin(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        mut place: Place,
        record: Record,
        charge: Charge,
        text: String,
    ) -> watch::Receiver<Record> {
        let (messages, inbox) = mpsc::channel(MESSAGES);
        let cancel = self.subagents.closed.child_token();
        let handle = record.handle.clone();
        let (record, following) = watch::channel(record);
        let live = Live {
            root: caller.root.clone(),
            run_id: caller.run_id.clone(),
            record: record.clone(),
            cancel: cancel.clone(),
            messages,
        };
        lock(&self.subagents.live).insert(handle.clone(), live);
        place.lives = true;
        let life = Life {
            caller: caller.clone(),
            handle,
            charge,
            record,
            cancel,
            messages: inbox,
        };
        let office = self.clone();
        self.subagents
            .running
            .spawn(async move { office.live(life, text).await });
        following
    }

    /// One turn after the other, until it is over.
    async fn live(self: Arc<Self>, mut life: Life, mut text: String) {
        let mut transcript = Value::Null;
        let mut run_id = life.handle.clone();
        loop {
            let mut end = match self.runner.upgrade() {
                Some(runner) => {
                    let input = TurnInput {
                        run_id,
                        owner: life.caller.owner.clone(),
                        conversation: conversation_of(&life.caller.root, &life.handle),
                        transcript: std::mem::take(&mut transcript),
                        text,
                        hops: life.caller.hops,
                        charge: Some(life.charge.clone()),
                    };
                    runner.run(input, &life.cancel).await
                }
                None => TurnEnd::Broken {
                    reason: "this agent runs no subagents".to_owned(),
                    tool_calls: 0,
                },
            };
            let mut record = life.record.borrow().clone();
            let (steps, tokens) = (record.steps, record.tokens);
            if let TurnEnd::Done(result) = &mut end {
                transcript = std::mem::take(&mut result.transcript);
            }
            record.after(end, self.clock.now());
            life.caller
                .spent
                .add(record.steps - steps, record.tokens - tokens);
            if record.is_over() {
                return self.end(life, record).await;
            }
            self.stored(vec![self.entry(&life.caller.root, &record)]).await;
            life.record.send_replace(record);
            let next = tokio::select! {
                biased;
                () = life.cancel.cancelled() => None,
                next = tokio::time::timeout(WARM, life.messages.recv()) => next.ok().flatten(),
            };
            let mut record = life.record.borrow().clone();
            let Some(next) = next else {
                let status = if life.cancel.is_cancelled() {
                    Status::Cancelled
                } else {
                    Status::Completed
                };
                record.end(status, self.clock.now());
                return self.end(life, record).await;
            };
            record.state = State::Running;
            life.record.send_replace(record);
            text = next;
            run_id = self.ids.next();
        }
    }

    /// Stores how it ended, takes it from the living, and tells whoever waits: in this order, so that it is found always.
    async fn end(&self, life: Life, record: Record) {
        tracing::info!(
            event = "subagent.result",
            run.id = life.caller.run_id,
            subagent = life.handle,
            status = record.status(),
            reason = record.reason,
        );
        let unmark = Write::DropEntry {
            kind: EntryKind::Subagent,
            scope: LIVE.to_owned(),
            key: life.handle.clone(),
        };
        self.stored(vec![self.entry(&life.caller.root, &record), unmark])
            .await;
        let status = match record.state {
            State::Ended(Status::Completed) => ItemStatus::Done,
            _ => ItemStatus::Blocked,
        };
        self.follow_plan(&life.caller.conversation, &life.handle, status)
            .await;
        lock(&self.subagents.ledger).release(&life.handle);
        lock(&self.subagents.live).remove(&life.handle);
        life.record.send_replace(record);
    }

    /// Stores until it is stored, or the process ends: what is not stored then is found by the next.
    async fn stored(&self, batch: Vec<Write>) {
        while let Err(error) = self.store.write(batch.clone()).await {
            tracing::error!(event = "store.put.fail", err = %error);
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                () = self.subagents.closed.cancelled() => return,
            }
        }
    }

    /// `subagent.send`.
    pub(super) async fn send_subagent(self: &Arc<Self>, caller: &Caller, send: SubagentSend) -> Reply {
        let (mut following, messages) = {
            let live = lock(&self.subagents.live);
            let Some(one) = live.get(&send.handle).filter(|one| one.is_of(caller)) else {
                drop(live);
                return self.refused(caller, unknown());
            };
            (one.record.subscribe(), one.messages.clone())
        };
        let state = following.borrow_and_update().state;
        if following.borrow().mode != Mode::Warm || state != State::Waiting {
            return self.refused(caller, "the subagent does not wait for a message".to_owned());
        }
        if messages.send(send.message).await.is_err() {
            return self.refused(caller, unknown());
        }
        // It runs first, and then has an answer.
        let _ = following.wait_for(|record| record.state != State::Waiting).await;
        Reply::Done(self.settled(&mut following).await)
    }

    /// `subagent.kill`.
    pub(super) async fn kill_subagent(&self, caller: &Caller, kill: SubagentKill) -> Reply {
        let following = {
            let live = lock(&self.subagents.live);
            let one = live.get(&kill.handle).filter(|one| one.is_of(caller));
            one.map(|one| {
                one.cancel.cancel();
                one.record.subscribe()
            })
        };
        tracing::info!(
            event = "subagent.kill",
            run.id = caller.run_id,
            subagent = kill.handle,
            reason = kill.reason
        );
        match following {
            Some(mut following) => Reply::Done(over(&mut following).await),
            None => self.status_of(caller, &kill.handle).await,
        }
    }

    /// `subagent.status`.
    pub(super) async fn status_of(&self, caller: &Caller, handle: &str) -> Reply {
        match self.known(caller, handle).await {
            Ok(Some(record)) => Reply::Done(record.told()),
            Ok(None) => self.refused(caller, unknown()),
            Err(error) => Reply::Refused(error.to_string()),
        }
    }

    /// A subagent's completion, as a resource.
    pub(super) async fn read_subagent(&self, caller: &Caller, uri: &str) -> Reply {
        let handle = uri.strip_prefix(RESOURCES).unwrap_or_default();
        match self.known(caller, handle).await {
            Ok(Some(record)) => Reply::Done(record.read().into()),
            Ok(None) => Reply::Refused("there is no such resource".to_owned()),
            Err(error) => Reply::Refused(error.to_string()),
        }
    }

    /// `subagent.list`.
    pub(super) async fn list_subagents(&self, caller: &Caller) -> Reply {
        let query = EntryQuery {
            kind: EntryKind::Subagent,
            scope: caller.root.clone(),
            prefix: String::new(),
            after: None,
            limit: PAGE,
        };
        let page = match self.store.entries(query, self.clock.now()).await {
            Ok(page) => page,
            Err(error) => return Reply::Refused(error.to_string()),
        };
        let records = page
            .entries
            .into_iter()
            .filter_map(|entry| serde_json::from_value(entry.value).ok());
        let own = records.filter(|record: &Record| record.parent == caller.conversation);
        // Of one that lives more is known than what is stored.
        let now = own.map(|record| self.living(caller, &record.handle).unwrap_or(record));
        Reply::Done(json!({"subagents": now.map(|record| record.told()).collect::<Vec<_>>()}))
    }

    /// `subagent.await`, and `await` on handles: until one of them has ended or waits for a message.
    pub(super) async fn await_subagents(
        &self,
        caller: &Caller,
        wait: Await,
    ) -> Result<Option<Value>, String> {
        if wait.condition.is_some() {
            return Err(
                "conditions are not evaluated here; name the subagents to wait for with on".to_owned(),
            );
        }
        if wait.on.is_empty() {
            return Err("name what to wait for with on".to_owned());
        }
        let mut following = Vec::new();
        for handle in &wait.on {
            let live = {
                let live = lock(&self.subagents.live);
                live.get(handle)
                    .filter(|one| one.is_of(caller))
                    .map(|one| one.record.subscribe())
            };
            match live {
                Some(receiver) => following.push(receiver),
                None => match self.known(caller, handle).await {
                    Ok(Some(record)) => return Ok(Some(record.told())),
                    Ok(None) => return Err(unknown()),
                    Err(error) => return Err(error.to_string()),
                },
            }
        }
        let any = following
            .iter_mut()
            .map(|receiver| Box::pin(self.settled(receiver)));
        let first = futures::future::select_all(any);
        Ok(match wait.timeout {
            None => Some(first.await.0),
            Some(timeout) => tokio::time::timeout(timeout.0, first)
                .await
                .ok()
                .map(|(told, ..)| told),
        })
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

    /// Whether a conversation has subagents whose completion can be read.
    pub(super) async fn has_completions(&self, root: &str) -> bool {
        let query = EntryQuery {
            kind: EntryKind::Subagent,
            scope: root.to_owned(),
            prefix: String::new(),
            after: None,
            limit: 1,
        };
        let page = self.store.entries(query, self.clock.now()).await;
        page.is_ok_and(|page| !page.entries.is_empty())
    }

    /// What the process before this one left in the middle has failed.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn restore_subagents(&self) -> Result<(), StoreError> {
        let mut failed = 0_u32;
        loop {
            let query = EntryQuery {
                kind: EntryKind::Subagent,
                scope: LIVE.to_owned(),
                prefix: String::new(),
                after: None,
                limit: PAGE,
            };
            let now = self.clock.now();
            let page = self.store.entries(query, now).await?;
            if page.entries.is_empty() {
                break;
            }
            for mark in page.entries {
                let mut batch = vec![Write::DropEntry {
                    kind: EntryKind::Subagent,
                    scope: LIVE.to_owned(),
                    key: mark.key.clone(),
                }];
                let root = mark.value.as_str().unwrap_or_default();
                let entry = self
                    .store
                    .entry(EntryKind::Subagent, root, &mark.key, now)
                    .await?;
                if let Some(record) =
                    entry.and_then(|entry| serde_json::from_value::<Record>(entry.value).ok())
                {
                    failed += 1;
                    batch.push(self.entry(root, &record.restarted(now)));
                }
                self.store.write(batch).await?;
            }
        }
        if failed > 0 {
            tracing::info!(event = "restore.subagents", failed);
        }
        Ok(())
    }

    /// Ends all, and returns when they have.
    pub async fn close_subagents(&self) {
        self.subagents.closed.cancel();
        self.subagents.running.close();
        self.subagents.running.wait().await;
    }

    /// How many live.
    pub fn live_subagents(&self) -> usize {
        lock(&self.subagents.ledger).live()
    }

    /// What it is given: of what its caller holds, within what its caller has left.
    fn charge(&self, caller: &Caller, document: &Document, asked: &SubagentRun) -> Result<Charge, String> {
        if self.subagents.closed.is_cancelled() {
            return Err("the agent is about to stop".to_owned());
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
            tracing::info!(
                target: AUDIT, event = "audit", action = "trifecta.allowed", instance = self.instance,
                run.id = caller.run_id, untrusted_input = three.untrusted_input, sensitive = three.sensitive,
                egress = three.egress,
            );
        }
        let limits = caller.left(asked.limits.unwrap_or_default(), asked.mode, &document.limits.run)?;
        Ok(Charge {
            role: ROLE.to_owned(),
            root: caller.root.clone(),
            depth: caller.depth + 1,
            held,
            limits,
            output_schema: asked.output_schema.clone(),
        })
    }

    async fn known(&self, caller: &Caller, handle: &str) -> Result<Option<Record>, StoreError> {
        if let Some(record) = self.living(caller, handle) {
            return Ok(Some(record));
        }
        let entry = self
            .store
            .entry(EntryKind::Subagent, &caller.root, handle, self.clock.now())
            .await?;
        let record = entry.and_then(|entry| serde_json::from_value::<Record>(entry.value).ok());
        Ok(record.filter(|record| record.parent == caller.conversation))
    }

    fn living(&self, caller: &Caller, handle: &str) -> Option<Record> {
        let live = lock(&self.subagents.live);
        let one = live.get(handle).filter(|one| one.is_of(caller))?;
        let record = one.record.borrow().clone();
        Some(record)
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
        tracing::warn!(event = "tool.refused", run.id = caller.run_id, "{why}");
        Reply::Refused(why)
    }

    fn entry(&self, root: &str, record: &Record) -> Write {
        Write::Entry(Entry {
            kind: EntryKind::Subagent,
            scope: root.to_owned(),
            key: record.handle.clone(),
            value: serde_json::to_value(record).unwrap_or_default(),
            expires_at: None,
            updated_at: self.clock.now(),
        })
    }
}

impl Live {
    /// Whether this caller began it, in whichever turn.
    fn is_of(&self, caller: &Caller) -> bool {
        self.root == caller.root && self.record.borrow().parent == caller.conversation
    }
}

/// A place among the living that is given back when nothing takes it.
struct Place {
    office: Arc<Office>,
    handle: String,
    lives: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.lives {
            lock(&self.office.subagents.ledger).release(&self.handle);
        }
    }
}

async fn over(following: &mut watch::Receiver<Record>) -> Value {
    let _ = following.wait_for(Record::is_over).await;
    following.borrow().told()
}

/// The mark of one that lives: where its record is.
fn mark(root: &str, record: &Record) -> Write {
    Write::Entry(Entry {
        kind: EntryKind::Subagent,
        scope: LIVE.to_owned(),
        key: record.handle.clone(),
        value: root.into(),
        expires_at: None,
        updated_at: record.began_at,
    })
}

/// The conversation of a subagent, which nobody else can name: its worker and its plan go by it.
fn conversation_of(root: &str, handle: &str) -> String {
    format!("{root} {handle}")
}

fn unknown() -> String {
    "there is no subagent of yours with this handle".to_owned()
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
    }
}

/// The task as a subagent reads it.
fn task(asked: &SubagentRun) -> String {
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
    parts.join("\n\n")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
