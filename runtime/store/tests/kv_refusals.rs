//! What the engine over remote keys makes of a server that refuses: what it says is not what it did, one batch that it
//! never takes does not keep the others from it, and what callers were told is true.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use agentd_base::class::{Class, Classified as _};
use agentd_state::{Entry, EntryKind, EntryQuery, Store, StoreError, Task, TaskState, Write};
use agentd_store::KvStore;
use agentd_store::kv::KvError;
use jiff::Timestamp;
use serde_json::{Value, json};
use support::kv::{Held, TestKv, open};
use support::{ALICE, task};

const INTENT: &str = "agentd/test/manifest/intent";

fn one(id: &str) -> Vec<Write> {
    vec![Write::Task(task(id, TaskState::Submitted, 1))]
}

/// One that the servers of these tests do not take.
fn bad(id: &str) -> Vec<Write> {
    let task = Task {
        artifacts: vec![json!("what it never takes")],
        ..task(id, TaskState::Submitted, 1)
    };
    vec![Write::Task(task)]
}

fn is_bad(text: &str) -> bool {
    text.contains("what it never takes")
}

/// What whoever opens it next finds.
async fn found_next(held: &Held) -> Vec<String> {
    let store = open(TestKv::new(held)).await.unwrap();
    support::open(&store).await
}

/// The last intent: its number, and how many steps it has.
fn last_intent(held: &Held) -> (u64, usize) {
    let (seq, text) = held.lock().unwrap()[INTENT].clone();
    let intent: Value = serde_json::from_str(&text).unwrap();
    (seq, intent["state"]["steps"].as_array().unwrap().len())
}

#[tokio::test]
async fn an_error_after_the_deed_is_no_refusal_and_no_sign_of_another_process() {
    for said in [
        KvError::Refused("state.put: upstream timeout".into()),
        KvError::TooLarge("HTTP 413".into()),
        KvError::Conflict("m-conflict: timeout".into()),
    ] {
        let kv = TestKv::new(&Held::default());
        let store = open(kv.clone()).await.unwrap();
        kv.after.lock().unwrap().push(said);
        store.write(one("a")).await.unwrap();
        store.write(one("b")).await.unwrap();
        assert_eq!(support::open(&store).await, ["a", "b"]);
        drop(store);
        assert_eq!(found_next(&kv.held).await, ["a", "b"]);
    }
}

/// A server that is away is not one that refuses.
#[tokio::test(start_paused = true)]
async fn a_server_that_answers_nothing_is_away() {
    let kv = TestKv::new(&Held::default());
    let store = open(kv.clone()).await.unwrap();
    let silent = std::iter::repeat_n(KvError::Unknown("no answer in 5s".into()), 20);
    kv.answers.lock().unwrap().extend(silent);
    let error = store.write(one("a")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    kv.answers.lock().unwrap().clear();
    store.write(one("b")).await.unwrap();
    drop(store);
    assert_eq!(found_next(&kv.held).await, ["b"]);
}

/// It says that somebody else wrote the key, and nobody did.
#[tokio::test]
async fn words_of_a_conflict_are_not_taken_for_one() {
    let kv = TestKv::new(&Held::default());
    let store = open(kv.clone()).await.unwrap();
    let said = KvError::Conflict("the message id m-conflict is no good".into());
    kv.answers.lock().unwrap().push(said);
    let error = store.write(one("a")).await.unwrap_err();
    assert_eq!(error.class(), Class::Unavailable, "{error}");
    store.write(one("b")).await.unwrap();
    drop(store);
    assert_eq!(found_next(&kv.held).await, ["b"]);
}

/// A body that a server trips on: 500 whenever it comes.
#[tokio::test(start_paused = true)]
async fn an_intent_that_never_gets_through_does_not_keep_the_others_from_it() {
    let kv = TestKv {
        refuses: |text| is_bad(text).then(|| KvError::Unknown("HTTP 500".into())),
        ..TestKv::new(&Held::default())
    };
    let store = open(kv.clone()).await.unwrap();
    for round in 0..3 {
        let error = store.write(bad("bad")).await.unwrap_err();
        // Something else is taken, so it is this one.
        assert!(matches!(error, StoreError::Refused(_)), "{error}");
        store.probe(0).await.unwrap();
        store.write(one(&round.to_string())).await.unwrap();
    }
    // In one group with it too.
    let (first, second) = tokio::join!(store.write(bad("bad")), store.write(one("3")));
    first.and(second).unwrap_err();
    let (first, second) = tokio::join!(store.write(bad("bad")), store.write(one("4")));
    assert!(first.is_err() && second.is_ok(), "{first:?} {second:?}");
    drop(store);
    assert_eq!(found_next(&kv.held).await, ["0", "1", "2", "4"]);
}

#[tokio::test]
async fn what_is_too_large_for_the_server_is_told_and_keeps_nothing_from_it() {
    type Refuses = fn(&str) -> Option<KvError>;
    let refusals: [(Refuses, Class); 2] = [
        (
            |text| is_bad(text).then(|| KvError::TooLarge("HTTP 413".into())),
            Class::Denied,
        ),
        (
            |text| is_bad(text).then(|| KvError::Refused("HTTP 422".into())),
            Class::Unavailable,
        ),
    ];
    for (refuses, class) in refusals {
        let kv = TestKv {
            refuses,
            ..TestKv::new(&Held::default())
        };
        let store = open(kv.clone()).await.unwrap();
        let (a, b, c) = tokio::join!(
            store.write(one("a")),
            store.write(bad("b")),
            store.write(one("c"))
        );
        assert!(a.is_ok() && c.is_ok(), "{a:?} {c:?}");
        assert_eq!(b.unwrap_err().class(), class);
        drop(store);
        assert_eq!(found_next(&kv.held).await, ["a", "c"]);
    }
}

/// Quotes and line ends double, and double again in an intent; what was put must be read at the next start.
#[tokio::test]
async fn what_could_not_be_read_back_is_not_put() {
    let kv = TestKv {
        limit: 20_000,
        ..TestKv::new(&Held::default())
    };
    let store = open(kv.clone()).await.unwrap();
    let large = |id: &str, n: usize| {
        let artifacts = vec![json!("\"\n".repeat(n))];
        let task = Task {
            artifacts,
            ..task(id, TaskState::Submitted, 1)
        };
        vec![Write::Task(task)]
    };
    let error = store.write(large("a", 4_000)).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Full(why) if why.contains("more than 20000")),
        "{error}"
    );
    // Each alone is well, and together they are too much.
    let (b, c) = tokio::join!(store.write(large("b", 1_700)), store.write(large("c", 1_700)));
    b.and(c).unwrap();
    let longest = kv.held.lock().unwrap().values().map(|(_, text)| text.len()).max();
    assert!(longest <= Some(20_000), "{longest:?}");
    drop(store);
    assert_eq!(found_next(&kv.held).await, ["b", "c"]);
}

