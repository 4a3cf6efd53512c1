//! Runs the tasks of one conversation, from the store's record to the store's record. A store that is away delays a
//! task and does not end it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use agentd_agent::Status;
use agentd_state::{Conversation, StoreError, Task, TaskState, Write};
use futures::FutureExt as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::asking::{Record, unasked};
use super::feed::{Feed, answer_id};
use super::gate::{Gate, drop_gate};
use super::{Durability, Tasks, lock};
use crate::origin::Origin;
use crate::supervisor::lanes::Entry;
use crate::supervisor::last_run::last_run;
use crate::supervisor::record::{canceled, cut_short, ended, failed, text_of};
use crate::supervisor::refusals::{FIRST_PAUSE, Refusals};
use crate::supervisor::turns::{TurnEnd, TurnInput, Used};

/// What a caller is told of a task that did not begin.
const STOPPED: &str = "the agent was stopped before it could answer; send the message again";

/// Why a record was not read.
enum Unread {
    /// The process is about to end.
    Closed,
    /// Nobody can.
    Corrupt(StoreError),
}

/// A task, its conversation, and the turn that it goes on with.
type Loaded = (Task, Option<Conversation>, Option<Gate>);

/// What came of a write.
pub(super) enum Persisted {
    Written,
    /// It was not, and now the process ends.
    Stopped,
    /// The store never takes it.
    Never(StoreError),
}

impl Tasks {
    /// Runs one task after the other until none of this conversation waits.
    pub(super) async fn run_lane(self: Arc<Self>, first: Entry) {
        let mut next = Some(first);
        while let Some(entry) = next {
            // A fault of ours ends this task and not its conversation, which would wait for ever.
            let feed = self.feed(&entry);
            let run = async {
                // A turn that waits for an answer is given up, and goes on when that is there.
                while self.goes_on(&entry, &feed).await && self.run_task(&entry, &feed).await {}
            };
            let run = AssertUnwindSafe(run).catch_unwind();
            if run.await.is_err() {
                let reason = "the agent has a fault and could not go on; its log has the details";
                tracing::error!(event = "turn.failed", run.id = entry.id, err = reason);
                // What it asked is taken back by nobody.
                drop(std::mem::take(&mut *feed.record.lock().await));
                self.fail_unfinished(&entry.id, reason).await;
            }
            lock(&self.followed).remove(&entry.id);
            next = lock(&self.lanes).next(&entry);
        }
    }

