//! What no process test can bring about when it wants to: a fault of our own in the middle of a task, a store that fails
//! at a certain write.

use agentd_a2a::{Principals, Role, SendMessage, wire};
use agentd_agent::budget::Counters;
use agentd_agent::{Held, Holder, Reply, Request, TurnLimits};
use agentd_config::Document;
use agentd_config::document::Principal;
use agentd_mcp::supervised::Lines;
use agentd_state::{Conversation, EntryKind, EntryPage, EntryQuery, Noted, Retention, TaskPage, TaskQuery};
use agentd_store::MemoryStore;
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::metrics::{Metrics, Process};
use crate::supervisor::budget::Budget;
use crate::supervisor::office::{self, Office};
use crate::supervisor::settings::Settings;
use crate::supervisor::subagents::Subagents;
use crate::worker::pool::Pool;

mod refused;

use self::refused::Never;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Nothing,
    /// A read of a conversation panics.
    Panic,
    /// No task can end.
    Ends,
    /// Nothing can be written.
    Full,
    /// A write takes a minute.
    Stuck,
    /// The store never takes this.
    Never(Never),
}

/// A store in trouble.
struct Troubled {
    store: MemoryStore,
    trouble: Mutex<Trouble>,
}

impl Troubled {
    fn new(trouble: Trouble) -> Arc<Self> {
        Arc::new(Self {
            store: MemoryStore::new(Retention::MEMORY),
            trouble: Mutex::new(trouble),
        })
    }

    fn set(&self, trouble: Trouble) {
        *lock(&self.trouble) = trouble;
    }

    /// Whatever it does not take, it takes something else.
    fn takes_others(&self) -> bool {
        match *lock(&self.trouble) {
            Trouble::Nothing => true,
            Trouble::Never(never) => never != Never::Everything,
            _ => false,
        }
    }

    fn has(&self, trouble: Trouble) -> bool {
        *lock(&self.trouble) == trouble
    }
}

fn full() -> StoreError {
    StoreError::Unavailable("/secret/path is full".into())
}

