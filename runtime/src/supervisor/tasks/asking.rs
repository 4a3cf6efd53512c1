//! Questions of turns to whoever sent their message: the task waits for input until a message of the caller answers it.
//! Guarantees: what is asked is stored before anybody is told; one question of a task at a time, in the order in which
//! they came; a question that nobody waits for any more is taken back. While it waits nothing is done.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use agentd_mcp::{Answer, Ask};
use agentd_state::store::size;
use agentd_state::{Task, TaskState, Write};
use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::feed::Feed;
use super::gate::{Gate, PARK, drop_gate, keep};
use super::lane::Persisted;
use super::{Tasks, lock};
use crate::supervisor::asking::{Asked, Human, Later};
use crate::supervisor::question;
use crate::supervisor::turns::Used;

/// What a task with its questions and answers may take: it goes into one answer of the listener's.
pub(super) const TASK_BYTES: u64 = 1536 * 1024;

/// The callers of this agent, once there is something that they can call.
#[derive(Debug, Default)]
pub struct Callers(OnceLock<Weak<Tasks>>);

/// A question that waits.
#[derive(Debug)]
pub(super) struct Open {
    /// How it is answered.
    pub(super) ask: Ask,
    /// Gets the answer.
    pub(super) answered: oneshot::Sender<Answer>,
    /// Until when it waits, where it is stored and outlives its turn.
    pub(super) until: Option<Timestamp>,
    /// Gives the turn up.
    pub(super) later: Later,
}

/// The record of a task whose turn runs: the turn and those who answer it write it by turns.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// As it was written last; none while no turn runs.
    pub(super) task: Option<Task>,
    /// What is asked.
    pub(super) open: Option<Open>,
    /// The turn was given up: it goes on when there is an answer.
    pub(super) is_parked: bool,
    /// What it used up before it was given up last.
    pub(super) used: Used,
}

impl Callers {
    /// From now on they can be asked.
    pub fn set(&self, tasks: &Arc<Tasks>) {
        let _ = self.0.set(Arc::downgrade(tasks));
    }
}

#[async_trait]
impl Human for Callers {
    async fn ask(&self, asked: Asked) -> Answer {
        let Some(tasks) = self.0.get().and_then(Weak::upgrade) else {
            return Answer::Cancel;
        };
        let Some(feed) = tasks.running_in(&asked.root).await else {
            return Answer::Cancel;
        };
        let (sender, answer) = oneshot::channel();
        let asking = tasks.clone();
        // Whoever asks may be gone at any moment: what was begun is done to its end.
        let holding = async move {
            asking.hold(&feed, asked, sender).await;
        };
        tasks.running.spawn(holding.in_current_span());
        drop(tasks);
        answer.await.unwrap_or(Answer::Cancel)
    }
}

impl Tasks {
    /// What happens to the task whose turn runs in this conversation.
    async fn running_in(&self, conversation: &str) -> Option<Arc<Feed>> {
        let of_it: Vec<Arc<Feed>> = {
            let followed = lock(&self.followed);
            let of_it = followed.values().filter(|feed| feed.conversation == conversation);
            of_it.cloned().collect()
        };
        for feed in of_it {
            if feed.record.lock().await.task.is_some() {
                return Some(feed);
            }
        }
        None
    }

    /// Asks, and waits for the answer, or until nobody waits for that.
    async fn hold(&self, feed: &Feed, mut asked: Asked, mut asker: oneshot::Sender<Answer>) {
        let _one = tokio::select! {
            one = feed.line.lock() => one,
            () = asker.closed() => return,
        };
        let run_id = asked.run_id.clone();
        // Another turn goes on with nothing but the task's own.
        asked.so_far = asked.so_far.filter(|_| run_id == feed.id);
        let refused = |why| tracing::info!(event = "human.ask.failed", run.id = run_id, "{why}");
        let owner = feed
            .record
            .lock()
            .await
            .task
            .as_ref()
            .map(|task| task.owner.clone());
        let waits = owner.and_then(|owner| self.begin_to_ask(&owner));
        if waits.is_none() && asked.so_far.is_none() {
            return refused("too many turns wait already");
        }
        let (answered, answer) = oneshot::channel();
        let outlives = match self.open(feed, asked, answered).await {
            Ok(outlives) => outlives,
            Err(why) => return refused(why),
        };
        let patience = match &waits {
            Some(_) if !self.closed.is_cancelled() => PARK,
            _ => Duration::ZERO,
        };
        if waits.is_none() && !outlives {
            self.take_back(feed).await;
            return refused("too many turns wait already");
        }
        tokio::select! {
            answer = answer => {
                if let Ok(answer) = answer {
                    let _ = asker.send(answer);
                }
            }
            () = asker.closed() => self.take_back(feed).await,
            () = tokio::time::sleep(patience), if outlives => {
                self.park(feed).await;
                // Its turn ends without having heard anything.
                asker.closed().await;
            }
        }
    }

    /// Stores and tells what is asked; whether it outlives its turn.
    async fn open(
        &self,
        feed: &Feed,
        asked: Asked,
        answered: oneshot::Sender<Answer>,
    ) -> Result<bool, &'static str> {
        let mut record = feed.record.lock().await;
        let is_over = feed.stop.is_cancelled() || record.is_parked;
        let task = record.task.as_ref().filter(|_| !is_over);
        let mut task = task.ok_or("the turn is about to end")?.clone();
        let question = asked.question;
        let (state, message) =
            question::shown(self.ids.next(), &question).ok_or("what is asked may not be shown to anybody")?;
        task.state = state;
        task.asked = Some(message);
        task.updated_at = self.clock.now();
        if size(&task) > TASK_BYTES {
            return Err("this task has asked too much already");
        }
        let mut gate = asked.so_far.map(|so_far| {
            let so_far = record.used.and(*so_far);
            Gate::new(question.ask.clone(), so_far, asked.timeout, task.updated_at)
        });
        let mut batch = vec![Write::Task(task.clone())];
        batch.extend(gate.as_ref().map(|gate| keep(&task, gate)));
        let mut written = self.persist(batch, &feed.stop).await;
        if matches!(written, Persisted::Never(_)) && gate.take().is_some() {
            // The turn is more than the store takes: the question ends with it.
            written = self.persist(vec![Write::Task(task.clone())], &feed.stop).await;
        }
        match written {
            Persisted::Written => {}
            Persisted::Stopped | Persisted::Never(_) => return Err("the question could not be stored"),
        }
        feed.publish(&task);
        let until = gate.map(|gate| gate.until);
        record.task = Some(task);
        record.open = Some(Open {
            ask: question.ask,
            answered,
            until,
            later: asked.later,
        });
        Ok(until.is_some())
    }

    /// Nobody waits for the answer any more: the turn goes on without.
    async fn take_back(&self, feed: &Feed) {
        let mut record = feed.record.lock().await;
        if record.is_parked || feed.stop.is_cancelled() {
            return;
        }
        // It was answered at the last moment, or the turn has ended.
        let (Some(_), Some(task)) = (record.open.take(), &record.task) else {
            return;
        };
        let mut task = unasked(task.clone());
        task.state = TaskState::Working;
        task.updated_at = self.clock.now();
        // Where it is not written the question stands there until the turn ends, and nobody can answer it.
        let batch = vec![Write::Task(task.clone()), drop_gate(&task)];
        if let Persisted::Written = self.persist(batch, &feed.stop).await {
            feed.publish(&task);
            record.task = Some(task);
        }
    }
}

/// The task with what it asked among what was said.
pub(super) fn unasked(mut task: Task) -> Task {
    let asked = task.asked.take();
    task.history.extend(asked);
    task
}
