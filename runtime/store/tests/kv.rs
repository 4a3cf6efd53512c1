//! What the engine over remote keys alone must do: lose nothing and tear nothing when it or its server ends between any
//! two requests, notice that another process has the store, say what is wrong.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use std::sync::Arc;

use agentd_base::class::{Class, Classified as _};
use agentd_base::clock::FixedClock;
use agentd_state::{
    Conversation, Entry, EntryKind, EntryPage, EntryQuery, Noted, Retention, Store, StoreError, Task,
    TaskState, Write, conversation_key,
};
use agentd_store::kv::KvError;
use agentd_store::{KvStore, MemoryStore, Owner};
use jiff::Timestamp;
use support::kv::{End, Held, TestKv};
use support::{ALICE, ALL, conversation, note, task};

fn owner() -> Owner {
    Owner {
        prefix: "agentd".into(),
        instance: "test".into(),
    }
}

/// Before all of the tests' tasks: what expires does so by the writes' own times.
fn clock() -> Arc<FixedClock> {
    Arc::new(FixedClock::new(Timestamp::UNIX_EPOCH))
}

async fn open(kv: TestKv, retention: Retention) -> Result<KvStore, StoreError> {
    KvStore::open(kv, &owner(), retention, clock()).await
}

fn entry(kind: EntryKind, scope: &str, key: &str, age: i64, expires: Option<i64>) -> Write {
    let at = |age| task("", TaskState::Working, age).updated_at;
    Write::Entry(Entry {
        kind,
        scope: scope.into(),
        key: key.into(),
        value: format!("{key} at {age}").into(),
        expires_at: expires.map(at),
        updated_at: at(age),
    })
}

const KEEP: Retention = Retention {
    age: std::time::Duration::from_micros(100),
    ..ALL
};

/// Batches of all kinds, among them ones that drop, replace, let others expire, and end tasks whose retention is over.
fn batches() -> Vec<Vec<Write>> {
    let in_context = |context: &str, task: Task| Task {
        context_id: context.into(),
        ..task
    };
    let talk = |context: &str| Conversation {
        id: conversation_key(ALICE, context),
        ..conversation("")
    };
    let plan = conversation_key(ALICE, "one");
    let begun = |state, age| Write::Task(in_context("one", task("a", state, age)));
    vec![
        vec![begun(TaskState::Submitted, 1), note(ALICE, "m-a", "a")],
        vec![begun(TaskState::Working, 2)],
        vec![
            entry(EntryKind::Plan, &plan, "", 3, None),
            entry(EntryKind::Memory, ALICE, "brief", 3, Some(50)),
            entry(EntryKind::Memory, ALICE, "long", 3, None),
        ],
        vec![begun(TaskState::Completed, 4), Write::Conversation(talk("one"))],
        vec![
            Write::DropEntry {
                kind: EntryKind::Memory,
                scope: ALICE.into(),
                key: "long".into(),
            },
            entry(EntryKind::Budget, "instance", "day", 5, None),
        ],
        vec![
            Write::Task(in_context("two", task("b", TaskState::Submitted, 6))),
            note(ALICE, "m-b", "b"),
        ],
        // Later than the expiry.
        vec![entry(EntryKind::Memory, ALICE, "long", 60, None)],
        // Later than the retention: the first task, its message id, its conversation and plan go.
        vec![
            Write::Task(in_context("two", task("b", TaskState::Completed, 200))),
            Write::Conversation(talk("two")),
        ],
        // The message id is as good as new.
        vec![
            Write::Task(in_context("one", task("c", TaskState::Submitted, 201))),
            note(ALICE, "m-a", "c"),
        ],
        vec![entry(EntryKind::Artifact, "c", "file", 202, None)],
    ]
}

