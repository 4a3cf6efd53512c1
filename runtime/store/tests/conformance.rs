//! What every engine must do: one function, run for each.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "conformance/entries.rs"]
mod entries;
#[path = "conformance/list.rs"]
mod list;
mod support;

use std::sync::Arc;

use std::time::Duration;

use agentd_base::clock::FixedClock;
use agentd_state::store::size;
use agentd_state::{Conversation, Retention, Store, StoreError, Task, TaskState, Write, conversation_key};
use agentd_store::{Kv, KvStore, MemoryStore, Owner, SqliteStore};
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use support::kv::{Held, TestKv};
use support::server::Server;
use support::{ALICE, ALL, conversation, note, open, task, task_of};

/// Makes an empty store.
type New<'a> = &'a dyn Fn(Retention) -> BoxFuture<'static, Arc<dyn Store>>;

#[tokio::test]
async fn memory() {
    conformance(&|retention| ready(Arc::new(MemoryStore::new(retention)) as Arc<dyn Store>).boxed()).await;
}

#[tokio::test]
async fn sqlite() {
    let parent = tempfile::tempdir().unwrap();
    let made = std::cell::Cell::new(0);
    conformance(&|retention| {
        made.set(made.get() + 1);
        let folder = parent.path().join(made.get().to_string());
        ready(Arc::new(SqliteStore::open(&folder, retention).unwrap()) as Arc<dyn Store>).boxed()
    })
    .await;
}

#[tokio::test]
async fn remote_keys() {
    for deletes in [true, false] {
        let new = |retention| {
            let kv = TestKv {
                deletes,
                ..TestKv::new(&Held::default())
            };
            opened(kv, retention).boxed()
        };
        conformance(&new).await;
    }
}

/// Each over a connection of its own to a real server.
#[tokio::test]
async fn mcp() {
    conformance(&|retention| {
        async move {
            let server = Server::start(&Held::default()).await;
            opened(server.mcp(Default::default()).await.unwrap(), retention).await
        }
        .boxed()
    })
    .await;
}

#[tokio::test]
async fn http() {
    conformance(&|retention| {
        async move {
            let server = Server::start(&Held::default()).await;
            opened(server.http(Default::default()), retention).await
        }
        .boxed()
    })
    .await;
}

async fn opened(kv: impl Kv, retention: Retention) -> Arc<dyn Store> {
    let owner = Owner {
        prefix: "agentd".into(),
        instance: "test".into(),
    };
    let clock = Arc::new(FixedClock::new(jiff::Timestamp::UNIX_EPOCH));
    Arc::new(KvStore::open(kv, &owner, retention, clock).await.unwrap())
}

async fn conformance(new: New<'_>) {
    let store = new(ALL).await;
    a_probe_leaves_nothing(&*store).await;
    nothing_is_there_at_first(&*store).await;
    what_was_written_is_read_back_whole(&*store).await;
    the_last_write_of_a_record_stands(&*store).await;
    a_batch_that_conflicts_leaves_nothing(&*store).await;
    message_ids_belong_to_their_owner(&*store).await;
    open_tasks_are_those_that_may_still_change(&*store).await;
    many_writers_at_once(store).await;
    what_ended_goes_after_its_time(new).await;
    what_ended_longest_ago_goes_when_there_is_too_much(new).await;
    entries::conformance(new).await;
    list::conformance(new).await;
}

async fn a_probe_leaves_nothing(store: &dyn Store) {
    for bytes in [0, 1, 3_000_000] {
        store.probe(bytes).await.unwrap();
    }
    assert_eq!(open(store).await, Vec::<String>::new());
}

async fn nothing_is_there_at_first(store: &dyn Store) {
    assert_eq!(store.conversation("c").await.unwrap(), None);
    assert_eq!(store.task("t").await.unwrap(), None);
    assert_eq!(store.message("o", "m").await.unwrap(), None);
    assert_eq!(open(store).await, Vec::<String>::new());
    store.write(Vec::new()).await.unwrap();
}

async fn what_was_written_is_read_back_whole(store: &dyn Store) {
    let conversation = conversation("whole-c");
    let mut task = task("whole-t", TaskState::Completed, 1);
    task.status_message = Some("quotes \" and 'ticks', a \u{0}, 𝄞 and\nlines".into());
    task.asked = task.history.first().cloned();
    store
        .write(vec![
            Write::Conversation(conversation.clone()),
            Write::Task(task.clone()),
        ])
        .await
        .unwrap();
    assert_eq!(store.conversation("whole-c").await.unwrap(), Some(conversation));
    assert_eq!(store.task("whole-t").await.unwrap(), Some(task));
    assert_eq!(store.task("whole-T").await.unwrap(), None, "ids are exact");
    assert_eq!(store.task("whole-t' OR 1=1 --").await.unwrap(), None);
}

