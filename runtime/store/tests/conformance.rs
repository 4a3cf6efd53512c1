//! What every engine must do: one function, run for each.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use std::sync::Arc;

use agentd_state::{Store, StoreError, TaskState, Write};
use agentd_store::{MemoryStore, SqliteStore};
use support::{conversation, note, task};

#[tokio::test]
async fn memory() {
    conformance(Arc::new(MemoryStore::new())).await;
}

#[tokio::test]
async fn sqlite() {
    let folder = tempfile::tempdir().unwrap();
    conformance(Arc::new(SqliteStore::open(folder.path()).unwrap())).await;
}

async fn conformance(store: Arc<dyn Store>) {
    nothing_is_there_at_first(&*store).await;
    what_was_written_is_read_back_whole(&*store).await;
    the_last_write_of_a_record_stands(&*store).await;
    a_batch_that_conflicts_leaves_nothing(&*store).await;
    message_ids_belong_to_their_owner(&*store).await;
    open_tasks_are_those_that_may_still_change(&*store).await;
    many_writers_at_once(store).await;
}

async fn nothing_is_there_at_first(store: &dyn Store) {
    assert_eq!(store.conversation("c").await.unwrap(), None);
    assert_eq!(store.task("t").await.unwrap(), None);
    assert_eq!(store.task_of_message("o", "m").await.unwrap(), None);
    assert_eq!(store.open_tasks().await.unwrap(), Vec::<String>::new());
    store.write(Vec::new()).await.unwrap();
}

async fn what_was_written_is_read_back_whole(store: &dyn Store) {
    let conversation = conversation("whole-c");
    let mut task = task("whole-t", TaskState::Completed, 1);
    task.status_message = Some("quotes \" and 'ticks', a \u{0}, 𝄞 and\nlines".into());
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
    assert_eq!(store.task_of_message("alice", "new").await.unwrap(), None);
    assert_eq!(
        store
            .task_of_message("alice", "conflict")
            .await
            .unwrap()
            .as_deref(),
        Some("first")
    );
    let twice = vec![note("alice", "twice", "a"), note("alice", "twice", "b")];
    assert!(matches!(store.write(twice).await, Err(StoreError::Conflict(_))));
    assert_eq!(store.task_of_message("alice", "twice").await.unwrap(), None);
}

async fn message_ids_belong_to_their_owner(store: &dyn Store) {
    store
        .write(vec![
            note("alice", "shared", "hers"),
            note("bob", "shared", "his"),
        ])
        .await
        .unwrap();
    assert_eq!(
        store.task_of_message("alice", "shared").await.unwrap().as_deref(),
        Some("hers")
    );
    assert_eq!(
        store.task_of_message("bob", "shared").await.unwrap().as_deref(),
        Some("his")
    );
    assert_eq!(store.task_of_message("carol", "shared").await.unwrap(), None);
}

async fn open_tasks_are_those_that_may_still_change(store: &dyn Store) {
    use TaskState::{Canceled, Completed, Failed, Rejected, Submitted, Working};
    let before = store.open_tasks().await.unwrap();
    let states = [Working, Completed, Submitted, Failed, Canceled, Rejected, Working];
    // Written youngest first: the order is that of their age.
    let tasks = states.iter().enumerate().rev();
    let batch = tasks
        .map(|(at, state)| Write::Task(task(&format!("open-{at}"), *state, 100 + at as i64)))
        .collect();
    store.write(batch).await.unwrap();
    let mut expected = before.clone();
    expected.extend(["open-0", "open-2", "open-6"].map(str::to_owned));
    assert_eq!(store.open_tasks().await.unwrap(), expected);
    let done = ["open-0", "open-2", "open-6"].map(|id| Write::Task(task(id, Completed, 100)));
    store.write(done.to_vec()).await.unwrap();
    assert_eq!(store.open_tasks().await.unwrap(), before);
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