#[async_trait]
impl Store for Troubled {
    async fn write(&self, batch: Vec<Write>) -> Result<(), StoreError> {
        if self.has(Trouble::Stuck) {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        if let Trouble::Never(never) = *lock(&self.trouble)
            && let Some(error) = never.says_of(&batch)
        {
            return Err(error);
        }
        let ends = |write: &Write| matches!(write, Write::Task(task) if task.state.is_terminal());
        if self.has(Trouble::Full) || self.has(Trouble::Ends) && batch.iter().any(ends) {
            return Err(full());
        }
        self.store.write(batch).await
    }

    async fn conversation(&self, id: &str) -> Result<Option<Conversation>, StoreError> {
        assert!(!self.has(Trouble::Panic), "a fault of ours");
        self.store.conversation(id).await
    }

    async fn task(&self, id: &str) -> Result<Option<Task>, StoreError> {
        self.store.task(id).await
    }

    async fn message(&self, owner: &str, message_id: &str) -> Result<Option<Noted>, StoreError> {
        self.store.message(owner, message_id).await
    }

    async fn open_tasks(&self) -> Result<Vec<OpenTask>, StoreError> {
        self.store.open_tasks().await
    }

    async fn tasks(&self, query: TaskQuery) -> Result<TaskPage, StoreError> {
        self.store.tasks(query).await
    }

    async fn entry(
        &self,
        kind: EntryKind,
        scope: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<agentd_state::Entry>, StoreError> {
        // As a store that takes its time: others go on meanwhile.
        tokio::task::yield_now().await;
        self.store.entry(kind, scope, key, now).await
    }

    async fn entries(&self, query: EntryQuery, now: Timestamp) -> Result<EntryPage, StoreError> {
        self.store.entries(query, now).await
    }

    async fn probe(&self, bytes: u64) -> Result<(), StoreError> {
        if self.has(Trouble::Stuck) {
            std::future::pending::<()>().await;
        }
        if self.takes_others() {
            self.store.probe(bytes).await
        } else {
            Err(full())
        }
    }
}

/// An agent whose every turn fails, since there is no program to run it.
struct World {
    store: Arc<Troubled>,
    readiness: Readiness,
    tasks: Arc<Tasks>,
}

fn world(trouble: Trouble) -> World {
    let settings = Settings {
        generation: 1,
        document: Document::default(),
        digest: None,
    };
    let (store, readiness) = (Troubled::new(trouble), Readiness::new());
    let settings = watch::Sender::new(Arc::new(settings)).subscribe();
    let office = Office {
        instance: "a".into(),
        settings: settings.clone(),
        store: store.clone(),
        budget: Budget::new(
            Counters::default(),
            store.clone(),
            agentd_base::clock::system(),
            settings.clone(),
        ),
        clock: agentd_base::clock::system(),
        ids: agentd_base::id::uuids(),
        servers: watch::Sender::new(Arc::default()).subscribe(),
        human: None,
        runner: std::sync::Weak::new(),
        subagents: Subagents::default(),
        lines: Lines::default(),
        tasks: std::sync::OnceLock::new(),
        remembering: tokio::sync::Mutex::default(),
        changes: crate::supervisor::office::Changes::default(),
        instruction: crate::supervisor::instruction::Standing::default(),
    };
    let runner = TurnRunner {
        pool: Pool::new("/does/not/exist".into(), Arc::default()),
        instance: "a".into(),
        settings,
        identity: None,
        servers: watch::Sender::new(Arc::default()).subscribe(),
        suspects: mpsc::channel(1).0,
        human: None,
        office: Arc::new(office),
        metrics: Metrics::new(Process::Agent).unwrap(),
    };
    let tasks = Tasks::new(
        store.clone(),
        Durability::Volatile,
        Arc::new(runner),
        agentd_base::id::uuids(),
        agentd_base::clock::system(),
        readiness.clone(),
    );
    World {
        store,
        readiness,
        tasks,
    }
}

const ALICE: &str = "spiffe://td/ns/a/sa/alice";
const BOB: &str = "spiffe://td/ns/a/sa/bob";

fn caller(id: &str) -> Caller {
    let listed = Principals::new(&[Principal::with_spiffe_id("one", id, Role::Agent)]);
    listed.caller(&id.parse().unwrap()).unwrap().clone()
}

fn message(id: &str, context: &str, text: &str) -> SendMessage {
    SendMessage {
        message_id: id.into(),
        context_id: Some(context.into()),
        task_id: None,
        parts: vec![wire::Part::text(text)],
        return_immediately: true,
        push: None,
        trace: None,
    }
}

impl World {
    async fn send(&self, id: &str, text: &str) -> Result<String, ServiceError> {
        let alice = caller(ALICE);
        self.tasks.accept(alice.key(), message(id, "c", text)).await
    }

    async fn task(&self, id: &str) -> Task {
        self.store.task(id).await.unwrap().unwrap()
    }

    /// Takes every slot, so that no turn begins.
    async fn busy(&self) -> Vec<super::slots::Slot<'_>> {
        let mut taken = Vec::new();
        for _ in 0..agentd_config::defaults::PARALLEL_TURNS {
            taken.push(self.tasks.slots.take().await.unwrap());
        }
        taken
    }

    async fn until(&self, condition: impl Fn(&Self) -> bool) {
        while !condition(self) {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_fault_of_ours_fails_its_task_and_the_conversation_goes_on() {
    let world = world(Trouble::Panic);
    for id in ["m1", "m2"] {
        let id = world.send(id, "hi").await.unwrap();
        world.tasks.ended(&id).await;
        let task = world.task(&id).await;
        assert_eq!(task.state, TaskState::Failed, "{task:?}");
        assert!(task.status_message.unwrap().contains("fault"));
    }
    assert!(world.store.open_tasks().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn while_the_store_cannot_be_written_the_agent_is_not_ready_and_says_so() {
    let world = world(Trouble::Full);
    let refused = world.send("m1", "hi").await.unwrap_err();
    assert_eq!(refused, away(Away::Store, &full().to_string()));
    let blocked = ["store: the last write failed or hangs; it is tried again until one succeeds"];
    assert_eq!(world.readiness.blockers(), blocked);
    // Nobody writes, and the clock runs: as long as there is no room it stays so.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.readiness.blockers(), blocked);
    // Room is found without anybody's write.
    world.store.set(Trouble::Nothing);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(world.readiness.blockers(), Vec::<String>::new());
    // A refused message left nothing behind: sent again it is accepted.
    let id = world.send("m1", "hi").await.unwrap();
    world.tasks.ended(&id).await;
    assert_eq!(world.task(&id).await.state, TaskState::Failed);
    // A write that succeeds is enough, whoever made it.
    world.store.set(Trouble::Full);
    world.send("m2", "hi").await.unwrap_err();
    assert_eq!(world.readiness.blockers(), blocked);
    world.store.set(Trouble::Nothing);
    world.send("m2", "hi").await.unwrap();
    assert_eq!(world.readiness.blockers(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ended_while_the_store_was_full_is_stored_when_there_is_room() {
    let world = world(Trouble::Ends);
    let id = world.send("m1", "hi").await.unwrap();
    world.until(|world| !world.readiness.blockers().is_empty()).await;
    assert_eq!(world.task(&id).await.state, TaskState::Working);
    world.store.set(Trouble::Full);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.task(&id).await.state, TaskState::Working);
    world.store.set(Trouble::Nothing);
    world.tasks.ended(&id).await;
    assert_eq!(world.task(&id).await.state, TaskState::Failed);
    assert_eq!(world.readiness.blockers(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_turn_comes_while_the_store_is_full_waits_for_it() {
    let world = world(Trouble::Nothing);
    let slots = world.busy().await;
    let id = world.send("m1", "hi").await.unwrap();
    world.store.set(Trouble::Full);
    drop(slots);
    world.until(|world| !world.readiness.blockers().is_empty()).await;
    assert_eq!(world.task(&id).await.state, TaskState::Submitted);
    world.store.set(Trouble::Nothing);
    world.tasks.ended(&id).await;
    let task = world.task(&id).await;
    assert!(
        task.status_message
            .as_ref()
            .unwrap()
            .contains("no worker process"),
        "its turn began: {task:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_is_noticed_and_not_given_up() {
    let world = world(Trouble::Stuck);
    let sending = world.send("m1", "hi");
    tokio::pin!(sending);
    let soon = tokio::time::timeout(Duration::from_secs(11), &mut sending).await;
    assert!(soon.is_err(), "{soon:?}");
    assert_eq!(world.readiness.blockers().len(), 1);
    world.store.set(Trouble::Nothing);
    let id = sending.await.unwrap();
    assert_eq!(world.readiness.blockers(), Vec::<String>::new());
    world.tasks.ended(&id).await;
    assert_eq!(world.task(&id).await.state, TaskState::Failed);
}

#[tokio::test]
async fn a_message_id_stands_for_one_message() {
    let world = world(Trouble::Nothing);
    let id = world.send("m1", "hi").await.unwrap();
    assert_eq!(world.send("m1", "hi").await, Ok(id.clone()));
    let other_text = world.send("m1", "ho").await.unwrap_err();
    let alice = caller(ALICE);
    let other_context = world
        .tasks
        .accept(alice.key(), message("m1", "d", "hi"))
        .await
        .unwrap_err();
    assert_eq!(other_text, other_context);
    let ServiceError::Invalid { field, problem } = other_text else {
        panic!("{other_text:?}");
    };
    assert_eq!(field, "message.messageId");
    assert!(
        problem.starts_with("was used for a message with other parts"),
        "{problem}"
    );
    // Another caller has ids of its own.
    let bob = caller(BOB);
    let theirs = world
        .tasks
        .accept(bob.key(), message("m1", "c", "ho"))
        .await
        .unwrap();
    assert_ne!(theirs, id);
}

#[tokio::test]
async fn what_was_taken_up_after_a_restart_counts_against_the_bounds() {
    let world = world(Trouble::Nothing);
    // Nothing begins.
    let _slots = world.busy().await;
    let large = "x".repeat(9 * 1024 * 1024);
    let before = submitted(
        "before".into(),
        String::new,
        ALICE,
        message("m0", "other", &large),
        world.tasks.clock.now(),
    );
    world.store.write(vec![Write::Task(before)]).await.unwrap();
    world.tasks.restore().await.unwrap();
    let refused = world.send("m1", "hi").await.unwrap_err();
    assert_eq!(
        refused,
        away(Away::Full, "too many messages of this caller wait already")
    );
    assert_eq!(
        world.store.message(ALICE, "m1").await.unwrap(),
        None,
        "it left nothing"
    );
}

/// Who counts the messages that lead to one another is this agent, whatever a caller calls its own.
#[tokio::test]
async fn m2_what_a_caller_calls_its_message_says_nothing_of_what_led_to_it() {
    let world = world(Trouble::Nothing);
    let theirs = world.send("agentd/4294967295/x", "hi").await.unwrap();
    assert_eq!(world.task(&theirs).await.hops, 0);
    let trace = agentd_base::trace::TraceContext::of_run("r", None);
    let ours = world
        .tasks
        .deliver(ALICE, None, "m".into(), "hi".into(), 3, trace)
        .await;
    let ours = world.task(&ours.unwrap()).await;
    assert_eq!((ours.hops, ours.trace), (3, Some(trace)));
}

#[tokio::test]
async fn m2_two_changes_of_one_plan_at_the_same_time_both_stand() {
    let world = world(Trouble::Nothing);
    let limits = TurnLimits {
        steps: 10,
        tokens: 10,
        deadline: Duration::from_secs(60),
    };
    let turn = Arc::new(office::Caller {
        owner: ALICE.into(),
        root: "c".into(),
        conversation: "c".into(),
        run_id: "r".into(),
        holder: Holder::Root,
        held: Held::All,
        depth: 0,
        hops: 0,
        origin: crate::origin::Origin::agent("a", None),
        until: tokio::time::Instant::now() + limits.deadline,
        spent: office::Spent::new(limits, None),
    });
    let ask = |tool: &str, arguments: serde_json::Value| {
        let request = Request::of_tool(tool, arguments.as_object().unwrap().clone()).unwrap();
        world.tasks.runner.office.clone().carry_out(turn.clone(), request)
    };
    ask("plan.create", json!({"goal": "tea", "items": ["boil", "pour"]})).await;
    let done = |item: u32| ask("plan.update", json!({"item": item, "status": "done"}));
    tokio::join!(done(1), done(2));
    match ask("plan.get", json!({})).await {
        Reply::Done(plan) => {
            let items = plan["items"].as_array().unwrap();
            assert!(items.iter().all(|item| item["status"] == "done"), "{plan}");
        }
        other => panic!("{other:?}"),
    }
}
