//! Ends a task because a caller wants it to: at once when its turn has not begun, else by asking the turn to end. What
//! its turn has come to by then counts: a task that was completed meanwhile cannot be cancelled.

use agentd_a2a::{Away, Caller, ServiceError};
use agentd_state::{Task, TaskState, Write};

use super::asking::{Record, unasked};
use super::gate::drop_gate;
use super::{Tasks, away, lock, unavailable};
use crate::supervisor::record::canceled;

impl Tasks {
    /// Returns when the task is cancelled, now or before.
    pub(super) async fn cancel(&self, caller: &Caller, id: &str) -> Result<(), ServiceError> {
        let task = self.visible(caller, id).await?;
        let feed = lock(&self.followed).get(id).cloned();
        let Some(feed) = feed else {
            return verdict(&self.visible(caller, id).await?);
        };
        if task.state.is_terminal() {
            return verdict(&task);
        }
        {
            // Neither begins its turn now, nor does anybody else end it.
            let begun = feed.begun.lock().await;
            if !*begun {
                let mut record = feed.record.lock().await;
                let task = self.visible(caller, id).await?;
                if task.state.is_terminal() {
                    return verdict(&task);
                }
                let why = match record.is_parked {
                    true => "it was cancelled while it waited for an answer",
                    false => "it was cancelled before it began",
                };
                let task = canceled(unasked(task), why.to_owned(), self.clock.now());
                let mut batch = vec![Write::Task(task.clone())];
                batch.extend(record.is_parked.then(|| drop_gate(&task)));
                let written = self.store.write(batch).await;
                written.map_err(|error| unavailable(&error))?;
                *record = Record::default();
                feed.publish(&task);
                return Ok(());
            }
        }
        feed.cancelled.cancel();
        feed.stop.cancel();
        // Who waits for the end must not be what keeps it from being told.
        drop(feed);
        self.ended(id).await;
        verdict(&self.visible(caller, id).await?)
    }
}

/// What a caller is told that wanted to cancel it.
fn verdict(task: &Task) -> Result<(), ServiceError> {
    match task.state {
        TaskState::Canceled => Ok(()),
        TaskState::Completed | TaskState::Failed | TaskState::Rejected => {
            Err(ServiceError::NotCancelable(task.id.clone()))
        }
        // The process ends, and its next start takes it up.
        TaskState::Submitted | TaskState::Working | TaskState::InputRequired | TaskState::AuthRequired => {
            Err(away(Away::Stopping, "the agent drains"))
        }
    }
}
