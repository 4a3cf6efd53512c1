//! The agent behind the A2A listener: messages become tasks, tasks become turns. Guarantees: a message is stored
//! before it is acknowledged; the same message of the same principal leads to the same task; one conversation runs
//! in order, conversations side by side; a transcript and its task's end are stored in one transaction; no task stays
//! `working` after a restart. What waits is in the store and not in memory.

mod answering;
mod asking;
mod cancel;
mod commands;
mod feed;
mod gate;
mod health;
mod lane;
mod push;
mod service;
mod slots;
mod waits;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentd_a2a::push::Sender;
use agentd_a2a::{Away, Caller, SendMessage, ServiceError, wire};
use agentd_base::clock::SharedClock;
use agentd_base::id::SharedIds;
use agentd_base::readiness::Readiness;
use agentd_base::report::LastRun;
use agentd_base::trace::TraceContext;
use agentd_state::store::size;
use agentd_state::{OpenTask, Store, StoreError, Task, TaskState, Write, conversation_key};
use tokio::sync::{OnceCell, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::asking::Callers;
use self::feed::Feed;
use self::health::Watched;
use self::push::Push;
pub use self::service::A2aService;
use self::slots::Slots;
pub(super) use self::waits::Waiting;
use self::waits::Waits;
use super::lanes::{Entry, Lanes};
use super::record::{answer_of, failed, submitted};
use super::turns::TurnRunner;
use crate::origin::Origin;
use crate::report::settled;

#[cfg(test)]
mod tests;

/// What becomes of work that is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The store outlives the process: what has not begun waits for the next start.
    Durable,
    /// It does not: what has not begun fails.
    Volatile,
}

/// The tasks of this agent.
pub struct Tasks {
    store: Watched,
    durability: Durability,
    runner: Arc<TurnRunner>,
    ids: SharedIds,
    clock: SharedClock,
    lanes: Mutex<Lanes>,
    /// What happens to each open task, for those who follow it or wait for its end.
    followed: Mutex<HashMap<String, Arc<Feed>>>,
    /// The turn that ended last.
    last_run: watch::Sender<Option<LastRun>>,
    slots: Slots,
    /// The servers were tried once.
    tried: OnceCell<()>,
    /// Turns that hold a slot and wait for another turn, which needs one.
    waits: Waits,
    running: TaskTracker,
    /// Who is to hear of tasks.
    push: std::sync::OnceLock<Arc<Push>>,
    /// No new messages, no new turns.
    closed: CancellationToken,
    /// The turns that run are to end.
    stop: CancellationToken,
}

impl Tasks {
    /// Nothing runs yet. While the store cannot be written, `readiness` is blocked.
    pub fn new(
        store: Arc<dyn Store>,
        durability: Durability,
        runner: Arc<TurnRunner>,
        ids: SharedIds,
        clock: SharedClock,
        readiness: Readiness,
    ) -> Arc<Self> {
        Arc::new(Self {
            store: Watched::new(store, readiness),
            durability,
            slots: Slots::new(runner.settings.clone()),
            tried: OnceCell::new(),
            waits: Waits::default(),
            runner,
            ids,
            clock,
            lanes: Mutex::default(),
            followed: Mutex::default(),
            last_run: watch::Sender::new(None),
            running: TaskTracker::new(),
            push: std::sync::OnceLock::new(),
            closed: CancellationToken::new(),
            stop: CancellationToken::new(),
        })
    }

    /// The turn that ended last; none yet.
    pub fn last_run(&self) -> watch::Receiver<Option<LastRun>> {
        self.last_run.subscribe()
    }

