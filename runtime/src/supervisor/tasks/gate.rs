//! A question that outlives the turn which asked it: the turn as it stood then is stored with it, and given up. When the
//! answer is there it goes on, in this process or in the next. Meanwhile it holds no slot and no worker.

use std::time::Duration;

use agentd_agent::{Observation, Reply, Resumed, SoFar};
use agentd_mcp::{Answer, Ask};
use agentd_state::{Entry as Stored, EntryKind, StoreError, Task, TaskState, Write, conversation_key};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Tasks;
use super::asking::{Open, Record, unasked};
use super::feed::Feed;
use super::lane::Persisted;
use crate::supervisor::asking::Later;
use crate::supervisor::lanes::Entry;
use crate::supervisor::office::human;
use crate::supervisor::turns::Used;

/// A turn waits so long with its worker: most people who are there answer sooner.
pub(super) const PARK: Duration = Duration::from_secs(5);
/// Nobody answers after this time.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);
/// What a caller is told of a question that could not be kept.
const LOST: &str = "the agent was restarted while it waited for an answer; tools may have been called already; send the \
                    message again if the work is to be repeated";

/// What is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Gate {
    /// How it is answered.
    pub(super) ask: Ask,
    /// The turn.
    so_far: SoFar,
    /// From when on nobody answers.
    pub(super) until: Timestamp,
    /// What was said.
    said: Said,
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Nothing,
    Answer(Answer),
    TimedOut,
}

impl Gate {
    pub(super) fn new(ask: Ask, so_far: SoFar, timeout: Option<Duration>, now: Timestamp) -> Self {
        let timeout = timeout.unwrap_or(LONGEST).min(LONGEST);
        Self {
            ask,
            so_far,
            until: now.saturating_add(timeout).unwrap_or(Timestamp::MAX),
            said: Said::Nothing,
        }
    }

    /// The same, answered.
    pub(super) fn answered(self, answer: Answer) -> Self {
        let said = Said::Answer(answer);
        Self { said, ..self }
    }

    /// The conversation that the turn goes on with, what it goes on with, and what it used up.
    pub(super) fn resume(self) -> (serde_json::Value, Resumed, Used) {
        let answer = match self.said {
            Said::Answer(answer) => Some(answer),
            Said::Nothing | Said::TimedOut => None,
        };
        let seen = match human::told(&self.ask, answer) {
            Reply::Done(value) => Observation::result(value.to_string()),
            Reply::Refused(why) => Observation::error(why),
            Reply::Reserved(_) | Reply::Later => Observation::error("nobody answered"),
        };
        let SoFar {
            transcript,
            call,
            steps,
            tool_calls,
            tokens,
        } = self.so_far;
        (
            transcript,
            Resumed {
                tool_calls,
                call,
                seen,
            },
            Used { steps, tokens },
        )
    }
}

/// Keeps it with its task.
pub(super) fn keep(task: &Task, gate: &Gate) -> Write {
    Write::Entry(Stored {
        kind: EntryKind::Gate,
        scope: conversation_key(&task.owner, &task.context_id),
        key: task.id.clone(),
        value: serde_json::to_value(gate).unwrap_or_default(),
        expires_at: None,
        updated_at: task.updated_at,
    })
}

/// It is there no more.
pub(super) fn drop_gate(task: &Task) -> Write {
    Write::DropEntry {
        kind: EntryKind::Gate,
        scope: conversation_key(&task.owner, &task.context_id),
        key: task.id.clone(),
    }
}

impl Tasks {
    /// The question of a task, if one was kept.
    pub(super) async fn gate(&self, conversation: &str, id: &str) -> Result<Option<Gate>, StoreError> {
        let now = self.clock.now();
        let stored = self.store.entry(EntryKind::Gate, conversation, id, now);
        let stored = stored.await?;
        Ok(stored.and_then(|stored| serde_json::from_value(stored.value).ok()))
    }

    /// Gives up the turn that waits, if its question outlives it.
    pub(super) async fn park(&self, feed: &Feed) {
        let mut record = feed.record.lock().await;
        let open = record.open.as_ref().filter(|open| open.until.is_some());
        if open.is_some_and(|open| open.later.give_up()) {
            record.is_parked = true;
        }
    }

    /// Gives up all that can be.
    pub(super) async fn park_all(&self) {
        let all: Vec<_> = super::lock(&self.followed).values().cloned().collect();
        for feed in all {
            self.park(&feed).await;
        }
    }

    /// Returns when nobody is asked anything; false when this process has done with the task.
    pub(super) async fn goes_on(&self, entry: &Entry, feed: &Feed) -> bool {
        let mut states = feed.states();
        if !states.borrow().is_interrupted() {
            return true;
        }
        let until = match self.taken_up(entry, feed).await {
            Some(until) => until,
            None => return false,
        };
        let left = Duration::try_from(until.duration_since(self.clock.now())).unwrap_or_default();
        let answered = async {
            let _ = states.wait_for(|state| !state.is_interrupted()).await;
        };
        tokio::select! {
            () = answered => {}
            () = self.closed.cancelled() => {
                self.leave_waiting(entry).await;
                return false;
            }
            () = tokio::time::sleep(left) => self.time_out(feed).await,
        }
        !states.borrow().is_terminal()
    }

    /// Until when the question waits; it is that of the process before when this one knows of none.
    pub(super) async fn taken_up(&self, entry: &Entry, feed: &Feed) -> Option<Timestamp> {
        let mut record = feed.record.lock().await;
        if let Some(Open {
            until: Some(until), ..
        }) = &record.open
        {
            return Some(*until);
        }
        if record.task.is_some() {
            // It was answered at this moment.
            return Some(Timestamp::MAX);
        }
        let read = async {
            Ok::<_, StoreError>((
                self.store.task(&entry.id).await?,
                self.gate(&entry.conversation, &entry.id).await?,
            ))
        };
        match read.await {
            Ok((Some(task), Some(gate))) if task.state.is_interrupted() => {
                let until = gate.until;
                *record = Record {
                    task: Some(task),
                    open: Some(Open {
                        ask: gate.ask,
                        answered: tokio::sync::oneshot::channel().0,
                        until: Some(until),
                        later: Later::default(),
                    }),
                    is_parked: true,
                    ..Record::default()
                };
                Some(until)
            }
            Ok((Some(task), _)) if task.state.is_terminal() => None,
            Ok(_) | Err(StoreError::Corrupt(_)) => {
                drop(record);
                self.fail_unfinished(&entry.id, LOST).await;
                None
            }
            Err(error) => {
                tracing::error!(event = "store.get.fail", run.id = entry.id, err = %error);
                None
            }
        }
    }

    /// Nobody has answered, and the turn goes on with that.
    async fn time_out(&self, feed: &Feed) {
        let mut record = feed.record.lock().await;
        let (Some(task), Some(_)) = (&record.task, &record.open) else {
            return;
        };
        let Ok(Some(gate)) = self.gate(&feed.conversation, &task.id).await else {
            return;
        };
        let mut task = unasked(task.clone());
        task.state = TaskState::Submitted;
        task.updated_at = self.clock.now();
        let gate = Gate {
            said: Said::TimedOut,
            ..gate
        };
        let batch = vec![keep(&task, &gate), Write::Task(task.clone())];
        if let Persisted::Written = self.persist(batch, &self.closed).await {
            feed.publish(&task);
            record.open = None;
            record.task = Some(task);
        }
    }
}
