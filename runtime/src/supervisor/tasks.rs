//! The agent behind the A2A listener: messages become tasks, tasks become turns. Guarantees: a message is stored
//! before it is acknowledged; the same message id of the same principal leads to the same task; one conversation runs
//! in order, conversations side by side; a transcript and its task's end are stored in one transaction; no task stays
//! `working` after a restart.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentd_a2a::{Caller, GetTask, SendMessage, Service, ServiceError, wire};
use agentd_agent::Status;
use agentd_base::clock::SharedClock;
use agentd_base::id::SharedIds;
use agentd_state::{Conversation, Store, StoreError, Task, TaskState, Write};
use async_trait::async_trait;
use futures::FutureExt as _;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::lanes::{Full, Lanes};
use super::record::{conversation_key, ended, failed, submitted, text_of, wire_task};
use super::turns::{TurnEnd, TurnInput, TurnRunner};

#[cfg(test)]
mod tests;

/// Turns at once. Each has a process with some megabytes of memory; a pod's default limit leaves room for these.
pub const PARALLEL_TURNS: usize = 8;
/// The longest wait between two tries to store the end of a turn: a disk that was full is noticed soon after it is not.
const WRITE_WAIT: Duration = Duration::from_secs(30);

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
    store: Arc<dyn Store>,
    durability: Durability,
    runner: Arc<TurnRunner>,
    ids: SharedIds,
    clock: SharedClock,
    lanes: Mutex<Lanes<Task>>,
    followed: Mutex<HashMap<String, watch::Sender<Arc<Task>>>>,
    slots: Semaphore,
    running: TaskTracker,
    /// No new messages, no new turns.
    closed: CancellationToken,
    /// The turns that run are to end.
    stop: CancellationToken,
}

