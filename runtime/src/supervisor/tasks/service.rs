//! [`Tasks`] as the listener sees them.

use std::sync::Arc;

use agentd_a2a::push::{PushConfig, PushConfigs};
use agentd_a2a::{
    Caller, Command, GetTask, ListTasks, Listed, SendMessage, Sent, Service, ServiceError, Subscription, wire,
};
use agentd_state::{Task, TaskMark, TaskQuery, TaskState};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use super::push::Push;
use super::{Tasks, unavailable};
use crate::supervisor::record::wire_task;

/// The agent's side of A2A.
pub struct A2aService(pub Arc<Tasks>);

#[async_trait]
impl Service for A2aService {
    async fn send_message(&self, caller: &Caller, request: SendMessage) -> Result<Sent, ServiceError> {
        if let (Some(config), Some(push)) = (&request.push, self.0.push.get()) {
            push.vet(&config.url, "configuration.taskPushNotificationConfig.url")
                .await?;
            if let Some(id) = &request.task_id {
                self.0.visible(caller, id).await?;
                push.add(id, config.clone()).await?;
            }
        }
        let task = match request.task_id.clone() {
            Some(id) => self.0.answer(caller, &id, request).await,
            None => self.0.accept(caller.key(), request).await,
        };
        task.map(Sent::Task)
    }

    async fn command(&self, caller: &Caller, command: Command) -> Result<Value, ServiceError> {
        self.0.command(caller, command).await
    }

    async fn ended(&self, task_id: &str) {
        self.0.rests(task_id).await;
    }

    async fn get_task(&self, caller: &Caller, request: GetTask) -> Result<wire::Task, ServiceError> {
        Ok(wire_task(self.0.visible(caller, &request.id).await?))
    }

    async fn list_tasks(&self, caller: &Caller, request: ListTasks) -> Result<Listed, ServiceError> {
        let Some(query) = query(caller, request)? else {
            return Ok(Listed {
                tasks: Vec::new(),
                more: false,
                total: 0,
            });
        };
        let page = self.0.store.tasks(query).await;
        let page = page.map_err(|error| unavailable(&error))?;
        let shown = |task: Task| {
            let token = token(&TaskMark::of(&task));
            (wire_task(task), token)
        };
        Ok(Listed {
            tasks: page.tasks.into_iter().map(shown).collect(),
            more: page.more,
            total: page.total,
        })
    }

    async fn cancel_task(&self, caller: &Caller, id: &str) -> Result<(), ServiceError> {
        self.0.cancel(caller, id).await
    }

    async fn subscribe(&self, caller: &Caller, id: &str) -> Result<Subscription, ServiceError> {
        // First, so that nothing is missed between the two.
        let (events, said) = self.0.follow(id).unzip();
        let mut task = wire_task(self.0.visible(caller, id).await?);
        if let Some(said) = said.flatten()
            && !task.status.state.is_terminal()
        {
            task.artifacts = Some(vec![said]);
        }
        Ok(Subscription { task, events })
    }

    fn push(&self) -> Option<&dyn PushConfigs> {
        self.0.push.get().map(|_| self as &dyn PushConfigs)
    }
}

#[async_trait]
impl PushConfigs for A2aService {
    async fn create(&self, caller: &Caller, task_id: &str, config: PushConfig) -> Result<(), ServiceError> {
        let push = self.kept(caller, task_id).await?;
        push.vet(&config.url, "url").await?;
        push.add(task_id, config).await
    }

    async fn get(&self, caller: &Caller, task_id: &str, id: &str) -> Result<PushConfig, ServiceError> {
        self.kept(caller, task_id).await?.get(task_id, id).await
    }

    async fn list(&self, caller: &Caller, task_id: &str) -> Result<Vec<PushConfig>, ServiceError> {
        Ok(self.kept(caller, task_id).await?.list(task_id).await)
    }

    async fn delete(&self, caller: &Caller, task_id: &str, id: &str) -> Result<(), ServiceError> {
        self.kept(caller, task_id).await?.delete(task_id, id).await
    }
}

impl A2aService {
    /// What is kept for a task of the caller.
    async fn kept(&self, caller: &Caller, task_id: &str) -> Result<&Push, ServiceError> {
        self.0.visible(caller, task_id).await?;
        let push = self.0.push.get();
        push.map(Arc::as_ref)
            .ok_or_else(|| ServiceError::Internal("no push notifications are sent".to_owned()))
    }
}

/// What is asked of the store; none when there can be no such task.
fn query(caller: &Caller, request: ListTasks) -> Result<Option<TaskQuery>, ServiceError> {
    let state = match request.state {
        None | Some(wire::TaskState::Unspecified) => None,
        Some(state) => match stored(&state) {
            None => return Ok(None),
            state => state,
        },
    };
    let after = match &request.page_token {
        None => None,
        Some(text) => Some(mark(text).ok_or(ServiceError::Invalid {
            field: "pageToken",
            problem: "is none that this agent gave; leave it out to begin with the first page".to_owned(),
        })?),
    };
    Ok(Some(TaskQuery {
        owner: caller.only().map(str::to_owned),
        context_id: request.context_id,
        state,
        since: request.since,
        after,
        limit: request.page_size,
    }))
}

const fn stored(state: &wire::TaskState) -> Option<TaskState> {
    match state {
        wire::TaskState::Submitted => Some(TaskState::Submitted),
        wire::TaskState::Working => Some(TaskState::Working),
        wire::TaskState::Completed => Some(TaskState::Completed),
        wire::TaskState::Failed => Some(TaskState::Failed),
        wire::TaskState::Canceled => Some(TaskState::Canceled),
        wire::TaskState::Rejected => Some(TaskState::Rejected),
        wire::TaskState::InputRequired => Some(TaskState::InputRequired),
        wire::TaskState::AuthRequired => Some(TaskState::AuthRequired),
        wire::TaskState::Unspecified => None,
    }
}

pub(super) fn token(mark: &TaskMark) -> String {
    format!("{}-{}", mark.updated_at.as_microsecond(), mark.id)
}

pub(super) fn mark(token: &str) -> Option<TaskMark> {
    let (at, id) = token.split_once('-')?;
    Some(TaskMark {
        updated_at: Timestamp::from_microsecond(at.parse().ok()?).ok()?,
        id: id.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_its_place_and_others_lead_nowhere() {
        let place = TaskMark {
            updated_at: "2026-12-01T10:00:00.123456Z".parse().unwrap(),
            id: "0193-a-b".into(),
        };
        assert_eq!(mark(&token(&place)), Some(place));
        for other in [
            "",
            "x",
            "-",
            "x-y",
            "99999999999999999999-a",
            "9999999999999999999-a",
        ] {
            assert_eq!(mark(other), None, "{other}");
        }
    }
}
