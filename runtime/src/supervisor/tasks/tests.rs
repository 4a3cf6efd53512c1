//! What no process test can bring about: a fault of our own in the middle of a task.

use agentd_a2a::wire;
use agentd_config::Document;
use agentd_store::MemoryStore;
use tokio::sync::mpsc;

use super::*;
use crate::metrics::Metrics;
use crate::supervisor::settings::Settings;
use crate::worker::pool::Pool;

/// Panics when a turn begins.
struct Broken(MemoryStore);

#[async_trait]
impl Store for Broken {
    async fn write(&self, batch: Vec<Write>) -> Result<(), StoreError> {
        self.0.write(batch).await
    }

    async fn conversation(&self, _: &str) -> Result<Option<Conversation>, StoreError> {
        panic!("a fault of ours")
    }

    async fn task(&self, id: &str) -> Result<Option<Task>, StoreError> {
        self.0.task(id).await
    }

    async fn task_of_message(&self, owner: &str, message_id: &str) -> Result<Option<String>, StoreError> {
        self.0.task_of_message(owner, message_id).await
    }

    async fn open_tasks(&self) -> Result<Vec<String>, StoreError> {
        self.0.open_tasks().await
    }
}

#[tokio::test]
async fn a_fault_of_ours_fails_its_task_and_the_conversation_goes_on() {
    let settings = Settings {
        generation: 1,
        document: Document::default(),
        digest: None,
    };
    let (_settings, settings) = watch::channel(Arc::new(settings));
    let (_servers, servers) = watch::channel(Arc::default());
    let runner = TurnRunner {
        pool: Pool::new("/does/not/exist".into()),
        instance: "a".into(),
        settings,
        identity: None,
        servers,
        suspects: mpsc::channel(1).0,
        human: None,
        metrics: Metrics::new().unwrap(),
    };
    let tasks = Tasks::new(
        Arc::new(Broken(MemoryStore::new())),
        Durability::Volatile,
        Arc::new(runner),
        agentd_base::id::uuids(),
        agentd_base::clock::system(),
    );
    let now = tasks.clock.now();
    for id in ["t1", "t2"] {
        let parts = [wire::Part::text("hi")];
        let task = submitted(id.into(), "c".into(), "spiffe://td/a", id, &parts, now);
        tasks.store.write(vec![Write::Task(task.clone())]).await.unwrap();
        tasks.admit(task);
    }
    for id in ["t1", "t2"] {
        let task = tasks.ended(id).await.unwrap();
        assert_eq!(task.state, TaskState::Failed, "{task:?}");
        assert!(task.status_message.unwrap().contains("fault"));
    }
    assert!(tasks.store.open_tasks().await.unwrap().is_empty());
}