#[tokio::test]
async fn a_long_intent_is_not_left_when_its_records_are_in_their_places() {
    let kv = TestKv::new(&Held::default());
    let store = open(kv.clone()).await.unwrap();
    store.write(one("a")).await.unwrap();
    store.write(one("b")).await.unwrap();
    assert_eq!(last_intent(&kv.held), (3, 1));
    let long = Task {
        artifacts: vec![json!("x".repeat(300_000))],
        ..task("c", TaskState::Submitted, 1)
    };
    store.write(vec![Write::Task(long)]).await.unwrap();
    store.write(one("d")).await.unwrap();
    // The long one, the empty one, this one.
    assert_eq!(last_intent(&kv.held), (6, 1));
}

/// It arrived, and nobody heard of it. Its callers were told that it was not stored, and then the process ends.
#[tokio::test(start_paused = true)]
async fn what_arrived_unheard_is_replaced_also_when_nothing_follows() {
    let kv = TestKv::new(&Held::default());
    let store = open(kv.clone()).await.unwrap();
    let unknown = || KvError::Unknown("no answer in 10s".into());
    *kv.answers.lock().unwrap() = vec![unknown(), unknown(), unknown()];
    kv.after.lock().unwrap().push(unknown());
    store.write(one("a")).await.unwrap_err();
    assert_eq!(last_intent(&kv.held).1, 0);
    drop(store);
    assert_eq!(found_next(&kv.held).await, Vec::<String>::new());
}

async fn memories(store: &KvStore) -> usize {
    let query = EntryQuery {
        kind: EntryKind::Memory,
        scope: ALICE.into(),
        prefix: String::new(),
        after: None,
        limit: 5_000,
    };
    let page = store.entries(query, Timestamp::UNIX_EPOCH).await.unwrap();
    page.entries.len()
}

/// After a long rest all that has expired is to go.
#[tokio::test]
async fn a_backlog_goes_in_parts_and_smaller_ones_where_the_server_takes_no_more() {
    let held = Held::default();
    let store = open(TestKv::new(&held)).await.unwrap();
    let at = |age| task("", TaskState::Working, age).updated_at;
    let brief = |n: usize| {
        Write::Entry(Entry {
            kind: EntryKind::Memory,
            scope: ALICE.into(),
            key: n.to_string(),
            value: n.into(),
            expires_at: Some(at(10)),
            updated_at: at(1),
        })
    };
    for part in 0..6 {
        let batch = (part * 200..(part + 1) * 200).map(brief).collect();
        store.write(batch).await.unwrap();
    }
    drop(store);
    // Of the write and of the probe after it; then 200 are more than fits.
    for (limit, expected) in [(8_000_000, 202..=202), (10_000, 3..=201)] {
        let kv = TestKv {
            limit,
            ..TestKv::new(&held)
        };
        let store = open(kv).await.unwrap();
        let late = Write::Task(task("late", TaskState::Submitted, 100));
        store.write(vec![late]).await.unwrap();
        store.probe(0).await.unwrap();
        assert_eq!(memories(&store).await, 0);
        let left = held.lock().unwrap().len();
        assert!(expected.contains(&left), "{left}");
    }
    let store = open(TestKv::new(&held)).await.unwrap();
    for n in 0..5 {
        store.write(one(&n.to_string())).await.unwrap();
    }
    store.probe(0).await.unwrap();
    let left: Vec<String> = held.lock().unwrap().keys().cloned().collect();
    assert_eq!(left.iter().filter(|key| key.contains("/memory/")).count(), 0);
    assert_eq!(left.len(), 7);
}
