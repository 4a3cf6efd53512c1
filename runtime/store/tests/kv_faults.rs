//! What the engine over remote keys makes of a server that spoils what it keeps.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use agentd_state::{Conversation, Store as _, StoreError, Task, TaskState, Write};
use serde_json::{Value, json};
use support::kv::{Held, TestKv, open};
use support::{conversation, task};

const KEY: &str = "agentd/test/task/a";

fn write(state: TaskState, age: i64) -> Vec<Write> {
    vec![Write::Task(task("a", state, age))]
}

fn spoil(held: &Held, text: &str) {
    held.lock().unwrap().get_mut(KEY).unwrap().1 = text.into();
}

/// What a server may make of a record: that of a newer agentd, a record of another key, a state that is none of ours.
fn spoilt(seq: u64) -> [String; 3] {
    let of = |v: u64, id: &str| {
        json!({ "v": v, "kind": "task", "id": id, "seq": seq, "ts": "2026-12-01T10:00:00Z", "instance": "test",
                "hash": "x", "state": { "id": id } })
        .to_string()
    };
    [of(2, "a"), of(1, "b"), of(1, "a")]
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_written_over_by_whoever_writes_it_next() {
    for deletes in [true, false] {
        for text in spoilt(1) {
            let held = Held::default();
            let kv = TestKv {
                deletes,
                ..TestKv::new(&held)
            };
            let store = open(kv.clone()).await.unwrap();
            store.write(write(TaskState::Submitted, 1)).await.unwrap();
            store.probe(0).await.unwrap();
            drop(store);
            spoil(&held, &text);
            let store = open(kv.clone()).await.unwrap();
            assert_eq!(store.task("a").await.unwrap(), None);
            store.write(write(TaskState::Completed, 2)).await.unwrap();
            store.probe(0).await.unwrap();
            drop(store);
            let store = open(kv).await.unwrap();
            let expected = Some(task("a", TaskState::Completed, 2));
            assert_eq!(store.task("a").await.unwrap(), expected, "{text}");
        }
    }
}

/// Nothing says which number the server has: what would be lost is not acknowledged, and everything else is well.
#[tokio::test]
async fn a_record_without_a_number_is_not_written_and_keeps_nothing_else_from_it() {
    let held = Held::default();
    let store = open(TestKv::new(&held)).await.unwrap();
    store.write(write(TaskState::Submitted, 1)).await.unwrap();
    store.probe(0).await.unwrap();
    drop(store);
    *held.lock().unwrap().get_mut(KEY).unwrap() = (50, "no JSON".to_owned());
    let store = open(TestKv::new(&held)).await.unwrap();
    for _ in 0..2 {
        let error = store.write(write(TaskState::Completed, 2)).await.unwrap_err();
        assert!(
            matches!(&error, StoreError::Corrupt(why) if why.starts_with(KEY)),
            "{error}"
        );
        let other = vec![Write::Task(task("b", TaskState::Submitted, 2))];
        store.write(other).await.unwrap();
    }
    // Somebody removes it.
    held.lock().unwrap().remove(KEY);
    store.write(write(TaskState::Completed, 3)).await.unwrap();
    store.probe(0).await.unwrap();
    drop(store);
    let store = open(TestKv::new(&held)).await.unwrap();
    let expected = Some(task("a", TaskState::Completed, 3));
    assert_eq!(store.task("a").await.unwrap(), expected);
}

/// The last intent has it: before the record was put there, and after.
#[tokio::test]
async fn what_was_acknowledged_takes_the_place_of_what_was_spoilt() {
    let [newer, other, bad] = spoilt(1);
    for text in [newer, other, bad, "no JSON".into(), "{}".into()] {
        for put in [false, true] {
            let held = Held::default();
            let store = open(TestKv::new(&held)).await.unwrap();
            store.write(write(TaskState::Submitted, 1)).await.unwrap();
            store.probe(0).await.unwrap();
            let before = held.lock().unwrap()[KEY].clone();
            store.write(write(TaskState::Completed, 2)).await.unwrap();
            // Its record is put before the next write is looked at.
            let _ = store.message("", "").await;
            while held.lock().unwrap()[KEY].0 < 2 {
                tokio::task::yield_now().await;
            }
            drop(store);
            if put {
                spoil(&held, &text.replace("\"seq\":1", "\"seq\":2"));
            } else {
                *held.lock().unwrap().get_mut(KEY).unwrap() = before;
                spoil(&held, &text);
            }
            for _ in 0..2 {
                let store = open(TestKv::new(&held)).await.unwrap();
                let expected = Some(task("a", TaskState::Completed, 2));
                assert_eq!(store.task("a").await.unwrap(), expected, "{put}: {text}");
                store.probe(0).await.unwrap();
            }
        }
    }
}

/// It is spoilt while we run: between a commit and its record.
#[tokio::test]
async fn a_record_that_is_spoilt_meanwhile_is_no_sign_of_another_process() {
    for text in [&spoilt(50)[2], "no JSON"] {
        let held = Held::default();
        let store = open(TestKv::new(&held)).await.unwrap();
        store.write(write(TaskState::Submitted, 1)).await.unwrap();
        store.probe(0).await.unwrap();
        *held.lock().unwrap().get_mut(KEY).unwrap() = (50, text.to_owned());
        store.write(write(TaskState::Completed, 2)).await.unwrap();
        store.probe(0).await.unwrap();
        let expected = Some(task("a", TaskState::Completed, 2));
        assert_eq!(store.task("a").await.unwrap(), expected);
        drop(store);
        let store = open(TestKv::new(&held)).await.unwrap();
        let kept = store.task("a").await.unwrap();
        assert_eq!(kept, expected.filter(|_| text != "no JSON"));
    }
}

/// As JavaScript does it: every number is a fraction.
fn read_as_json(text: String) -> String {
    fn number(value: &mut Value) {
        match value {
            Value::Number(number) => {
                let number = number.as_f64().unwrap();
                *value = if number.fract() == 0.0 && number.abs() < 1e21 {
                    serde_json::from_str(&format!("{number:.0}")).unwrap()
                } else {
                    json!(number)
                };
            }
            Value::Array(items) => items.iter_mut().for_each(number),
            Value::Object(members) => members.values_mut().for_each(number),
            _ => {}
        }
    }
    let mut value: Value = serde_json::from_str(&text).unwrap();
    number(&mut value);
    value.to_string()
}

#[tokio::test]
async fn a_server_that_reads_the_json_that_it_keeps_gives_it_back_as_it_was() {
    let kv = TestKv {
        rewrites: read_as_json,
        ..TestKv::new(&Held::default())
    };
    let store = open(kv.clone()).await.unwrap();
    let numbers = json!([
        1.0,
        1.5,
        -0.0,
        9_007_199_254_740_993_u64,
        u64::MAX,
        i64::MIN,
        1e21,
        7
    ]);
    let talk = Conversation {
        transcript: numbers.clone(),
        ..conversation("c")
    };
    let told = Task {
        artifacts: vec![numbers],
        ..task("a", TaskState::Completed, 1)
    };
    let batch = vec![Write::Conversation(talk.clone()), Write::Task(told.clone())];
    store.write(batch).await.unwrap();
    store.probe(0).await.unwrap();
    drop(store);
    let store = open(kv).await.unwrap();
    assert_eq!(store.task("a").await.unwrap(), Some(told));
    assert_eq!(store.conversation("c").await.unwrap(), Some(talk));
}

/// An error is not "none", and none is not nothing: what is listed is there.
#[tokio::test]
async fn a_key_that_is_listed_and_not_given_is_asked_once_more_and_then_an_error() {
    let held = Held::default();
    let store = open(TestKv::new(&held)).await.unwrap();
    store.write(write(TaskState::Submitted, 1)).await.unwrap();
    store.probe(0).await.unwrap();
    drop(store);
    let before = held.lock().unwrap()[KEY].clone();
    for (key, times, starts) in [
        (KEY, 1, true),
        (KEY, 2, false),
        ("agentd/test/manifest/intent", 1, false),
        ("agentd/test/manifest/intent", 3, false),
    ] {
        let kv = TestKv::new(&held);
        kv.hides.lock().unwrap().insert(key.to_owned(), times);
        let opened = open(kv).await;
        assert_eq!(opened.is_ok(), starts, "{key} {times}");
        if let Err(error) = opened {
            let text = error.to_string();
            assert!(text.contains("the test's server") && text.contains(key), "{text}");
        }
        assert_eq!(held.lock().unwrap()[KEY], before);
    }
    let store = open(TestKv::new(&held)).await.unwrap();
    let expected = Some(task("a", TaskState::Submitted, 1));
    assert_eq!(store.task("a").await.unwrap(), expected);
}

/// Pages that nobody mapped.
#[tokio::test]
async fn a_list_that_ends_early_is_not_taken_for_the_whole() {
    for deletes in [true, false] {
        let held = Held::default();
        let kv = TestKv {
            deletes,
            ends_early: true,
            ..TestKv::new(&held)
        };
        let store = open(kv.clone()).await.unwrap();
        let tasks = (0..6).map(|n| Write::Task(task(&n.to_string(), TaskState::Submitted, n)));
        store.write(tasks.collect()).await.unwrap();
        drop(store);
        // Seven keys are one page.
        let store = open(kv.clone()).await.unwrap();
        let other = vec![Write::Task(task("other", TaskState::Submitted, 9))];
        store.write(other).await.unwrap();
        drop(store);
        let error = open(kv.clone()).await.err().unwrap().to_string();
        for part in [
            "the test's server",
            "6 of 7 keys",
            "list.next",
            "remove agentd/test/manifest/intent too",
        ] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
        let whole = TestKv {
            ends_early: false,
            ..kv
        };
        let store = open(whole).await.unwrap();
        assert_eq!(support::open(&store).await.len(), 7);
    }
}
