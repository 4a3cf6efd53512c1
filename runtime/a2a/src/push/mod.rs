//! Push notifications: where a caller wants to be told of its task. What is here is checked at the edge and is sent by
//! [`Sender`]; what is kept, and that it is told at least once, is the agent's side ([`PushConfigs`]). The secrets in a
//! configuration are sent to its URL and shown to nobody.

mod call;
mod config;
mod sender;

use async_trait::async_trait;

use crate::caller::Caller;
use crate::service::ServiceError;

#[cfg(test)]
pub(crate) use call::understand;
pub(crate) use call::{Failed, call};
pub(crate) use config::of_message;
pub use config::{Authentication, PushConfig};
pub use sender::Sender;

/// Configurations of one task.
pub const CONFIGS_OF_TASK: usize = 8;

/// The configurations that an agent keeps. A task that is another principal's does not exist, and so do its
/// configurations not ([`Caller::theirs`]).
#[async_trait]
pub trait PushConfigs: Send + Sync {
    /// Takes one for a task. One of the same id is replaced.
    async fn create(&self, caller: &Caller, task_id: &str, config: PushConfig) -> Result<(), ServiceError>;

    /// One by its id.
    async fn get(&self, caller: &Caller, task_id: &str, id: &str) -> Result<PushConfig, ServiceError>;

    /// All of a task, by their ids; no more than [`CONFIGS_OF_TASK`].
    async fn list(&self, caller: &Caller, task_id: &str) -> Result<Vec<PushConfig>, ServiceError>;

    /// Deletes one. One that is not there is deleted.
    async fn delete(&self, caller: &Caller, task_id: &str, id: &str) -> Result<(), ServiceError>;
}