/// Everything of what the batches can write.
#[derive(Debug, PartialEq)]
struct Contents {
    tasks: Vec<Option<Task>>,
    messages: Vec<Option<Noted>>,
    conversations: Vec<Option<Conversation>>,
    entries: Vec<EntryPage>,
    open: Vec<String>,
}

async fn contents(store: &dyn Store) -> Contents {
    let (mut tasks, mut messages, mut conversations, mut entries) = (vec![], vec![], vec![], vec![]);
    for id in ["a", "b", "c"] {
        tasks.push(store.task(id).await.unwrap());
    }
    for id in ["m-a", "m-b"] {
        messages.push(store.message(ALICE, id).await.unwrap());
    }
    let scopes = ["one", "two"].map(|context| conversation_key(ALICE, context));
    for id in &scopes {
        conversations.push(store.conversation(id).await.unwrap());
    }
    for kind in EntryKind::ALL {
        for scope in [ALICE, "instance", "c", &scopes[0], &scopes[1]] {
            let query = EntryQuery {
                kind,
                scope: scope.into(),
                prefix: String::new(),
                after: None,
                limit: 100,
            };
            entries.push(store.entries(query, Timestamp::UNIX_EPOCH).await.unwrap());
        }
    }
    Contents {
        tasks,
        messages,
        conversations,
        entries,
        open: support::open(store).await,
    }
}

/// What is there after each number of batches.
async fn expected() -> Vec<Contents> {
    let model = MemoryStore::new(KEEP);
    let mut expected = vec![contents(&model).await];
    for batch in batches() {
        model.write(batch).await.unwrap();
        expected.push(contents(&model).await);
    }
    expected
}

/// Writes the batches until the server is gone; how many were acknowledged.
async fn write_until_dead(store: &KvStore, kv: &TestKv, from: usize) -> usize {
    let mut acknowledged = from;
    for batch in batches().into_iter().skip(from) {
        tokio::select! {
            biased;
            written = store.write(batch) => match written {
                Ok(()) => acknowledged += 1,
                Err(_) => break,
            },
            () = kv.dead.notified() => break,
        }
    }
    acknowledged
}

/// At every change that reaches the server, before and after it, twice in a row; and the contents are those of whole
/// batches, of all that were acknowledged and at most of the one after them.
#[tokio::test(start_paused = true)]
async fn a_crash_between_any_two_requests_loses_and_tears_nothing() {
    let expected = expected().await;
    let all = batches().len();
    let mut crashes = 0;
    for deletes in [true, false] {
        for end in [End::Before, End::After] {
            for at in 0.. {
                let held = Held::default();
                let kv = TestKv {
                    deletes,
                    ..TestKv::new(&held)
                }
                .ends_after(at, end);
                let acknowledged = match open(kv.clone(), KEEP).await {
                    Ok(store) => write_until_dead(&store, &kv, 0).await,
                    Err(_) => 0,
                };
                if acknowledged == all {
                    break;
                }
                crashes += 1;
                // It may be that the next process ends while it finishes the work of the one before.
                for again in [
                    Some((0, End::After)),
                    Some((1, End::Before)),
                    Some((2, End::After)),
                    None,
                ] {
                    let kv = TestKv {
                        deletes,
                        ..TestKv::new(&held)
                    };
                    let kv = again.map_or(kv.clone(), |(at, end)| kv.ends_after(at, end));
                    if let Ok(store) = open(kv, KEEP).await {
                        let found = contents(&store).await;
                        let whole =
                            (acknowledged..=acknowledged + 1).find(|n| expected.get(*n) == Some(&found));
                        assert!(
                            whole.is_some(),
                            "crash {end:?} change {at}, {acknowledged} acknowledged: {found:#?}"
                        );
                    }
                }
                // Life goes on from there.
                let store = open(
                    TestKv {
                        deletes,
                        ..TestKv::new(&held)
                    },
                    KEEP,
                )
                .await
                .unwrap();
                let found = contents(&store).await;
                let from = (acknowledged..=acknowledged + 1)
                    .find(|n| expected.get(*n) == Some(&found))
                    .unwrap();
                let kv = TestKv::new(&held);
                assert_eq!(write_until_dead(&store, &kv, from).await, all);
                assert_eq!(contents(&store).await, expected[all]);
                drop(store);
                let store = open(
                    TestKv {
                        deletes,
                        ..TestKv::new(&held)
                    },
                    KEEP,
                )
                .await
                .unwrap();
                assert_eq!(
                    contents(&store).await,
                    expected[all],
                    "and the next process finds it"
                );
            }
        }
    }
    assert!(crashes > 100, "{crashes}");
}

