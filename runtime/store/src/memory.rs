//! State that is gone with the process: for one-shot runs and where a person chose it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use agentd_state::{Conversation, Store, StoreError, Task, Write};
use async_trait::async_trait;

/// The store. A batch is applied under one lock, so it is seen whole or not at all.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    conversations: HashMap<String, Conversation>,
    tasks: HashMap<String, Task>,
    message_ids: HashMap<(String, String), String>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn check(&self, batch: &[Write]) -> Result<(), StoreError> {
        let mut new = HashSet::new();
        for write in batch {
            if let Write::MessageId {
                owner, message_id, ..
            } = write
            {
                let key = (owner.clone(), message_id.clone());
                if self.message_ids.contains_key(&key) || !new.insert(key) {
                    return Err(crate::sqlite::taken(owner, message_id));
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, batch: Vec<Write>) {
        for write in batch {
            match write {
                Write::Conversation(conversation) => {
                    self.conversations.insert(conversation.id.clone(), conversation);
                }
                Write::Task(task) => {
                    self.tasks.insert(task.id.clone(), task);
                }
                Write::MessageId {
                    owner,
                    message_id,
                    task_id,
                } => {
                    self.message_ids.insert((owner, message_id), task_id);
                }
            }
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn write(&self, batch: Vec<Write>) -> Result<(), StoreError> {
        self.with(|state| {
            state.check(&batch)?;
            state.apply(batch);
            Ok(())
        })
    }

    async fn conversation(&self, id: &str) -> Result<Option<Conversation>, StoreError> {
        Ok(self.with(|state| state.conversations.get(id).cloned()))
    }

    async fn task(&self, id: &str) -> Result<Option<Task>, StoreError> {
        Ok(self.with(|state| state.tasks.get(id).cloned()))
    }

    async fn task_of_message(&self, owner: &str, message_id: &str) -> Result<Option<String>, StoreError> {
        let key = (owner.to_owned(), message_id.to_owned());
        Ok(self.with(|state| state.message_ids.get(&key).cloned()))
    }

    async fn open_tasks(&self) -> Result<Vec<String>, StoreError> {
        let mut open: Vec<_> = self.with(|state| {
            let open = state.tasks.values().filter(|task| !task.state.is_terminal());
            open.map(|task| (task.created_at, task.id.clone())).collect()
        });
        open.sort();
        Ok(open.into_iter().map(|(_, id)| id).collect())
    }
}