    /// Runs its turn; whether that was given up and the task waits for an answer.
    async fn run_task(&self, entry: &Entry, feed: &Arc<Feed>) -> bool {
        let slot = tokio::select! {
            biased;
            () = self.closed.cancelled() => None,
            slot = self.slots.take() => slot,
        };
        if slot.is_none() {
            self.leave_waiting(entry).await;
            return false;
        }
        // From here on it can no longer be cancelled as one that has not begun.
        let mut begun = feed.begun.lock().await;
        let (task, before, gate) = match self.load(entry).await {
            Ok(Some(loaded)) => loaded,
            // It has ended already.
            Ok(None) => return false,
            Err(Unread::Closed) => {
                self.leave_waiting(entry).await;
                return false;
            }
            Err(Unread::Corrupt(error)) => {
                tracing::error!(event = "restore.task.corrupt", run.id = entry.id, err = %error);
                let reason = format!("the turn did not begin: {error}");
                self.fail_unfinished(&entry.id, &reason).await;
                return false;
            }
        };
        let mut working = task;
        working.state = TaskState::Working;
        working.updated_at = self.clock.now();
        let mut batch = vec![Write::Task(working.clone())];
        batch.extend(gate.as_ref().map(|_| drop_gate(&working)));
        match self.persist(batch, &self.closed).await {
            Persisted::Written => {}
            Persisted::Stopped => {
                self.leave_waiting(entry).await;
                return false;
            }
            Persisted::Never(error) => {
                let reason = format!("the turn did not begin: {error}");
                self.fail_unfinished(&entry.id, &reason).await;
                return false;
            }
        }
        feed.publish(&working);
        *begun = true;
        drop(begun);
        let (text, owner, hops) = (text_of(&working), working.owner.clone(), working.hops);
        let origin = Origin::agent(&self.runner.instance, working.trace);
        let (transcript, began) = match before {
            Some(before) => (before.transcript, Some(before.created_at)),
            None => (Value::Null, None),
        };
        let (transcript, text, resumed, used) = match gate.map(Gate::resume) {
            None => (transcript, text, None, Used::default()),
            Some((so_far, resumed, used)) => (so_far, String::new(), Some(resumed), used),
        };
        // It may ask, and whoever answers writes the record too.
        *feed.record.lock().await = Record {
            task: Some(working),
            used,
            ..Record::default()
        };
        let input = TurnInput {
            run_id: entry.id.clone(),
            owner: owner.clone(),
            conversation: entry.conversation.clone(),
            transcript,
            text,
            resumed,
            used,
            hops,
            charge: None,
            origin,
            listener: Some(feed.clone()),
        };
        let began_at = self.clock.now();
        let end = self.runner.run(input, &feed.stop).await;
        let cancelled;
        let record = {
            let mut begun = feed.begun.lock().await;
            let mut record = feed.record.lock().await;
            cancelled = feed.cancelled.is_cancelled();
            if record.is_parked && !cancelled {
                *begun = false;
                return true;
            }
            // From here on nobody answers it.
            std::mem::take(&mut *record)
        };
        let last = last_run(&entry.id, hops, &end, began_at, self.clock.now());
        self.last_run.send_replace(Some(last));
        let Some(working) = record.task.map(unasked) else {
            return false;
        };
        let stopped = self.stop.is_cancelled() && !cancelled;
        match end {
            TurnEnd::Done(ref result) if stopped && result.status == Status::Cancelled => {
                self.leave(working, cut_short(&end)).await;
            }
            TurnEnd::Done(mut result) => {
                let now = self.clock.now();
                let transcript = std::mem::take(&mut result.transcript);
                let conversation = (!transcript.is_null()).then(|| Conversation {
                    id: entry.conversation.clone(),
                    owner,
                    created_at: began.unwrap_or(now),
                    transcript,
                });
                self.settle(ended(working, &result, answer_id(&entry.id), now), conversation)
                    .await;
            }
            TurnEnd::Broken { reason, .. } if cancelled => {
                let reason = format!("it was cancelled; {reason}");
                self.settle(canceled(working, reason, self.clock.now()), None)
                    .await;
            }
            TurnEnd::Broken { .. } if stopped => self.leave(working, cut_short(&end)).await,
            TurnEnd::Broken { reason, .. } => {
                self.settle(failed(working, reason, self.clock.now()), None).await;
            }
        }
        false
    }

    /// The task whose turn has come, its conversation, and the answer with which it goes on; `None` when it has ended
    /// already.
    async fn load(&self, entry: &Entry) -> Result<Option<Loaded>, Unread> {
        loop {
            let read = async {
                let task = self.store.task(&entry.id).await?;
                let Some(task) = task.filter(|task| !task.state.is_terminal()) else {
                    return Ok(None);
                };
                let conversation = self.store.conversation(&entry.conversation).await?;
                // Only a task that was answered has more to its history.
                let gate = match task.history.len() {
                    ..=1 => None,
                    _ => self.gate(&entry.conversation, &entry.id).await?,
                };
                Ok(Some((task, conversation, gate)))
            };
            match read.await {
                Ok(loaded) => return Ok(loaded),
                Err(error @ StoreError::Corrupt(_)) => return Err(Unread::Corrupt(error)),
                Err(error) => tracing::error!(event = "store.get.fail", run.id = entry.id, err = %error),
            }
            if !self.pause(FIRST_PAUSE, &self.closed).await {
                return Err(Unread::Closed);
            }
        }
    }

    /// The process ends before the task could begin: it waits for the next start if the store will be there.
    pub(super) async fn leave_waiting(&self, entry: &Entry) {
        if self.durability == Durability::Volatile {
            self.fail_unfinished(&entry.id, STOPPED).await;
        }
    }

    /// The process ends before the task could: it waits for the next start if nothing of it was done and the store
    /// will be there, else it has failed.
    async fn leave(&self, mut task: Task, done: Option<String>) {
        // What it did before it was answered is known to nobody any more.
        let is_answered = task.history.len() > 1;
        let done = done.or_else(|| {
            is_answered.then(|| {
                "the agent was stopped after it was answered; tools may have been called before".to_owned()
            })
        });
        if self.durability == Durability::Durable && done.is_none() {
            task.state = TaskState::Submitted;
            task.updated_at = self.clock.now();
            return self.settle(task, None).await;
        }
        let reason = done.unwrap_or_else(|| STOPPED.to_owned());
        self.settle(failed(task, reason, self.clock.now()), None).await;
    }

