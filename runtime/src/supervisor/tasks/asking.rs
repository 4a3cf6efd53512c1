//! Questions of turns to whoever sent their message: the task waits for input until a message of the caller answers it.
//! Guarantees: what is asked is stored before anybody is told; one question of a task at a time, in the order in which
//! they came; a question that nobody waits for any more is taken back. While it waits nothing is done.

use std::sync::{Arc, OnceLock, Weak};

use agentd_mcp::{Answer, Ask, Question};
use agentd_state::store::size;
use agentd_state::{Task, TaskState, Write};
use async_trait::async_trait;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::feed::Feed;
use super::lane::Persisted;
use super::{Tasks, lock};
use crate::supervisor::asking::{Asked, Human};
use crate::supervisor::question;

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
}

/// The record of a task whose turn runs: the turn and those who answer it write it by turns.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// As it was written last; none while no turn runs.
    pub(super) task: Option<Task>,
    /// What is asked.
    pub(super) open: Option<Open>,
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
        let (asking, run_id) = (tasks.clone(), asked.run_id);
        // Whoever asks may be gone at any moment: what was begun is done to its end.
        let holding = async move {
            asking.hold(&feed, &run_id, asked.question, sender).await;
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
    async fn hold(&self, feed: &Feed, run_id: &str, question: Question, mut asker: oneshot::Sender<Answer>) {
        let _one = tokio::select! {
            one = feed.line.lock() => one,
            () = asker.closed() => return,
        };
        // One slot is left for turns that wait for nobody.
        let Some(_waits) = self.begin_to_ask() else {
            tracing::info!(
                event = "human.ask.failed",
                run.id = run_id,
                "too many turns wait already"
            );
            return;
        };
        let (answered, answer) = oneshot::channel();
        if let Err(why) = self.open(feed, question, answered).await {
            tracing::info!(event = "human.ask.failed", run.id = run_id, "{why}");
            return;
        }
        tokio::select! {
            answer = answer => {
                if let Ok(answer) = answer {
                    let _ = asker.send(answer);
                }
            }
            () = asker.closed() => self.take_back(feed).await,
        }
    }

    async fn open(
        &self,
        feed: &Feed,
        question: Question,
        answered: oneshot::Sender<Answer>,
    ) -> Result<(), &'static str> {
        let mut record = feed.record.lock().await;
        let task = record.task.as_ref().filter(|_| !feed.stop.is_cancelled());
        let mut task = task.ok_or("the turn is about to end")?.clone();
        let (state, message) =
            question::shown(self.ids.next(), &question).ok_or("what is asked may not be shown to anybody")?;
        task.state = state;
        task.asked = Some(message);
        task.updated_at = self.clock.now();
        if size(&task) > TASK_BYTES {
            return Err("this task has asked too much already");
        }
        match self.persist(vec![Write::Task(task.clone())], &feed.stop).await {
            Persisted::Written => {}
            Persisted::Stopped | Persisted::Never(_) => return Err("the question could not be stored"),
        }
        feed.publish(&task);
        *record = Record {
            task: Some(task),
            open: Some(Open {
                ask: question.ask,
                answered,
            }),
        };
        Ok(())
    }

    /// Nobody waits for the answer any more: the turn goes on without.
    async fn take_back(&self, feed: &Feed) {
        let mut record = feed.record.lock().await;
        // It was answered at the last moment, or the turn has ended.
        if record.open.take().is_none() || feed.stop.is_cancelled() {
            return;
        }
        let Some(task) = &record.task else { return };
        let mut task = unasked(task.clone());
        task.state = TaskState::Working;
        task.updated_at = self.clock.now();
        // Where it is not written the question stands there until the turn ends, and nobody can answer it.
        if let Persisted::Written = self.persist(vec![Write::Task(task.clone())], &feed.stop).await {
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
