//! What a turn asks of the subagents that it has: how they are, to go on, to end, to be waited for. A turn knows those of
//! its own conversation, or of the subagent that it is of, and no others.

use std::sync::Arc;

use agentd_agent::Reply;
use agentd_agent::request::{Await, Mode, SubagentKill, SubagentSend};
use agentd_base::text::{CONTENT, content};
use agentd_state::{EntryKind, StoreError};
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::kept::read;
use super::record::{RESOURCES, Record, State};
use super::{Message, lock};
use crate::supervisor::office::{Caller, Office};
use crate::supervisor::settings::current;

impl Office {
    /// `subagent.send`.
    pub(in crate::supervisor) async fn send_subagent(
        self: &Arc<Self>,
        caller: &Caller,
        send: SubagentSend,
    ) -> Reply {
        let (messages, own) = {
            let live = lock(&self.subagents.live);
            let Some(one) = live.get(&send.handle).filter(|one| one.is_of(caller)) else {
                drop(live);
                return self.refused(caller, unknown());
            };
            let record = one.record.borrow();
            let waits = record.mode == Mode::Warm && record.state == State::Waiting;
            (one.messages.clone().filter(|_| waits), one.limits)
        };
        let settings = current(&self.settings);
        let run = &settings.document.limits.run;
        let limits = match caller.left(own.into(), Mode::Warm, run) {
            Ok(limits) => limits,
            Err(why) => return self.refused(caller, why),
        };
        let above = caller.spent.clone();
        let (answer, answered) = oneshot::channel();
        let message = Message {
            text: send.message,
            limits,
            above,
            trace: caller.trace(),
            answer,
        };
        // Another may be on its way to it, which is seen only here.
        if messages.is_none_or(|messages| messages.try_send(message).is_err()) {
            return self.refused(caller, "the subagent does not wait for a message".to_owned());
        }
        match answered.await {
            Ok(told) => Reply::Done(told),
            Err(_) => self.refused(caller, "the subagent ended before it got the message".to_owned()),
        }
    }

    /// `subagent.retire`: a warm one that waits has ended when this returns, one that runs ends after that.
    pub(in crate::supervisor) async fn retire_subagent(&self, caller: &Caller, handle: &str) -> Reply {
        let following = match self.let_retire(caller, handle) {
            Ok(following) => following,
            Err(why) => return self.refused(caller, why),
        };
        match following {
            Some(mut following) => Reply::Done(over(&mut following).await),
            None => self.status_of(caller, handle).await,
        }
    }

    /// The warm one takes no more messages; to be followed where it has nothing left to do.
    fn let_retire(&self, caller: &Caller, handle: &str) -> Result<Option<watch::Receiver<Record>>, String> {
        let mut live = lock(&self.subagents.live);
        let Some(one) = live.get_mut(handle).filter(|one| one.is_of(caller)) else {
            return Ok(None);
        };
        let (mode, state) = {
            let record = one.record.borrow();
            (record.mode, record.state)
        };
        if mode != Mode::Warm {
            return Err("only a warm subagent is retired; kill this one, or wait for it".to_owned());
        }
        one.messages = None;
        Ok((state == State::Waiting).then(|| one.record.subscribe()))
    }

    /// `subagent.kill`.
    pub(in crate::supervisor) async fn kill_subagent(&self, caller: &Caller, kill: SubagentKill) -> Reply {
        let following = {
            let live = lock(&self.subagents.live);
            let one = live.get(&kill.handle).filter(|one| one.is_of(caller));
            one.map(|one| {
                one.cancel.cancel();
                one.record.subscribe()
            })
        };
        // Why, and a handle that is none of ours, are the model's words.
        tracing::info!(
            target: CONTENT,
            event = "content.kill",
            run.id = caller.run_id,
            handle = content(&kill.handle),
            reason = kill.reason.as_deref().map(content)
        );
        match following {
            Some(mut following) => {
                tracing::info!(
                    event = "subagent.kill",
                    run.id = caller.run_id,
                    subagent = kill.handle
                );
                Reply::Done(over(&mut following).await)
            }
            None => self.status_of(caller, &kill.handle).await,
        }
    }

    /// `subagent.status`.
    pub(in crate::supervisor) async fn status_of(&self, caller: &Caller, handle: &str) -> Reply {
        match self.known(caller, handle).await {
            Ok(Some(record)) => Reply::Done(record.told()),
            Ok(None) => self.refused(caller, unknown()),
            Err(error) => Reply::Refused(error.to_string()),
        }
    }

    /// A subagent's completion, as a resource.
    pub(in crate::supervisor) async fn read_subagent(&self, caller: &Caller, uri: &str) -> Reply {
        let handle = uri.strip_prefix(RESOURCES).unwrap_or_default();
        match self.known(caller, handle).await {
            Ok(Some(record)) => Reply::Done(record.read().into()),
            Ok(None) => Reply::Refused("there is no such resource".to_owned()),
            Err(error) => Reply::Refused(error.to_string()),
        }
    }

    /// `subagent.list`.
    pub(in crate::supervisor) async fn list_subagents(&self, caller: &Caller) -> Reply {
        let records = match self.records(&caller.root).await {
            Ok(records) => records.into_iter(),
            Err(error) => return Reply::Refused(error.to_string()),
        };
        let own = records.filter(|record| record.parent == caller.conversation);
        // Of one that lives more is known than what is stored.
        let now = own.map(|record| self.living(caller, &record.handle).unwrap_or(record));
        Reply::Done(json!({"subagents": now.map(|record| record.told()).collect::<Vec<_>>()}))
    }

    /// `subagent.await`, and `await` on handles: until one of them has ended or waits for a message.
    pub(in crate::supervisor) async fn await_subagents(
        &self,
        caller: &Caller,
        wait: Await,
    ) -> Result<Option<Value>, String> {
        if wait.on.is_empty() {
            return Err("say what to wait for with condition or on".to_owned());
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

    async fn known(&self, caller: &Caller, handle: &str) -> Result<Option<Record>, StoreError> {
        if let Some(record) = self.living(caller, handle) {
            return Ok(Some(record));
        }
        let entry = self
            .store
            .entry(EntryKind::Subagent, &caller.root, handle, self.clock.now())
            .await?;
        let record = entry.as_ref().and_then(read);
        Ok(record.filter(|record| record.parent == caller.conversation))
    }

    /// The next change of each that lives now.
    pub(in crate::supervisor) fn changes_of(&self, caller: &Caller) -> Vec<BoxFuture<'static, ()>> {
        let live = lock(&self.subagents.live);
        let own = live.values().filter(|one| one.is_of(caller));
        let changes = own.map(|one| {
            let mut record = one.record.subscribe();
            let change = async move {
                // One that is gone has said before that it ended.
                if record.changed().await.is_err() {
                    std::future::pending().await
                }
            };
            change.boxed()
        });
        changes.collect()
    }

    fn living(&self, caller: &Caller, handle: &str) -> Option<Record> {
        let live = lock(&self.subagents.live);
        let one = live.get(handle).filter(|one| one.is_of(caller))?;
        let record = one.record.borrow().clone();
        Some(record)
    }
}

async fn over(following: &mut watch::Receiver<Record>) -> Value {
    let _ = following.wait_for(Record::is_over).await;
    following.borrow().told()
}

fn unknown() -> String {
    "there is no subagent of yours with this handle".to_owned()
}
