//! The life of a subagent: one turn after the other in a worker of its own, until it is over, and how that is kept.

use std::sync::Arc;
use std::time::Duration;

use agentd_agent::Status;
use agentd_agent::request::ItemStatus;
use agentd_base::text::{CONTENT, content};
use agentd_state::{EntryKind, Write};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::record::{Record, State};
use super::{LIVE, Live, Message, Place, lock};
use crate::supervisor::office::{Caller, Office};
use crate::supervisor::turns::{Charge, TurnEnd, TurnInput};

/// A warm one that nobody speaks to for so long has ended.
const WARM: Duration = Duration::from_secs(3600);
/// Messages to a warm one that wait: what it does not wait for is refused.
const MESSAGES: usize = 1;
/// Before an end that could not be stored is stored again.
const AGAIN: Duration = Duration::from_secs(1);

/// What a live one is run with.
struct Life {
    caller: Arc<Caller>,
    handle: String,
    charge: Charge,
    record: watch::Sender<Record>,
    cancel: CancellationToken,
    messages: mpsc::Receiver<Message>,
}

impl Office {
    /// Puts it among the living, and lets it live. Not async: a turn is run by a turn here.
    pub(super) fn begin(
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
            limits: charge.limits,
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
            if let TurnEnd::Done(result) = &mut end {
                transcript = std::mem::take(&mut result.transcript);
            }
            record.after(end, self.clock.now());
            let told = record.told();
            if record.is_over() {
                self.end(life, record).await;
                return reply(answer, told);
            }
            self.stored(vec![self.entry(&life.caller.root, &record)]).await;
            life.record.send_replace(record);
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
                return self.end(life, record).await;
            };
            record.state = State::Running;
            life.record.send_replace(record);
            text = next.text;
            answer = Some(next.answer);
            life.charge.limits = next.limits;
            life.charge.above = Some(next.above);
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
        );
        tracing::info!(
            target: CONTENT,
            event = "content.subagent",
            run.id = life.caller.run_id,
            subagent = life.handle,
            reason = record.reason.as_deref().map(content),
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
}

/// Answers the message that a turn was about, if it was about one. Who sent it may have gone.
fn reply(answer: Option<oneshot::Sender<Value>>, told: Value) {
    if let Some(answer) = answer {
        let _ = answer.send(told);
    }
}

/// The conversation of a subagent, which nobody else can name: its worker and its plan go by it.
fn conversation_of(root: &str, handle: &str) -> String {
    format!("{root} {handle}")
}
