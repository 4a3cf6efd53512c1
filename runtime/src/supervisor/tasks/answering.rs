//! A message with a task id: the answer to what the task asks. Guarantees: it is stored before it is acknowledged; the
//! same message twice is one answer; what does not answer the question leaves it open.

use std::sync::Arc;

use agentd_a2a::{Caller, SendMessage, ServiceError};
use agentd_state::store::size;
use agentd_state::{Message, Role, StoreError, Task, TaskState, Write};

use super::asking::{TASK_BYTES, unasked};
use super::gate::{drop_gate, keep};
use super::{Tasks, lock, unavailable};
use crate::origin::Origin;
use crate::supervisor::question;

impl Tasks {
    /// The id of the task, which goes on. While the agent drains too: what runs then may end, and this lets it.
    pub(super) async fn answer(
        self: &Arc<Self>,
        caller: &Caller,
        id: &str,
        request: SendMessage,
    ) -> Result<String, ServiceError> {
        let (message_id, digest) = (request.message_id.clone(), request.digest());
        if let Some(id) = self.known(caller.key(), &message_id, &digest).await? {
            return Ok(id);
        }
        match self.answer_once(caller, id, request, &digest).await {
            // The same message may have been taken while this one waited for the record.
            Err(error) => self.known(caller.key(), &message_id, &digest).await?.ok_or(error),
            taken => taken,
        }
    }

    async fn answer_once(
        &self,
        caller: &Caller,
        id: &str,
        request: SendMessage,
        digest: &str,
    ) -> Result<String, ServiceError> {
        let task = self.visible(caller, id).await?;
        fits(&task, request.context_id.as_deref())?;
        let feed = lock(&self.followed).get(id).cloned();
        let Some(feed) = feed else {
            return Err(not_asked());
        };
        let mut record = feed.record.lock().await;
        let (Some(task), Some(open)) = (&record.task, &record.open) else {
            return Err(not_asked());
        };
        let invalid = |problem| ServiceError::Invalid {
            field: "message.parts",
            problem,
        };
        let answer = question::answer(&open.ask, &request.parts).map_err(invalid)?;
        let message_id = request.message_id.clone();
        let mut task = answered(task.clone(), request);
        // A turn that was given up begins again.
        task.state = match record.is_parked {
            true => TaskState::Submitted,
            false => TaskState::Working,
        };
        task.updated_at = self.clock.now();
        if size(&task) > TASK_BYTES {
            return Err(invalid("is more than this task has room for".to_owned()));
        }
        let note = Write::MessageId {
            owner: caller.key().to_owned(),
            message_id,
            task_id: task.id.clone(),
            digest: digest.to_owned(),
        };
        let mut batch = vec![Write::Task(task.clone()), note];
        if record.is_parked {
            let gate = self.gate(&feed.conversation, id).await;
            let gate = gate.map_err(|error| unavailable(&error))?;
            let gate =
                gate.ok_or_else(|| ServiceError::Internal("the turn that asked is lost".to_owned()))?;
            batch.push(keep(&task, &gate.answered(answer.clone())));
        } else if open.until.is_some() {
            batch.push(drop_gate(&task));
        }
        match self.store.write(batch).await {
            Ok(()) => {}
            // The same message, to something else at the same moment.
            Err(StoreError::Conflict(detail)) => return Err(ServiceError::Internal(detail)),
            Err(error) => return Err(unavailable(&error)),
        }
        let origin = Origin::agent(&self.runner.instance, task.trace);
        origin.span(&task.id).in_scope(|| {
            tracing::info!(event = "inbox.accepted", principal = caller.key());
        });
        feed.publish(&task);
        record.task = Some(task);
        if let Some(open) = record.open.take() {
            // One that nobody waits for is of a turn that was given up at this moment.
            let _ = open.answered.send(answer);
        }
        Ok(id.to_owned())
    }
}

/// Whether a message with the id of this task can be about it.
fn fits(task: &Task, context: Option<&str>) -> Result<(), ServiceError> {
    if context.is_some_and(|context| context != task.context_id) {
        return Err(ServiceError::Invalid {
            field: "message.contextId",
            problem: "is not the context of message.taskId; leave one of them out".to_owned(),
        });
    }
    if task.state.is_terminal() {
        return Err(ServiceError::TaskEnded(task.id.clone()));
    }
    Ok(())
}

fn not_asked() -> ServiceError {
    ServiceError::Invalid {
        field: "message.taskId",
        problem: "the task does not wait for input; send the message with its contextId only".to_owned(),
    }
}

/// The task with the question and its answer among what was said.
fn answered(task: Task, request: SendMessage) -> Task {
    let mut task = unasked(task);
    task.history.push(Message {
        id: request.message_id,
        role: Role::User,
        parts: serde_json::to_value(request.parts).unwrap_or_default(),
    });
    task
}