    /// Lets callers be told of their tasks, those of the process before among them. Before [`Self::restore`], so that they
    /// hear of that too.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn tell_callers(&self, sender: Sender) -> Result<(), StoreError> {
        let push = Push::load(
            self.store.clone(),
            sender,
            self.clock.clone(),
            self.runner.metrics.clone(),
        )
        .await?;
        self.store.tell(&push);
        let _ = self.push.set(push);
        Ok(())
    }

    /// Takes up what the process before left open: what had not begun begins, what was in the middle has failed,
    /// since nobody knows which of its tool calls were carried out. One record after the other is read.
    ///
    /// # Errors
    /// When the store cannot be read. One that takes nothing now, as on a full disk, is written when it does.
    pub async fn restore(self: &Arc<Self>) -> Result<(), StoreError> {
        let (mut resumed, mut lost) = (0_u32, 0_u32);
        for open in self.store.open_tasks().await? {
            if open.state == TaskState::Submitted || open.state.is_interrupted() {
                resumed += 1;
                let state = open.state;
                let entry = entry(open);
                let feed = self.feed(&entry);
                feed.stands(state);
                if state.is_interrupted() {
                    // Whoever has the answer may come at once.
                    self.taken_up(&entry, &feed).await;
                }
                self.admit(entry);
                continue;
            }
            match self.store.task(&open.id).await {
                Ok(Some(task)) if !task.state.is_terminal() => {
                    lost += 1;
                    let reason = "the agent was restarted while it worked on this message; tools may have been \
                                  called already; send the message again if the work is to be repeated";
                    let task = failed(task, reason.to_owned(), self.clock.now());
                    self.settle_lost(task, &entry(open)).await?;
                }
                Ok(_) => {}
                // One bad record does not keep the agent from the others.
                Err(error @ StoreError::Corrupt(_)) => {
                    tracing::error!(event = "restore.task.corrupt", run.id = open.id, err = %error);
                }
                Err(error) => return Err(error),
            }
        }
        tracing::info!(event = "restore.done", resumed, failed = lost);
        Ok(())
    }

    /// Takes no more messages and begins no more turns; after `patience` asks the running ones to end; returns when
    /// all have.
    pub async fn drain(&self, patience: Duration) {
        self.closed.cancel();
        self.running.close();
        self.park_all().await;
        if tokio::time::timeout(patience, self.running.wait()).await.is_err() {
            self.stop.cancel();
            self.running.wait().await;
        }
    }

    /// Puts a stored task into its lane.
    fn admit(self: &Arc<Self>, entry: Entry) {
        self.feed(&entry);
        if let Some(entry) = lock(&self.lanes).add(entry) {
            let tasks = self.clone();
            self.running.spawn(async move {
                tasks.servers_tried().await;
                tasks.run_lane(entry).await;
            });
        }
    }

    /// What the process before left is taken up at once, and would begin without a tool: at its start the servers of
    /// this process get a moment to be tried first.
    async fn servers_tried(&self) {
        let tried = self.tried.get_or_init(|| async {
            let mut servers = self.runner.servers.clone();
            settled(&mut servers, |view| view.settled()).await;
        });
        tokio::select! {
            biased;
            () = self.closed.cancelled() => {}
            _ = tried => {}
        }
    }

    /// Returns when the task has ended, or when this process has done with it.
    async fn ended(&self, id: &str) {
        self.until(id, TaskState::is_terminal).await;
    }

    /// The same, or when it waits for somebody.
    async fn rests(&self, id: &str) {
        self.until(id, |state| state.is_terminal() || state.is_interrupted())
            .await;
    }

    async fn until(&self, id: &str, holds: impl Fn(TaskState) -> bool) {
        let following = lock(&self.followed).get(id).map(|feed| feed.states());
        if let Some(mut following) = following {
            // The feed goes when this process has done with the task, which may not be its end.
            let _ = following.wait_for(|state| holds(*state)).await;
        }
    }

    /// How many messages no turn works on yet, and how many conversations wait for a slot.
    pub fn waiting(&self) -> (usize, usize) {
        let (tasks, lanes) = lock(&self.lanes).open();
        let running = self.slots.taken();
        (tasks.saturating_sub(running), lanes.saturating_sub(running))
    }

    /// What happens to this task, which is open.
    fn feed(&self, entry: &Entry) -> Arc<Feed> {
        let mut followed = lock(&self.followed);
        let feed = followed.entry(entry.id.clone());
        feed.or_insert_with(|| Feed::new(&entry.id, &entry.conversation, self.stop.child_token()))
            .clone()
    }

    /// What happens to a task from now on, and its answer so far; none when this process has done with it.
    fn follow(&self, id: &str) -> Option<Followed> {
        lock(&self.followed).get(id).map(|feed| feed.follow())
    }

    async fn visible(&self, caller: &Caller, id: &str) -> Result<Task, ServiceError> {
        let task = self.store.task(id).await.map_err(|error| unavailable(&error))?;
        caller.theirs(id, task, |task| &task.owner)
    }

    /// A message of a caller; see [`Self::take_in`].
    async fn accept(self: &Arc<Self>, owner: &str, request: SendMessage) -> Result<String, ServiceError> {
        self.take_in(owner, request, 0).await
    }

    /// Stores the message as a task, or finds the task that an earlier sending of it made; its id. So many messages of
    /// turns led to it.
    async fn take_in(
        self: &Arc<Self>,
        owner: &str,
        request: SendMessage,
        hops: u32,
    ) -> Result<String, ServiceError> {
        let digest = request.digest();
        if let Some(id) = self.known(owner, &request.message_id, &digest).await? {
            return Ok(id);
        }
        if self.closed.is_cancelled() {
            return Err(away(Away::Stopping, "the agent drains"));
        }
        let message_id = request.message_id.clone();
        let told = match (&request.push, self.push.get()) {
            (Some(config), Some(push)) => Some((push.clone(), config.clone())),
            (Some(_), None) | (None, _) => None,
        };
        let task = Task {
            hops,
            ..submitted(
                self.ids.next(),
                || self.ids.next(),
                owner,
                request,
                self.clock.now(),
            )
        };
        let entry = Entry {
            id: task.id.clone(),
            owner: owner.to_owned(),
            conversation: conversation_key(owner, &task.context_id),
            bytes: size(&task),
        };
        lock(&self.lanes)
            .promise(&entry)
            .map_err(|full| away(Away::Full, &full.to_string()))?;
        let note = Write::MessageId {
            owner: owner.to_owned(),
            message_id: message_id.clone(),
            task_id: entry.id.clone(),
            digest: digest.clone(),
        };
        let id = entry.id.clone();
        let origin = Origin::agent(&self.runner.instance, task.trace);
        let tasks = self.clone();
        // Whoever asks may be gone at any moment, a turn with its worker. What is being stored then is stored, and is to
        // be done.
        let stored = tokio::spawn(async move {
            let written = match told {
                Some((push, config)) => push.add_with(task, config, note).await,
                None => tasks.store.write(vec![Write::Task(task), note]).await,
            };
            lock(&tasks.lanes).redeem(&entry);
            if written.is_ok() {
                origin.span(&entry.id).in_scope(|| {
                    tracing::info!(event = "inbox.accepted", principal = entry.owner);
                });
                tasks.admit(entry);
            }
            written
        });
        match stored
            .await
            .map_err(|error| ServiceError::Internal(error.to_string()))?
        {
            Ok(()) => Ok(id),
            // The same message came twice at the same moment.
            Err(StoreError::Conflict(detail)) => self
                .known(owner, &message_id, &digest)
                .await?
                .ok_or(ServiceError::Internal(detail)),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// A message that a turn sends into a conversation of its principal, with how many led to it and the turn's place in
    /// its trace; the id of the task.
    pub(super) async fn deliver(
        self: &Arc<Self>,
        owner: &str,
        context_id: Option<String>,
        message_id: String,
        text: String,
        hops: u32,
        trace: TraceContext,
    ) -> Result<String, ServiceError> {
        let request = SendMessage {
            message_id,
            context_id,
            task_id: None,
            parts: vec![wire::Part::text(text)],
            return_immediately: true,
            push: None,
            trace: Some(trace),
        };
        self.take_in(owner, request, hops).await
    }

    /// Lets a turn wait for another one, as long as one slot is left for turns that wait for nobody.
    pub(super) fn begin_to_wait(&self) -> Option<Waiting> {
        self.waits.begin(None, self.slots.limit().saturating_sub(1))
    }

    /// The same for a turn of this principal that waits for a person, who needs no slot: the only turn may.
    fn begin_to_ask(&self, owner: &str) -> Option<Waiting> {
        self.waits
            .begin(Some(owner), self.slots.limit().saturating_sub(1).max(1))
    }

    /// A task and its answer in text, now or when it has ended.
    pub(super) async fn told(
        &self,
        id: &str,
        ended: bool,
    ) -> Result<Option<(Task, Option<String>)>, StoreError> {
        if ended {
            self.ended(id).await;
        }
        let task = self.store.task(id).await?;
        Ok(task.map(|task| {
            let answer = answer_of(&task);
            (task, answer)
        }))
    }

    /// The task of a message that came before. The id alone does not make it the same message.
    async fn known(
        &self,
        owner: &str,
        message_id: &str,
        digest: &str,
    ) -> Result<Option<String>, ServiceError> {
        let noted = self.store.message(owner, message_id).await;
        match noted.map_err(|error| unavailable(&error))? {
            Some(noted) if noted.digest != digest && !noted.digest.is_empty() => Err(ServiceError::Invalid {
                field: "message.messageId",
                problem: "was used for a message with other parts or another contextId; give each message an id of \
                          its own, and send a message again as it was"
                    .to_owned(),
            }),
            noted => Ok(noted.map(|noted| noted.task_id)),
        }
    }
}

/// A task's events, and what was said of its answer.
type Followed = (
    broadcast::Receiver<Arc<wire::StreamResponse>>,
    Option<wire::Artifact>,
);

fn entry(open: OpenTask) -> Entry {
    Entry {
        conversation: conversation_key(&open.owner, &open.context_id),
        id: open.id,
        owner: open.owner,
        bytes: open.bytes,
    }
}

fn away(away: Away, detail: &str) -> ServiceError {
    ServiceError::Unavailable {
        away,
        detail: detail.to_owned(),
    }
}

fn unavailable(error: &StoreError) -> ServiceError {
    match error {
        StoreError::Unavailable(_) | StoreError::Refused(_) | StoreError::Lost(_) => {
            away(Away::Store, &error.to_string())
        }
        StoreError::Full(_) => away(Away::Full, &error.to_string()),
        StoreError::Conflict(_) | StoreError::Corrupt(_) => ServiceError::Internal(error.to_string()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
