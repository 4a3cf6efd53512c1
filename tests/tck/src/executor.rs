//! Tasks in memory, to which happens what the scenario of their last message says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentd_a2a::push::{PushConfig, PushConfigs, Sender};
use agentd_a2a::wire::{
    self, Artifact, Message, Part, Role, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState,
    TaskStatus, TaskStatusUpdateEvent,
};
use agentd_a2a::{
    Caller, Command, GetTask, ListTasks, Listed, SendMessage, Sent, Service, ServiceError, Subscription,
};
use agentd_net::TlsMode;
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

use crate::scenario::{Step, answered, is_followed, steps};

/// How long a stream may take to come to a task that is to be followed.
const PATIENCE: Duration = Duration::from_secs(1);
/// Events that one who follows may be behind.
const BEHIND: usize = 64;
const ARTIFACT: &str = "artifact";

#[derive(Clone)]
pub(crate) struct Executor {
    tasks: Arc<Mutex<BTreeMap<String, Kept>>>,
    /// The TCK's webhook is on loopback.
    sender: Sender,
    /// Something happened, or somebody follows.
    changed: Arc<watch::Sender<()>>,
}

struct Kept {
    task: Task,
    configs: BTreeMap<String, PushConfig>,
    feed: broadcast::Sender<Arc<StreamResponse>>,
}

impl Executor {
    pub(crate) fn new() -> Self {
        Self {
            tasks: Arc::default(),
            sender: Sender::new(true, TlsMode::default()),
            changed: Arc::default(),
        }
    }

    /// Does this with what is kept of a task.
    fn with<T>(&self, id: &str, act: impl FnOnce(&mut Kept) -> T) -> Result<T, ServiceError> {
        let mut tasks = self.lock();
        let kept = tasks.get_mut(id);
        kept.map(act)
            .ok_or_else(|| ServiceError::TaskNotFound(id.to_owned()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when this holds for the task; an unknown one has it.
    async fn until(&self, id: &str, holds: impl Fn(&Kept) -> bool) {
        let mut changed = self.changed.subscribe();
        let _ = changed
            .wait_for(|()| self.lock().get(id).is_none_or(&holds))
            .await;
    }

    /// A new task, or the one that the message is about with the message in its history.
    fn take(&self, request: &SendMessage) -> Result<String, ServiceError> {
        let mut tasks = self.lock();
        let said = |context_id: &str| Message {
            message_id: request.message_id.clone(),
            context_id: Some(context_id.to_owned()),
            ..Message::new(Role::User, request.parts.clone())
        };
        let Some(id) = &request.task_id else {
            let number = tasks.len();
            let id = format!("task-{number:06}");
            let new = || format!("context-{number:06}");
            let context_id = request.context_id.clone().unwrap_or_else(new);
            let task = Task {
                id: id.clone(),
                history: Some(vec![said(&context_id)]),
                context_id,
                status: status(TaskState::Submitted, None),
                artifacts: None,
                metadata: None,
            };
            let feed = broadcast::Sender::new(BEHIND);
            let configs = BTreeMap::new();
            tasks.insert(id.clone(), Kept { task, configs, feed });
            return Ok(id);
        };
        let kept = tasks
            .get_mut(id)
            .ok_or_else(|| ServiceError::TaskNotFound(id.clone()))?;
        if kept.task.status.state.is_terminal() {
            return Err(ServiceError::TaskEnded(id.clone()));
        }
        if request
            .context_id
            .as_ref()
            .is_some_and(|context| *context != kept.task.context_id)
        {
            return Err(ServiceError::Invalid {
                field: "message.contextId",
                problem: "is not that of the task".to_owned(),
            });
        }
        let said = said(&kept.task.context_id);
        kept.task.history.get_or_insert_default().push(said);
        Ok(id.clone())
    }

    async fn run(self, id: String, message_id: String) {
        if is_followed(&message_id) {
            let followed = self.until(&id, |kept| kept.feed.receiver_count() > 0);
            let _ = tokio::time::timeout(PATIENCE, followed).await;
        }
        for step in steps(&message_id) {
            if let Step::Pause(time) = step {
                tokio::time::sleep(time).await;
                continue;
            }
            if !self.happens(&id, step) {
                return;
            }
        }
    }

    /// Writes a step down and tells it. False when the task has ended meanwhile.
    fn happens(&self, id: &str, step: Step) -> bool {
        let mut tasks = self.lock();
        let Some(kept) = tasks.get_mut(id) else {
            return false;
        };
        if kept.task.status.state.is_terminal() {
            return false;
        }
        let event = match step {
            Step::State(state, words) => kept.enters(state, words),
            Step::Artifact(part) => kept.gets(part, false),
            Step::Rest(part) => kept.gets(part, true),
            Step::Pause(_) => return true,
        };
        if matches!(event, StreamResponse::StatusUpdate(_)) {
            for config in kept.configs.values() {
                let (sender, config, task) = (self.sender.clone(), config.clone(), kept.task.clone());
                tokio::spawn(async move { sender.send(&config, task).await });
            }
        }
        // Nobody need follow it.
        let _ = kept.feed.send(Arc::new(event));
        drop(tasks);
        self.changed.send_replace(());
        true
    }
}

impl Kept {
    fn enters(&mut self, state: TaskState, words: Option<&str>) -> StreamResponse {
        self.task.status = status(state, words);
        StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
            task_id: self.task.id.clone(),
            context_id: self.task.context_id.clone(),
            status: self.task.status.clone(),
            metadata: None,
        })
    }

    fn gets(&mut self, part: Part, is_rest: bool) -> StreamResponse {
        let artifacts = self.task.artifacts.get_or_insert_default();
        match artifacts.last_mut().filter(|_| is_rest) {
            Some(artifact) => artifact.parts.push(part.clone()),
            None => artifacts.push(artifact(part.clone())),
        }
        StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
            task_id: self.task.id.clone(),
            context_id: self.task.context_id.clone(),
            artifact: artifact(part),
            append: Some(is_rest),
            last_chunk: is_rest.then_some(true),
            metadata: None,
        })
    }
}