async fn the_last_write_of_a_record_stands(store: &dyn Store) {
    let first = task("last", TaskState::Working, 2);
    let mut second = task("last", TaskState::Completed, 2);
    second.owner = "spiffe://td/ns/a/sa/other".into();
    store
        .write(vec![Write::Task(first), Write::Task(second.clone())])
        .await
        .unwrap();
    assert_eq!(store.task("last").await.unwrap(), Some(second));
}

async fn a_batch_that_conflicts_leaves_nothing(store: &dyn Store) {
    store
        .write(vec![note("alice", "conflict", "first")])
        .await
        .unwrap();
    let batch = vec![
        Write::Task(task("from-conflict", TaskState::Submitted, 3)),
        note("alice", "new", "from-conflict"),
        note("alice", "conflict", "from-conflict"),
        Write::Conversation(conversation("from-conflict")),
    ];
    let error = store.write(batch).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    assert_eq!(error.to_string(), "already stored: message conflict of alice");
    assert_eq!(store.task("from-conflict").await.unwrap(), None);
    assert_eq!(store.conversation("from-conflict").await.unwrap(), None);
    assert_eq!(task_of(store, "alice", "new").await, None);
    assert_eq!(
        task_of(store, "alice", "conflict").await.as_deref(),
        Some("first")
    );
    let twice = vec![note("alice", "twice", "a"), note("alice", "twice", "b")];
    assert!(matches!(store.write(twice).await, Err(StoreError::Conflict(_))));
    assert_eq!(task_of(store, "alice", "twice").await, None);
}

async fn message_ids_belong_to_their_owner(store: &dyn Store) {
    store
        .write(vec![
            note("alice", "shared", "hers"),
            note("bob", "shared", "his"),
        ])
        .await
        .unwrap();
    assert_eq!(task_of(store, "alice", "shared").await.as_deref(), Some("hers"));
    assert_eq!(task_of(store, "bob", "shared").await.as_deref(), Some("his"));
    assert_eq!(task_of(store, "carol", "shared").await, None);
}

async fn open_tasks_are_those_that_may_still_change(store: &dyn Store) {
    use TaskState::{AuthRequired, Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working};
    let before = open(store).await;
    let states = [
        Working,
        Completed,
        Submitted,
        Failed,
        Canceled,
        Rejected,
        Working,
        InputRequired,
        AuthRequired,
    ];
    // Written youngest first: the order is that of their age.
    let tasks = states.iter().enumerate().rev();
    let batch = tasks
        .map(|(at, state)| Write::Task(task(&format!("open-{at}"), *state, 100 + at as i64)))
        .collect();
    store.write(batch).await.unwrap();
    let mut expected = before.clone();
    let ids = ["open-0", "open-2", "open-6", "open-7", "open-8"];
    expected.extend(ids.map(str::to_owned));
    assert_eq!(open(store).await, expected);
    let done = ids.map(|id| Write::Task(task(id, Completed, 100)));
    store.write(done.to_vec()).await.unwrap();
    assert_eq!(open(store).await, before);
}

/// All are answered, each with its own outcome: a conflict is felt by the one who caused it.
async fn many_writers_at_once(store: Arc<dyn Store>) {
    let writers: Vec<_> = (0..300)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let id = format!("many-{n}");
                let key = format!("many-{}", n % 100);
                let batch = vec![
                    Write::Task(task(&id, TaskState::Completed, n)),
                    note("alice", &key, &id),
                ];
                let outcome = store.write(batch).await;
                assert_eq!(
                    store.task(&id).await.unwrap().is_some(),
                    outcome.is_ok(),
                    "{id}: {outcome:?}"
                );
                outcome.is_ok()
            })
        })
        .collect();
    let mut written = 0;
    for writer in writers {
        written += usize::from(writer.await.unwrap());
    }
    assert_eq!(written, 100);
}

/// A task of this age in a conversation of its own, the conversation, and its message id.
fn ended(id: &str, context: &str, age: i64) -> Vec<Write> {
    let task = Task {
        context_id: context.into(),
        ..task(id, TaskState::Completed, age)
    };
    let conversation = Conversation {
        id: conversation_key(ALICE, context),
        ..conversation("")
    };
    vec![
        Write::Task(task),
        Write::Conversation(conversation),
        note(ALICE, &format!("m-{id}"), id),
    ]
}

