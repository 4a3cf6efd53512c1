//! [`Tasks`] as the listener sees them.

use std::sync::Arc;

use agentd_a2a::{Caller, GetTask, SendMessage, Service, ServiceError, wire};
use async_trait::async_trait;

use super::Tasks;
use crate::supervisor::record::wire_task;

/// The agent's side of A2A.
pub struct A2aService(pub Arc<Tasks>);

#[async_trait]
impl Service for A2aService {
    async fn send_message(&self, caller: &Caller, request: SendMessage) -> Result<String, ServiceError> {
        match &request.task_id {
            Some(id) => Err(self
                .0
                .refuse_follow_up(caller, id, request.context_id.as_deref())
                .await),
            None => self.0.accept(caller.key(), request).await,
        }
    }

    async fn ended(&self, task_id: &str) {
        self.0.ended(task_id).await;
    }

    async fn get_task(&self, caller: &Caller, request: GetTask) -> Result<wire::Task, ServiceError> {
        Ok(wire_task(self.0.visible(caller, &request.id).await?))
    }
}