fn artifact(part: Part) -> Artifact {
    Artifact {
        artifact_id: ARTIFACT.to_owned(),
        name: None,
        description: None,
        parts: vec![part],
        metadata: None,
        extensions: None,
    }
}

fn status(state: TaskState, words: Option<&str>) -> TaskStatus {
    TaskStatus {
        state,
        message: words.map(|words| Message::new(Role::Agent, vec![Part::text(words)])),
        timestamp: wire::timestamp(Timestamp::now()),
    }
}

/// Whether nothing more happens before somebody says something.
fn rests(task: &Task) -> bool {
    task.status.state.is_terminal() || task.status.state == TaskState::InputRequired
}

#[async_trait]
impl Service for Executor {
    async fn command(&self, _: &Caller, command: Command) -> Result<Value, ServiceError> {
        Ok(json!({ "asked": command.op().name() }))
    }

    async fn send_message(&self, _: &Caller, request: SendMessage) -> Result<Sent, ServiceError> {
        if let Some(words) = answered(&request.message_id) {
            let message = Message::new(Role::Agent, vec![Part::text(words)]);
            return Ok(Sent::Message(Box::new(message)));
        }
        let id = self.take(&request)?;
        if let Some(config) = request.push {
            self.add(&id, config)?;
        }
        tokio::spawn(self.clone().run(id.clone(), request.message_id));
        Ok(Sent::Task(id))
    }

    async fn ended(&self, task_id: &str) {
        self.until(task_id, |kept| rests(&kept.task)).await;
    }

    async fn get_task(&self, _: &Caller, request: GetTask) -> Result<Task, ServiceError> {
        let found = self.lock().get(&request.id).map(|kept| kept.task.clone());
        found.ok_or(ServiceError::TaskNotFound(request.id))
    }

    async fn list_tasks(&self, _: &Caller, request: ListTasks) -> Result<Listed, ServiceError> {
        let is_meant = |task: &&Task| {
            request
                .context_id
                .as_ref()
                .is_none_or(|context| task.context_id == *context)
                && request
                    .state
                    .as_ref()
                    .is_none_or(|state| task.status.state == *state)
        };
        let kept = self.lock();
        let mut tasks: Vec<Task> = kept
            .values()
            .map(|kept| &kept.task)
            .filter(is_meant)
            .cloned()
            .collect();
        tasks.sort_by_key(|task| std::cmp::Reverse(task.status.timestamp));
        let total = tasks.len() as u64;
        if let Some(token) = &request.page_token {
            let at = tasks.iter().position(|task| task.id == *token);
            let at = at.ok_or_else(|| ServiceError::Invalid {
                field: "pageToken",
                problem: "is none of this agent's".to_owned(),
            })?;
            tasks.drain(..=at);
        }
        let more = tasks.len() > request.page_size;
        tasks.truncate(request.page_size);
        let with_token = |task: Task| {
            let token = task.id.clone();
            (task, token)
        };
        Ok(Listed {
            tasks: tasks.into_iter().map(with_token).collect(),
            more,
            total,
        })
    }

    async fn cancel_task(&self, caller: &Caller, id: &str) -> Result<(), ServiceError> {
        let task = self.get_task(caller, GetTask { id: id.to_owned() }).await?;
        match task.status.state {
            TaskState::Canceled => Ok(()),
            _ if self.happens(id, Step::State(TaskState::Canceled, None)) => Ok(()),
            _ => Err(ServiceError::NotCancelable(id.to_owned())),
        }
    }

    async fn subscribe(&self, _: &Caller, id: &str) -> Result<Subscription, ServiceError> {
        let tasks = self.lock();
        let kept = tasks
            .get(id)
            .ok_or_else(|| ServiceError::TaskNotFound(id.to_owned()))?;
        let subscription = Subscription {
            task: kept.task.clone(),
            events: Some(kept.feed.subscribe()),
        };
        drop(tasks);
        self.changed.send_replace(());
        Ok(subscription)
    }

    fn push(&self) -> Option<&dyn PushConfigs> {
        Some(self)
    }
}

impl Executor {
    fn add(&self, task_id: &str, config: PushConfig) -> Result<(), ServiceError> {
        let config = config.of(task_id);
        self.with(task_id, |kept| {
            kept.configs.insert(config.id.clone(), config);
        })
    }
}

#[async_trait]
impl PushConfigs for Executor {
    async fn create(&self, _: &Caller, task_id: &str, config: PushConfig) -> Result<(), ServiceError> {
        self.sender.vet(&config.url, "url").await?;
        self.add(task_id, config)
    }

    async fn get(&self, _: &Caller, task_id: &str, id: &str) -> Result<PushConfig, ServiceError> {
        let found = self.with(task_id, |kept| kept.configs.get(id).cloned())?;
        found.ok_or_else(|| ServiceError::NoPushConfig(id.to_owned()))
    }

    async fn list(&self, _: &Caller, task_id: &str) -> Result<Vec<PushConfig>, ServiceError> {
        self.with(task_id, |kept| kept.configs.values().cloned().collect())
    }

    async fn delete(&self, _: &Caller, task_id: &str, id: &str) -> Result<(), ServiceError> {
        self.with(task_id, |kept| drop(kept.configs.remove(id)))
    }
}