/// Which of these tasks are there; a task's message id is there as long as it is, and no longer.
async fn left(store: &dyn Store, ids: &[&'static str]) -> Vec<&'static str> {
    let mut left = Vec::new();
    for id in ids {
        let there = store.task(id).await.unwrap().is_some();
        let noted = task_of(store, ALICE, &format!("m-{id}")).await;
        assert_eq!(noted.is_some(), there, "{id}");
        if there {
            left.push(*id);
        }
    }
    left
}

async fn conversations(store: &dyn Store, contexts: &[&'static str]) -> Vec<&'static str> {
    let mut left = Vec::new();
    for context in contexts {
        let key = conversation_key(ALICE, context);
        if store.conversation(&key).await.unwrap().is_some() {
            left.push(*context);
        }
    }
    left
}

async fn what_ended_goes_after_its_time(new: New<'_>) {
    let store = new(Retention {
        age: Duration::from_micros(100),
        ..ALL
    })
    .await;
    let waiting = Task {
        context_id: "kept".into(),
        ..task("open", TaskState::Submitted, 0)
    };
    store
        .write(vec![Write::Task(waiting), note(ALICE, "m-open", "open")])
        .await
        .unwrap();
    store.write(ended("a", "gone", 1)).await.unwrap();
    store.write(ended("b", "kept", 2)).await.unwrap();
    store.write(ended("c", "other", 50)).await.unwrap();
    let (all, contexts) = (["open", "a", "b", "c", "d"], ["gone", "kept", "other"]);
    assert_eq!(left(&*store, &all).await, ["open", "a", "b", "c"]);
    // A write that ends nothing drops nothing, however late it is.
    let late = task("late", TaskState::Working, 1_000_000);
    store.write(vec![Write::Task(late)]).await.unwrap();
    assert_eq!(left(&*store, &all).await, ["open", "a", "b", "c"]);
    store.write(ended("d", "other", 120)).await.unwrap();
    assert_eq!(left(&*store, &all).await, ["open", "c", "d"]);
    // A conversation goes with its last task, and an open task is one.
    assert_eq!(conversations(&*store, &contexts).await, ["kept", "other"]);
    // The message id of what is gone is as good as new.
    store.write(ended("a", "gone", 121)).await.unwrap();
    assert_eq!(left(&*store, &all).await, ["open", "a", "c", "d"]);
}

async fn what_ended_longest_ago_goes_when_there_is_too_much(new: New<'_>) {
    let one: u64 = ended("a", "1", 1)
        .iter()
        .map(|write| match write {
            Write::Task(task) => size(task),
            Write::Conversation(conversation) => size(conversation),
            Write::MessageId { .. } | Write::Entry(_) | Write::DropEntry { .. } => 0,
        })
        .sum();
    let store = new(Retention {
        bytes: one * 3,
        ..ALL
    })
    .await;
    // What is open counts nothing and stays, however much it is.
    let mut large = task("open", TaskState::Working, 0);
    large.artifacts = vec!["x".repeat(100_000).into()];
    store
        .write(vec![Write::Task(large.clone()), note(ALICE, "m-open", "open")])
        .await
        .unwrap();
    let (all, contexts) = (["open", "a", "b", "c", "d", "e"], ["1", "2", "3", "4", "5"]);
    for (number, id) in ["a", "b", "c", "d", "e"].iter().enumerate() {
        // Written again with the same end: it is counted once.
        for _ in 0..2 {
            let mut batch = ended(id, contexts[number], number as i64);
            if store.message(ALICE, &format!("m-{id}")).await.unwrap().is_some() {
                batch.pop();
            }
            store.write(batch).await.unwrap();
        }
    }
    assert_eq!(left(&*store, &all).await, ["open", "c", "d", "e"]);
    assert_eq!(conversations(&*store, &contexts).await, ["3", "4", "5"]);
    // It ends, and is more than all that may be kept: what ended before it goes, and then it.
    large.state = TaskState::Completed;
    large.updated_at = "2028-01-01T00:00:00Z".parse().unwrap();
    store.write(vec![Write::Task(large)]).await.unwrap();
    assert_eq!(left(&*store, &all).await, Vec::<&str>::new());
    assert_eq!(conversations(&*store, &contexts).await, Vec::<&str>::new());
    // Nothing of it is counted any more.
    for (number, id) in ["a", "b", "c"].iter().enumerate() {
        store
            .write(ended(id, contexts[number], number as i64))
            .await
            .unwrap();
    }
    assert_eq!(left(&*store, &all).await, ["a", "b", "c"]);
}
