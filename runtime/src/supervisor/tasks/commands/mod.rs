//! Carries out what callers ask of the agent itself. What is read here is kept nowhere and makes no task; what is
//! another principal's is looked for by the code that finds nothing.

mod told;

use agentd_a2a::command::{Context, member};
use agentd_a2a::{Caller, Command, ServiceError};
use agentd_state::{StoreError, TaskMark, TaskPage, TaskQuery, conversation_key};
use serde_json::{Value, json};

use super::service::{mark, token};
use super::{Tasks, unavailable};
use crate::supervisor::settings::current;

impl Tasks {
    /// The result of a command.
    pub(super) async fn command(&self, caller: &Caller, command: Command) -> Result<Value, ServiceError> {
        match command {
            Command::Status => Ok(self.told_status(caller)),
            Command::Config => {
                let settings = current(&self.runner.settings);
                Ok(told::config(&settings))
            }
            Command::RunGet { run } => Ok(told::run(&self.visible(caller, &run).await?)),
            Command::ConversationGet {
                context,
                page_size,
                page_token,
            } => {
                self.told_conversation(caller, context, page_size, page_token)
                    .await
            }
            Command::PlanGet { context } => {
                let owner = self.owner_of(caller, &context).await?;
                let conversation = conversation_key(&owner, &context.id);
                let plan = self.runner.office.plan_told(&conversation).await;
                plan.map_err(|error| unavailable(&error))
            }
            Command::SubagentStatus { handle, context } => self.told_subagent(caller, &handle, context).await,
            Command::Workflows => Ok(json!({ "workflows": [] })),
            Command::Workflow { named, .. } => Err(ServiceError::Invalid {
                field: named,
                problem: "names nothing: this agent has no workflows".to_owned(),
            }),
        }
    }

    fn told_status(&self, caller: &Caller) -> Value {
        let (pending, queued) = self.waiting();
        let office = &self.runner.office;
        let (subagents, ..) = office.extent_of_subagents();
        let servers = office.servers.borrow().clone();
        let now = told::Now {
            instance: &self.runner.instance,
            settings: &current(&self.runner.settings),
            is_draining: self.closed.is_cancelled(),
            turns: self.slots.taken(),
            pending,
            queued,
            subagents,
            budget: office.budget.remaining(),
            servers: &servers,
        };
        // What others do is told to operators alone.
        now.told(caller.only().is_none())
    }

    async fn told_conversation(
        &self,
        caller: &Caller,
        context: Context,
        page_size: usize,
        page_token: Option<String>,
    ) -> Result<Value, ServiceError> {
        let owner = self.owner_of(caller, &context).await?;
        let after = match page_token {
            None => None,
            Some(text) => Some(mark(&text).ok_or(ServiceError::Invalid {
                field: member::PAGE_TOKEN,
                problem: "is none that this agent gave; leave it out to begin with the first page".to_owned(),
            })?),
        };
        let page = self
            .tasks_of(Some(owner.clone()), &context.id, after, page_size)
            .await;
        let page = page.map_err(|error| unavailable(&error))?;
        if page.total == 0 {
            return Err(no_conversation());
        }
        let next = page
            .tasks
            .last()
            .filter(|_| page.more)
            .map(|task| token(&TaskMark::of(task)));
        let tasks: Vec<Value> = page.tasks.iter().map(told::said).collect();
        Ok(json!({
            "contextId": context.id,
            "owner": owner,
            "tasks": tasks,
            "totalSize": page.total,
            "nextPageToken": next.unwrap_or_default(),
        }))
    }

    async fn told_subagent(
        &self,
        caller: &Caller,
        handle: &str,
        context: Option<Context>,
    ) -> Result<Value, ServiceError> {
        let root = match &context {
            None => None,
            Some(context) => {
                let owner = self.owner_of(caller, context).await?;
                Some((conversation_key(&owner, &context.id), owner))
            }
        };
        let found = self.runner.office.subagent_told(handle, root).await;
        let found = found.map_err(|error| unavailable(&error))?;
        let found = caller.theirs(handle, found, |(owner, _)| owner);
        found.map(|(_, told)| told).map_err(|_| ServiceError::Invalid {
            field: member::HANDLE,
            problem: "names no subagent that lives; for one that has ended name its contextId too".to_owned(),
        })
    }

    /// Whose conversation is meant: for an operator who does not say, that of whoever used the context last.
    async fn owner_of(&self, caller: &Caller, context: &Context) -> Result<String, ServiceError> {
        match (caller.only(), &context.owner) {
            (Some(only), _) => Ok(only.to_owned()),
            (None, Some(owner)) => Ok(owner.clone()),
            (None, None) => {
                let page = self.tasks_of(None, &context.id, None, 1).await;
                let page = page.map_err(|error| unavailable(&error))?;
                let newest = page.tasks.into_iter().next();
                newest.map(|task| task.owner).ok_or_else(no_conversation)
            }
        }
    }

    async fn tasks_of(
        &self,
        owner: Option<String>,
        context_id: &str,
        after: Option<TaskMark>,
        limit: usize,
    ) -> Result<TaskPage, StoreError> {
        let query = TaskQuery {
            owner,
            context_id: Some(context_id.to_owned()),
            state: None,
            since: None,
            after,
            limit,
        };
        self.store.tasks(query).await
    }
}

fn no_conversation() -> ServiceError {
    ServiceError::Invalid {
        field: member::CONTEXT,
        problem: "names no conversation".to_owned(),
    }
}
