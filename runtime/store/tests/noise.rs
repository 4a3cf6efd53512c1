//! Stored records of any bytes: each is read as what it is or refused in a few words, and keeps nobody from the others.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::sync::LazyLock;

use agentd_noise::{changed, json, words};
use agentd_state::{Entry, EntryKind, EntryQuery, Store, StoreError, TaskQuery, TaskState, Write};
use agentd_store::{SqliteStore, sqlite};
use jiff::Timestamp;
use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::Value;
use support::kv::{Held, TestKv, open};
use support::{ALICE, ALL, conversation, note, task};
use tokio::runtime::Runtime;

const SCOPE: &str = "s";

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

fn now() -> Timestamp {
    "2026-12-02T10:00:00Z".parse().unwrap()
}

fn entry(key: &str) -> Entry {
    Entry {
        kind: EntryKind::Memory,
        scope: SCOPE.into(),
        key: key.into(),
        value: serde_json::json!({ "n": 1 }),
        expires_at: Some("2999-12-01T10:00:00Z".parse().unwrap()),
        updated_at: "2026-12-01T10:00:00Z".parse().unwrap(),
    }
}

/// A good record of each kind, and one whose text is anything.
async fn filled(store: &dyn Store) {
    let mut batch = Vec::new();
    for id in ["bad", "good"] {
        batch.push(Write::Task(task(id, TaskState::Completed, 1)));
        batch.push(Write::Conversation(conversation(id)));
        batch.push(Write::Entry(entry(id)));
        batch.push(note(ALICE, id, id));
    }
    batch.push(Write::Task(task("open", TaskState::Working, 2)));
    store.write(batch).await.unwrap();
}

fn records() -> Vec<Value> {
    vec![
        serde_json::to_value(task("bad", TaskState::Completed, 1)).unwrap(),
        serde_json::to_value(conversation("bad")).unwrap(),
        serde_json::to_value(entry("bad")).unwrap(),
    ]
}

/// One that cannot be read is told to be so, and not to be a matter of the disk.
fn read_or_corrupt<T>(read: &Result<Option<T>, StoreError>) {
    if let Err(error) = read {
        assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
        words(&error.to_string());
    }
}

async fn goes_on(store: &dyn Store) {
    read_or_corrupt(&store.task("bad").await);
    read_or_corrupt(&store.conversation("bad").await);
    read_or_corrupt(&store.entry(EntryKind::Memory, SCOPE, "bad", now()).await);
    assert_eq!(
        store.task("good").await.unwrap(),
        Some(task("good", TaskState::Completed, 1))
    );
    assert_eq!(
        store.conversation("good").await.unwrap(),
        Some(conversation("good"))
    );
    let query = TaskQuery {
        limit: 10,
        ..TaskQuery::default()
    };
    let page = store.tasks(query).await.unwrap();
    assert!(page.tasks.iter().any(|task| task.id == "good"));
    let query = EntryQuery {
        kind: EntryKind::Memory,
        scope: SCOPE.into(),
        prefix: String::new(),
        after: None,
        limit: 10,
    };
    let page = store.entries(query, now()).await.unwrap();
    assert!(page.entries.iter().any(|entry| entry.key == "good"));
    let open: Vec<String> = store
        .open_tasks()
        .await
        .unwrap()
        .into_iter()
        .map(|open| open.id)
        .collect();
    assert_eq!(open, ["open"]);
}

/// A folder with a store, and a second connection that spoils it.
struct Folder {
    folder: tempfile::TempDir,
    store: SqliteStore,
    spoiler: std::sync::Mutex<Connection>,
}

static FOLDER: LazyLock<Folder> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), ALL).unwrap();
    RUNTIME.block_on(filled(&store));
    let spoiler = Connection::open(store.file()).unwrap();
    Folder {
        folder,
        store,
        spoiler: spoiler.into(),
    }
});

proptest! {
    #[test]
    fn rows_of_any_bytes(
        record in prop_oneof![
            2 => json(records()),
            1 => changed(records().iter().map(|record| record.to_string().into_bytes()).collect()),
        ],
    ) {
        let spoiler = FOLDER.spoiler.lock().unwrap();
        for query in [
            "UPDATE task SET record = CAST(?1 AS TEXT) WHERE id = 'bad'",
            "UPDATE conversation SET record = CAST(?1 AS TEXT) WHERE id = 'bad'",
            "UPDATE entry SET record = CAST(?1 AS TEXT) WHERE key = 'bad'",
        ] {
            spoiler.execute(query, [&record]).unwrap();
        }
        RUNTIME.block_on(goes_on(&FOLDER.store));
        let mut good = 0;
        let overview = sqlite::inspect(FOLDER.folder.path(), &mut |found| {
            match found.record {
                Ok(_) => good += usize::from(found.id.contains("good")),
                Err(why) => words(&why),
            }
            true
        });
        prop_assert_eq!(overview.unwrap().faults, Vec::<String>::new());
        prop_assert_eq!(good, 4);
    }

    #[test]
    fn what_a_remote_store_gives_back(
        record in json(records()),
        bytes in prop_oneof![1 => Just(Vec::new()), 3 => changed(vec![Vec::new()])],
        edits in agentd_noise::Edits::any(0..4),
        spoilt in any::<prop::sample::Index>(),
    ) {
        RUNTIME.block_on(async {
            let held = Held::default();
            let store = open(TestKv::new(&held)).await.unwrap();
            filled(&store).await;
            drop(store);
            {
                let mut held = held.lock().unwrap();
                let keys: Vec<String> = held.keys().cloned().collect();
                let (_, text) = held.get_mut(spoilt.get(&keys)).unwrap();
                let mut changed = std::mem::take(text).into_bytes();
                edits.apply(&mut changed);
                *text = String::from_utf8_lossy(&changed).into_owned();
                if !bytes.is_empty() {
                    let key = format!("agentd/test/task/{}", String::from_utf8_lossy(&bytes));
                    held.insert(key, (1, String::from_utf8_lossy(&record).into_owned()));
                }
            }
            match open(TestKv::new(&held)).await {
                Ok(store) => {
                    for id in ["bad", "good"] {
                        read_or_corrupt(&store.task(id).await);
                        read_or_corrupt(&store.conversation(id).await);
                    }
                    // It goes on.
                    store.write(vec![Write::Task(task("next", TaskState::Submitted, 3))]).await.map_err(|error| words(&error.to_string())).ok();
                }
                Err(error) => words(&error.to_string()),
            }
        });
    }
}

/// A number that a server made of one of ours.
#[test]
fn a_sequence_number_at_its_end_is_an_error_and_not_one_of_ours() {
    RUNTIME.block_on(async {
        let held = Held::default();
        let store = open(TestKv::new(&held)).await.unwrap();
        filled(&store).await;
        drop(store);
        let whole = held.lock().unwrap().clone();
        for key in whole.keys() {
            let mut map = whole.clone();
            let (at, text) = map.get_mut(key).unwrap();
            *text = text.replacen(&format!("\"seq\":{at}"), &format!("\"seq\":{}", u64::MAX), 1);
            *held.lock().unwrap() = map;
            match open(TestKv::new(&held)).await {
                Ok(store) => {
                    let written = store
                        .write(vec![
                            Write::Task(task("bad", TaskState::Working, 3)),
                            Write::Entry(entry("bad")),
                        ])
                        .await;
                    if let Err(error) = written {
                        words(&error.to_string());
                    }
                }
                Err(error) => words(&error.to_string()),
            }
        }
    });
}