/// What was let go of is gone from the server too.
#[tokio::test]
async fn what_is_dropped_leaves_the_server() {
    let held = Held::default();
    let kv = TestKv::new(&held);
    let store = open(kv.clone(), KEEP).await.unwrap();
    for batch in batches() {
        store.write(batch).await.unwrap();
    }
    store.probe(0).await.unwrap();
    let keys: Vec<String> = held
        .lock()
        .unwrap()
        .keys()
        .map(|key| key.replace("agentd/test/", ""))
        .collect();
    let alice = "spiffe%3A%2F%2Ftd%2Fns%2Fa%2Fsa%2Falice";
    let mut expected = vec![
        "artifact/c,file".to_owned(),
        "budget/instance,day".to_owned(),
        format!("context/{alice}%20two"),
        format!("inbox/{alice},m-a"),
        format!("inbox/{alice},m-b"),
        "manifest/intent".to_owned(),
        format!("memory/{alice},long"),
        "task/b".to_owned(),
        "task/c".to_owned(),
    ];
    expected.sort();
    assert_eq!(keys, expected);
}

#[tokio::test]
async fn many_writers_share_one_commit() {
    let kv = TestKv::new(&Held::default());
    let store = Arc::new(open(kv.clone(), ALL).await.unwrap());
    let writers: Vec<_> = (0..200)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                store
                    .write(vec![Write::Task(task(&n.to_string(), TaskState::Submitted, n))])
                    .await
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    let changes = kv.changes.lock().unwrap();
    let intents = changes
        .iter()
        .filter(|change| change.contains("/intent#"))
        .count();
    assert!(intents < 20, "{intents} commits for 200 batches");
    assert_eq!(changes.len() - intents, 200);
}