impl Tasks {
    /// Nothing runs yet.
    pub fn new(
        store: Arc<dyn Store>,
        durability: Durability,
        runner: Arc<TurnRunner>,
        ids: SharedIds,
        clock: SharedClock,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            durability,
            runner,
            ids,
            clock,
            lanes: Mutex::default(),
            followed: Mutex::default(),
            slots: Semaphore::new(PARALLEL_TURNS),
            running: TaskTracker::new(),
            closed: CancellationToken::new(),
            stop: CancellationToken::new(),
        })
    }

    /// Takes up what the process before left open: what had not begun begins, what was in the middle has failed,
    /// since nobody knows which of its tool calls were carried out.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn restore(self: &Arc<Self>) -> Result<(), StoreError> {
        let (mut resumed, mut lost) = (0_u32, 0_u32);
        for id in self.store.open_tasks().await? {
            let Some(task) = self.store.task(&id).await? else {
                continue;
            };
            match task.state {
                TaskState::Submitted => {
                    resumed += 1;
                    self.admit(task);
                }
                TaskState::Working => {
                    lost += 1;
                    let reason = "the agent was restarted while it worked on this message; tools may have been \
                                  called already; send the message again if the work is to be repeated";
                    let task = failed(task, reason.to_owned(), self.clock.now());
                    self.store.write(vec![Write::Task(task)]).await?;
                }
                TaskState::Completed | TaskState::Failed | TaskState::Canceled | TaskState::Rejected => {}
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
        if tokio::time::timeout(patience, self.running.wait()).await.is_err() {
            self.stop.cancel();
            self.running.wait().await;
        }
    }

    /// Puts a stored task into its lane.
    fn admit(self: &Arc<Self>, task: Task) {
        let key = conversation_key(&task.owner, &task.context_id);
        lock(&self.followed)
            .entry(task.id.clone())
            .or_insert_with(|| watch::Sender::new(Arc::new(task.clone())));
        let first = lock(&self.lanes).add(&key, task);
        if let Some(task) = first {
            let tasks = self.clone();
            self.running.spawn(async move { tasks.run_lane(key, task).await });
        }
    }

    /// Runs the tasks of one conversation, one after the other, until none waits.
    async fn run_lane(self: Arc<Self>, key: String, first: Task) {
        let mut next = Some(first);
        while let Some(task) = next {
            let id = task.id.clone();
            // A fault of ours ends this task and not its conversation, which would wait for ever.
            let run = AssertUnwindSafe(self.run_task(&key, task.clone())).catch_unwind();
            if run.await.is_err() {
                let reason = "the agent has a fault and could not go on; its log has the details";
                tracing::error!(event = "turn.failed", run.id = id, err = reason);
                self.settle(failed(task, reason.to_owned(), self.clock.now()), None)
                    .await;
            }
            lock(&self.followed).remove(&id);
            next = lock(&self.lanes).next(&key);
        }
    }

    async fn run_task(&self, key: &str, task: Task) {
        let slot = tokio::select! {
            biased;
            () = self.closed.cancelled() => None,
            slot = self.slots.acquire() => slot.ok(),
        };
        if slot.is_none() {
            self.leave(task, 0).await;
            return;
        }
        let mut working = task.clone();
        working.state = TaskState::Working;
        working.updated_at = self.clock.now();
        let before = match self.begin(key, &working).await {
            Ok(before) => before,
            Err(error) => {
                let reason = format!("the turn did not begin: {error}");
                self.settle(failed(task, reason, self.clock.now()), None).await;
                return;
            }
        };
        self.publish(&working);
        let input = TurnInput {
            run_id: working.id.clone(),
            conversation: key.to_owned(),
            transcript: before
                .as_ref()
                .map_or(Value::Null, |before| before.transcript.clone()),
            text: text_of(&working),
        };
        let end = self.runner.run(input, &self.stop).await;
        let stopped = self.stop.is_cancelled();
        match end {
            TurnEnd::Done(result) if stopped && result.status == Status::Cancelled => {
                self.leave(working, result.tool_calls).await;
            }
            TurnEnd::Done(result) => {
                let now = self.clock.now();
                let conversation = (!result.transcript.is_null()).then(|| Conversation {
                    id: key.to_owned(),
                    owner: working.owner.clone(),
                    created_at: before.map_or(now, |before| before.created_at),
                    transcript: result.transcript.clone(),
                });
                self.settle(ended(working, &result, self.ids.next(), now), conversation)
                    .await;
            }
            TurnEnd::Broken { tool_calls, .. } if stopped => self.leave(working, tool_calls).await,
            TurnEnd::Broken { reason, .. } => {
                self.settle(failed(working, reason, self.clock.now()), None).await;
            }
        }
    }

    async fn begin(&self, key: &str, working: &Task) -> Result<Option<Conversation>, StoreError> {
        self.store.write(vec![Write::Task(working.clone())]).await?;
        self.store.conversation(key).await
    }

    /// The process ends before the task could: it waits for the next start if nothing of it was done and the store
    /// will be there, else it has failed.
    async fn leave(&self, mut task: Task, tool_calls: u64) {
        if self.durability == Durability::Durable && tool_calls == 0 {
            if task.state != TaskState::Submitted {
                task.state = TaskState::Submitted;
                task.updated_at = self.clock.now();
                self.settle(task, None).await;
            }
            return;
        }
        let reason = match tool_calls {
            0 => "the agent was stopped before it could answer; send the message again".to_owned(),
            1 => "the agent was stopped before it could answer; one tool call had been made".to_owned(),
            calls => {
                format!("the agent was stopped before it could answer; {calls} tool calls had been made")
            }
        };
        self.settle(failed(task, reason, self.clock.now()), None).await;
    }

    /// Stores where a task stands after its turn, together with the transcript, and tells whoever follows it. While the
    /// store is away it is tried again: until it is stored the turn has not ended.
    async fn settle(&self, task: Task, conversation: Option<Conversation>) {
        let mut batch: Vec<Write> = conversation.into_iter().map(Write::Conversation).collect();
        batch.push(Write::Task(task.clone()));
        let mut wait = Duration::from_secs(1);
        while let Err(error) = self.store.write(batch.clone()).await {
            tracing::error!(event = "store.put.fail", run.id = task.id, err = %error);
            tokio::select! {
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(WRITE_WAIT),
                () = self.stop.cancelled() => return,
            }
        }
        self.publish(&task);
    }

    fn publish(&self, task: &Task) {
        if let Some(follower) = lock(&self.followed).get(&task.id) {
            follower.send_replace(Arc::new(task.clone()));
        }
    }

    /// The task when it has ended, or when this process is about to.
    async fn ended(&self, id: &str) -> Result<Task, ServiceError> {
        let following = lock(&self.followed).get(id).map(watch::Sender::subscribe);
        if let Some(mut following) = following {
            // The sender goes when this process has done with the task, which may not be its end; its last value stays.
            let _ = following.wait_for(|task| task.state.is_terminal()).await;
            let last = following.borrow().clone();
            return Ok(Task::clone(&last));
        }
        self.stored(id).await
    }

    async fn stored(&self, id: &str) -> Result<Task, ServiceError> {
        let task = self.store.task(id).await.map_err(|error| unavailable(&error))?;
        task.ok_or_else(|| ServiceError::TaskNotFound(id.to_owned()))
    }

    async fn visible(&self, caller: &Caller, id: &str) -> Result<Task, ServiceError> {
        let task = self.stored(id).await?;
        if caller.may_see(&task.owner) {
            Ok(task)
        } else {
            Err(ServiceError::TaskNotFound(id.to_owned()))
        }
    }

    /// A message with a task id: no task waits for input yet, so it can only be refused, and truthfully.
    async fn refuse_follow_up(&self, caller: &Caller, id: &str, context: Option<&str>) -> ServiceError {
        match self.visible(caller, id).await {
            Err(error) => error,
            Ok(task) if context.is_some_and(|context| context != task.context_id) => ServiceError::Invalid {
                field: "message.contextId",
                problem: "is not the context of message.taskId; leave one of them out".to_owned(),
            },
            Ok(task) if task.state.is_terminal() => ServiceError::TaskEnded(id.to_owned()),
            Ok(_) => ServiceError::Invalid {
                field: "message.taskId",
                problem: "the task does not wait for input; send the message with its contextId only"
                    .to_owned(),
            },
        }
    }

    /// Stores the message as a task, or finds the task that an earlier sending of it made.
    async fn accept(self: &Arc<Self>, caller: &Caller, request: &SendMessage) -> Result<Task, ServiceError> {
        let owner = caller.key();
        if let Some(task) = self.known(owner, &request.message_id).await? {
            return Ok(task);
        }
        if self.closed.is_cancelled() {
            return Err(ServiceError::Unavailable("the agent is about to stop".to_owned()));
        }
        let context_id = request.context_id.clone().unwrap_or_else(|| self.ids.next());
        lock(&self.lanes)
            .promise(&conversation_key(owner, &context_id))
            .map_err(|full| {
                ServiceError::Unavailable(match full {
                    Full::Conversation => "too many messages of this conversation wait already".to_owned(),
                    Full::Agent => "too many messages wait already".to_owned(),
                })
            })?;
        let now = self.clock.now();
        let task = submitted(
            self.ids.next(),
            context_id,
            owner,
            &request.message_id,
            &request.parts,
            now,
        );
        let batch = vec![
            Write::Task(task.clone()),
            Write::MessageId {
                owner: owner.to_owned(),
                message_id: request.message_id.clone(),
                task_id: task.id.clone(),
            },
        ];
        let written = self.store.write(batch).await;
        lock(&self.lanes).redeem();
        match written {
            Ok(()) => {
                tracing::info!(event = "inbox.accepted", run.id = task.id, principal = owner);
                self.admit(task.clone());
                Ok(task)
            }
            // The same message came twice at the same moment.
            Err(StoreError::Conflict(detail)) => self
                .known(owner, &request.message_id)
                .await?
                .ok_or(ServiceError::Internal(detail)),
            Err(error) => Err(unavailable(&error)),
        }
    }

    async fn known(&self, owner: &str, message_id: &str) -> Result<Option<Task>, ServiceError> {
        let id = self
            .store
            .task_of_message(owner, message_id)
            .await
            .map_err(|error| unavailable(&error))?;
        match id {
            None => Ok(None),
            Some(id) => self.store.task(&id).await.map_err(|error| unavailable(&error)),
        }
    }
}

/// [`Tasks`] as the listener sees them.
pub struct A2aService(pub Arc<Tasks>);

#[async_trait]
impl Service for A2aService {
    async fn send_message(&self, caller: Caller, request: SendMessage) -> Result<wire::Task, ServiceError> {
        if let Some(id) = &request.task_id {
            return Err(self
                .0
                .refuse_follow_up(&caller, id, request.context_id.as_deref())
                .await);
        }
        let task = self.0.accept(&caller, &request).await?;
        if request.return_immediately || task.state.is_terminal() {
            return Ok(wire_task(&task));
        }
        Ok(wire_task(&self.0.ended(&task.id).await?))
    }

    async fn get_task(&self, caller: Caller, request: GetTask) -> Result<wire::Task, ServiceError> {
        Ok(wire_task(&self.0.visible(&caller, &request.id).await?))
    }
}

fn unavailable(error: &StoreError) -> ServiceError {
    match error {
        StoreError::Unavailable(_) => ServiceError::Unavailable(error.to_string()),
        StoreError::Conflict(_) | StoreError::Corrupt(_) => ServiceError::Internal(error.to_string()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