    /// Fails a task of which only the id is at hand.
    pub(super) async fn fail_unfinished(&self, id: &str, reason: &str) {
        match self.store.task(id).await {
            Ok(Some(task)) if !task.state.is_terminal() => {
                self.settle(failed(unasked(task), reason.to_owned(), self.clock.now()), None)
                    .await;
            }
            Ok(_) => {}
            Err(error) => tracing::error!(event = "store.get.fail", run.id = id, err = %error),
        }
    }

    /// Stores where a task stands after its turn, together with the transcript, and tells whoever follows it. Until it
    /// is stored the turn has not ended.
    pub(super) async fn settle(&self, task: Task, conversation: Option<Conversation>) {
        let id = task.id.clone();
        let is_told = conversation.is_some();
        let mut batch: Vec<Write> = conversation.into_iter().map(Write::Conversation).collect();
        if task.history.len() > 1 && task.state.is_terminal() {
            batch.push(drop_gate(&task));
        }
        batch.push(Write::Task(task.clone()));
        let mut error = match self.persist(batch, &self.stop).await {
            Persisted::Written => return self.publish(&task),
            Persisted::Stopped => return,
            Persisted::Never(error) => error,
        };
        // The store never takes it: the task ends with as much as it takes, and the conversation goes on without.
        let shorter: &[fn(Task, &StoreError) -> Task] = &[unremembered, unkept];
        for shorten in shorter.iter().skip(usize::from(!is_told)) {
            tracing::error!(event = "store.put.fail", run.id = id, err = %error);
            let less = shorten(task.clone(), &error);
            error = match self.persist(vec![Write::Task(less.clone())], &self.stop).await {
                Persisted::Written => return self.publish(&less),
                Persisted::Stopped => return,
                Persisted::Never(error) => error,
            };
        }
        tracing::error!(event = "store.put.fail", run.id = id, err = %error);
    }

    /// Stores the end of a task that an earlier process was in the middle of: now, or when the store can be written again.
    /// What is in it can be read meanwhile, and whoever waits for the task waits on.
    pub(super) async fn settle_lost(self: &Arc<Self>, task: Task, entry: &Entry) -> Result<(), StoreError> {
        match self.store.write(vec![Write::Task(task.clone())]).await {
            Err(StoreError::Unavailable(_)) => {}
            written => return written,
        }
        let feed = self.feed(entry);
        // It cannot be cancelled as one that has not begun.
        *feed.begun.lock().await = true;
        let tasks = self.clone();
        self.running.spawn(async move {
            match tasks
                .persist(vec![Write::Task(task.clone())], &tasks.closed)
                .await
            {
                Persisted::Written => tasks.publish(&task),
                // It is found by the next process.
                Persisted::Stopped => {}
                Persisted::Never(error) => {
                    tracing::error!(event = "store.put.fail", run.id = task.id, err = %error);
                }
            }
            lock(&tasks.followed).remove(&task.id);
        });
        Ok(())
    }

    /// Writes until it is written, or never will be, or `until` came.
    pub(super) async fn persist(&self, batch: Vec<Write>, until: &CancellationToken) -> Persisted {
        let mut refusals = Refusals::default();
        loop {
            // The store has logged why.
            let Err(error) = self.store.write(batch.clone()).await else {
                return Persisted::Written;
            };
            let Some(pause) = refusals.pause(&error) else {
                return Persisted::Never(error);
            };
            if !self.pause(pause, until).await {
                return Persisted::Stopped;
            }
        }
    }

    /// Waits so long, and then until the store can be written; false when `until` came first.
    async fn pause(&self, pause: Duration, until: &CancellationToken) -> bool {
        let pause = async {
            tokio::time::sleep(pause).await;
            self.store.works().await;
        };
        tokio::select! {
            () = pause => true,
            () = until.cancelled() => false,
        }
    }

    fn publish(&self, task: &Task) {
        let feed = lock(&self.followed).get(&task.id).cloned();
        if let Some(feed) = feed {
            feed.publish(task);
        }
    }
}

/// The task with its answer, and without its conversation.
fn unremembered(mut task: Task, error: &StoreError) -> Task {
    task.status_message = Some(format!(
        "what was said in this turn will not be remembered: {error}"
    ));
    task
}

/// The task without what came of it: nothing else of it was taken.
fn unkept(mut task: Task, error: &StoreError) -> Task {
    task.artifacts.clear();
    task.state = TaskState::Failed;
    task.status_message = Some(format!("what came of this turn could not be stored: {error}"));
    task
}
