//! The life of a subagent: one turn after the other in a worker of its own, until it is over, and how that is kept.
//! Guarantees: whatever becomes of it, a fault of ours included, it ends once: in the store, in the ledger, and for
//! whoever waits for it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use agentd_agent::Status;
use agentd_agent::request::ItemStatus;
use agentd_base::text::{CONTENT, content};
use agentd_state::{StoreError, Write};
use futures::FutureExt as _;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::kept::conversation_of;
use super::record::{Record, State};
use super::{Live, Message, Place, lock};
use crate::origin::Origin;
use crate::supervisor::office::{Caller, Office};
use crate::supervisor::refusals::{Refusals, of_record};
use crate::supervisor::turns::{Charge, TurnEnd, TurnInput};

/// A warm one that nobody speaks to for so long has ended.
const WARM: Duration = Duration::from_secs(3600);
/// Messages to a warm one that wait: what it does not wait for is refused.
const MESSAGES: usize = 1;

/// What a live one is run with.
struct Life {
    caller: Arc<Caller>,
    handle: String,
    /// Whose its turns are, and what the next is part of.
    origin: Origin,
    charge: Charge,
    record: watch::Sender<Record>,
    cancel: CancellationToken,
    messages: mpsc::Receiver<Message>,
    place: Place,
}

/// How a life ended, and whoever sent what it was about.
struct Ended {
    record: Record,
    answer: Option<oneshot::Sender<Value>>,
}

impl Office {
    /// Stores it, puts it among the living, and lets it live: all of it, or with an error nothing. Not async: a turn is
    /// run by a turn here, and who asked for it may go at any moment.
    pub(super) fn begin(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        place: Place,
        record: Record,
        charge: Charge,
        text: String,
    ) -> oneshot::Receiver<Result<watch::Receiver<Record>, StoreError>> {
        let (begun, beginning) = oneshot::channel();
        let (messages, inbox) = mpsc::channel(MESSAGES);
        let cancel = self.subagents.closed.child_token();
        let first = self.first_record(&caller.root, &record);
        let handle = record.handle.clone();
        let (record, following) = watch::channel(record);
        let live = Live {
            root: caller.root.clone(),
            run_id: caller.run_id.clone(),
            origin: caller.origin.clone(),
            record: record.clone(),
            cancel: cancel.clone(),
            messages: Some(messages),
            limits: charge.limits,
        };
        let life = Life {
            caller: caller.clone(),
            origin: caller.subagent(&handle),
            handle,
            charge,
            record,
            cancel,
            messages: inbox,
            place,
        };
        let office = self.clone();
        let lifelong = async move {
            if let Err(error) = office.store.write(first).await {
                let _ = begun.send(Err(error));
                return;
            }
            lock(&office.subagents.live).insert(life.handle.clone(), live);
            if let Some(runner) = office.runner.upgrade() {
                runner.metrics.subagent_begins();
            }
            if begun.send(Ok(following)).is_ok() {
                return office.spend(life, text).await;
            }
            // Nobody will ever know of it.
            let mut record = life.record.borrow().clone();
            record.end(Status::Cancelled, office.clock.now());
            office.end(life, record).await;
        };
        let span = caller.origin.span(&caller.run_id);
        self.subagents.running.spawn(lifelong.instrument(span));
        beginning
    }

    /// Its whole life, and its end.
    async fn spend(self: Arc<Self>, mut life: Life, text: String) {
        let lived = AssertUnwindSafe(self.live(&mut life, text)).catch_unwind().await;
        let Ended { record, answer } = lived.unwrap_or_else(|_| {
            let reason = "the agent has a fault and could not go on; its log has the details";
            tracing::error!(
                event = "subagent.failed",
                run.id = life.caller.run_id,
                subagent = life.handle,
                err = reason
            );
            let mut record = life.record.borrow().clone();
            record.fail(reason.to_owned(), self.clock.now());
            Ended { record, answer: None }
        });
        let told = record.told();
        self.end(life, record).await;
        reply(answer, told);
    }

    /// One turn after the other, until it is over.
    async fn live(self: &Arc<Self>, life: &mut Life, mut text: String) -> Ended {
        let mut transcript = Value::Null;
        let mut answer: Option<oneshot::Sender<Value>> = None;
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
                        resumed: None,
                        used: Default::default(),
                        charge: Some(life.charge.clone()),
                        origin: life.origin.clone(),
                        listener: None,
                    };
                    runner.run(input, &life.cancel).await
                }
                None => TurnEnd::Broken {
                    reason: "this agent runs no subagents".to_owned(),
                    began: false,
                    tool_calls: 0,
                },
            };
            let mut record = life.record.borrow().clone();
            match (&mut end, life.charge.confine.limits()) {
                (TurnEnd::Done(result), _) => transcript = std::mem::take(&mut result.transcript),
                (TurnEnd::Broken { reason, .. }, Some(limits)) => {
                    reason.push_str(&format!("; its process had limits of its own ({limits})"));
                }
                (TurnEnd::Broken { .. }, None) => {}
            }
            record.after(end, self.clock.now());
            if record.is_over() {
                return Ended { record, answer };
            }
            let told = record.told();
            self.stored(vec![self.entry(&life.caller.root, &record)]).await;
            life.record.send_replace(record);
            self.waits(life, Some(Instant::now()));
            reply(answer.take(), told);
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
                return Ended { record, answer: None };
            };
            self.waits(life, None);
            record.state = State::Running;
            life.record.send_replace(record);
            text = next.text;
            answer = Some(next.answer);
            life.charge.limits = next.limits;
            life.charge.above = Some(next.above);
            life.origin.parent = Some(next.trace);
            run_id = self.ids.next();
        }
    }

    fn waits(&self, life: &Life, since: Option<Instant>) {
        lock(&self.subagents.ledger).waits(&life.handle, since);
    }

    /// Stores how it ended, takes it from the living, and tells whoever waits: in this order, so that it is found always.
    async fn end(&self, life: Life, record: Record) {
        tracing::info!(
            event = "subagent.result",
            run.id = life.caller.run_id,
            subagent = life.handle,
            status = record.status(),
        );
        tracing::info!(
            target: CONTENT,
            event = "content.subagent",
            run.id = life.caller.run_id,
            subagent = life.handle,
            reason = record.reason.as_deref().map(content),
        );
        let own = conversation_of(&life.caller.root, &life.handle);
        if let Some(runner) = self.runner.upgrade() {
            runner.metrics.subagent_ends();
            runner.pool.let_go(&own);
        }
        self.stored(self.last_record(&life.caller.root, &record)).await;
        self.forget_oldest(&life.caller.root).await;
        let status = match record.state {
            State::Ended(Status::Completed) => ItemStatus::Done,
            _ => ItemStatus::Blocked,
        };
        self.follow_plan(&life.caller, &life.handle, status).await;
        drop(life.place);
        life.record.send_replace(record);
    }

    /// Stores until it is stored, or never will be, or the process ends: what is not stored then is found by the next.
    pub(super) async fn stored(&self, batch: Vec<Write>) {
        let mut refusals = Refusals::default();
        while let Err(error) = self.store.write(batch.clone()).await {
            tracing::error!(event = "store.put.fail", err = %error);
            let error = of_record(&*self.store, error).await;
            let Some(pause) = refusals.pause(&error) else {
                return;
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.subagents.closed.cancelled() => return,
            }
        }
    }
}

/// Answers the message that a turn was about, if it was about one. Who sent it may have gone.
fn reply(answer: Option<oneshot::Sender<Value>>, told: Value) {
    if let Some(answer) = answer {
        let _ = answer.send(told);
    }
}