/// Both are told apart: the one that came first is the one that goes.
#[tokio::test]
async fn a_process_that_no_longer_has_the_store_writes_nothing_and_says_so() {
    let held = Held::default();
    let first = open(TestKv::new(&held), ALL).await.unwrap();
    first.write(batches().swap_remove(0)).await.unwrap();
    let second = open(TestKv::new(&held), ALL).await.unwrap();
    let before = held.lock().unwrap().clone();
    for _ in 0..2 {
        let error = first.write(batches().swap_remove(5)).await.unwrap_err();
        assert!(matches!(error, StoreError::Lost(_)), "{error}");
        let text = error.to_string();
        for part in [
            "the test's server",
            "agentd/test/manifest/intent",
            "give it another agent.name or store.prefix",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
    assert!(matches!(first.lost().await, StoreError::Lost(_)));
    assert_eq!(*held.lock().unwrap(), before);
    second.write(batches().swap_remove(5)).await.unwrap();
    assert_eq!(support::open(&second).await, ["a", "b"]);
}

/// A record of ours that somebody else wrote.
#[tokio::test]
async fn a_record_that_somebody_else_wrote_is_noticed() {
    let held = Held::default();
    let store = open(TestKv::new(&held), ALL).await.unwrap();
    store.write(batches().swap_remove(0)).await.unwrap();
    store.probe(0).await.unwrap();
    held.lock().unwrap().get_mut("agentd/test/task/a").unwrap().0 = 7;
    // The commit stands; its record cannot be put in its place.
    store.write(batches().swap_remove(1)).await.unwrap();
    assert!(matches!(store.lost().await, StoreError::Lost(_)));
    let error = store.write(batches().swap_remove(5)).await.unwrap_err();
    assert!(error.to_string().contains("agentd/test/task/a"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_the_server_refuses_is_refused_and_what_is_unknown_is_asked_again() {
    let kv = TestKv::new(&Held::default());
    let store = open(kv.clone(), ALL).await.unwrap();
    let say = |answers: &[KvError]| kv.answers.lock().unwrap().extend(answers.iter().rev().cloned());
    let refused = KvError::Refused("it is full".into());
    let unknown = KvError::Unknown("no answer in 10s".into());
    say(std::slice::from_ref(&refused));
    let error = store.write(batches().swap_remove(0)).await.unwrap_err();
    assert_eq!(error.class(), Class::Unavailable);
    assert_eq!(
        error.to_string(),
        "the store does not take this: the test's server: it is full"
    );
    assert_eq!(support::open(&store).await, Vec::<String>::new());
    // As nobody knows whether the first one arrived, a refusal of the second says nothing of it.
    say(&[unknown.clone(), refused.clone(), unknown.clone()]);
    store.write(batches().swap_remove(0)).await.unwrap();
    assert_eq!(support::open(&store).await, ["a"]);
}

/// Whether it arrived or not: what a caller was told was not stored is not, and is not later.
#[tokio::test(start_paused = true)]
async fn what_was_said_not_to_be_stored_is_not() {
    let unknown = KvError::Unknown("no answer in 10s".into());
    for arrived in [false, true] {
        let kv = TestKv::new(&Held::default());
        let store = open(kv.clone(), ALL).await.unwrap();
        let lost = vec![unknown.clone(); if arrived { 3 } else { 5 }];
        kv.answers.lock().unwrap().extend(lost);
        if arrived {
            *kv.fuse.lock().unwrap() = Some((0, End::After));
        }
        let error = store.write(batches().swap_remove(0)).await.unwrap_err();
        assert_eq!(error.class(), Class::Unavailable);
        assert_eq!(
            kv.held.lock().unwrap()["agentd/test/manifest/intent"].0,
            if arrived { 2 } else { 1 }
        );
        *kv.fuse.lock().unwrap() = None;
        // The server is still away, then it is back.
        kv.answers.lock().unwrap().push(unknown.clone());
        store.probe(0).await.unwrap_err();
        store.write(batches().swap_remove(5)).await.unwrap();
        assert_eq!(support::open(&store).await, ["b"]);
        drop(store);
        let store = open(TestKv::new(&kv.held), ALL).await.unwrap();
        assert_eq!(support::open(&store).await, ["b"]);
        assert_eq!(store.message(ALICE, "m-a").await.unwrap(), None);
    }
}

#[tokio::test]
async fn one_bad_record_does_not_keep_the_agent_from_the_others() {
    // Once the record is in the last intent, once it is not.
    for probe in [false, true] {
        a_bad_record(probe).await;
    }
}

async fn a_bad_record(probe: bool) {
    let held = Held::default();
    let store = open(TestKv::new(&held), ALL).await.unwrap();
    for batch in batches().into_iter().take(4) {
        store.write(batch).await.unwrap();
    }
    if probe {
        store.probe(0).await.unwrap();
    }
    drop(store);
    let key = "agentd/test/task/a";
    for text in ["no JSON", "{}", "[[[["] {
        held.lock().unwrap().get_mut(key).unwrap().1 = text.into();
        let store = open(TestKv::new(&held), ALL).await.unwrap();
        // What is in the last intent is put there again.
        let task = store.task("a").await.unwrap();
        assert_eq!(task.is_some(), !probe, "{text}");
        assert!(
            store
                .conversation(&conversation_key(ALICE, "one"))
                .await
                .unwrap()
                .is_some()
        );
    }
}
