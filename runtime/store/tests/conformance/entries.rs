//! What every engine must do with entries.

use agentd_state::store::size;
use agentd_state::{
    Entry, EntryKind, EntryPage, EntryQuery, Retention, Store, StoreError, TaskState, Write, conversation_key,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::New;
use crate::support::{ALICE, ALL, conversation, note, task, task_of};

/// So many microseconds after the support's tasks.
fn at(age: i64) -> Timestamp {
    task("", TaskState::Working, age).updated_at
}

fn entry(kind: EntryKind, scope: &str, key: &str, value: Value) -> Entry {
    Entry {
        kind,
        scope: scope.into(),
        key: key.into(),
        value,
        expires_at: None,
        updated_at: at(0),
    }
}

fn memory(scope: &str, key: &str) -> Entry {
    entry(EntryKind::Memory, scope, key, json!({ "of": key }))
}

fn all(scope: &str) -> EntryQuery {
    EntryQuery {
        kind: EntryKind::Memory,
        scope: scope.into(),
        prefix: String::new(),
        after: None,
        limit: 100,
    }
}

fn keys(page: &EntryPage) -> Vec<&str> {
    page.entries.iter().map(|entry| entry.key.as_str()).collect()
}

pub(crate) async fn conformance(new: New<'_>) {
    let store = new(ALL).await;
    an_entry_is_read_back_whole(&*store).await;
    a_list_is_in_order_and_paged(&*store).await;
    an_entry_is_gone_when_it_has_expired(&*store).await;
    a_batch_with_entries_is_whole_or_not_at_all(&*store).await;
    large_entries_come_a_few_at_a_time(&*store).await;
    entries_have_a_bound(new).await;
    entries_of_a_conversation_go_with_it(new).await;
}

async fn an_entry_is_read_back_whole(store: &dyn Store) {
    let mut batch = Vec::new();
    for kind in EntryKind::ALL {
        // The same scope and key in another kind is another entry.
        let mut one = entry(
            kind,
            "a scope/with %",
            "k/ey ä",
            json!({ "kind": kind, "n": [1.5, null] }),
        );
        one.expires_at = Some("2040-01-01T00:00:00.123456789Z".parse().unwrap());
        batch.push(one);
    }
    store
        .write(batch.iter().cloned().map(Write::Entry).collect())
        .await
        .unwrap();
    for expected in &batch {
        let found = store
            .entry(expected.kind, "a scope/with %", "k/ey ä", at(0))
            .await
            .unwrap();
        assert_eq!(found.as_ref(), Some(expected));
        assert_eq!(
            store
                .entry(expected.kind, "a scope/with %", "k", at(0))
                .await
                .unwrap(),
            None
        );
        assert_eq!(
            store
                .entry(expected.kind, "a scope", "k/ey ä", at(0))
                .await
                .unwrap(),
            None
        );
    }
    let mut second = batch[0].clone();
    second.value = json!("second");
    second.expires_at = None;
    store.write(vec![Write::Entry(second.clone())]).await.unwrap();
    let found = store
        .entry(second.kind, &second.scope, &second.key, at(0))
        .await
        .unwrap();
    assert_eq!(found, Some(second.clone()));
    let drop = |entry: &Entry| Write::DropEntry {
        kind: entry.kind,
        scope: entry.scope.clone(),
        key: entry.key.clone(),
    };
    // Twice is as good as once.
    for _ in 0..2 {
        store.write(vec![drop(&second)]).await.unwrap();
        assert_eq!(
            store
                .entry(second.kind, &second.scope, &second.key, at(0))
                .await
                .unwrap(),
            None
        );
    }
    let other = store
        .entry(batch[1].kind, &second.scope, &second.key, at(0))
        .await
        .unwrap();
    assert_eq!(other.as_ref(), Some(&batch[1]));
}

async fn a_list_is_in_order_and_paged(store: &dyn Store) {
    let names = ["b/2", "a", "b/1", "c", "b", "b/10", "ä", "B", "b/"];
    let mut batch: Vec<Write> = names
        .iter()
        .map(|key| Write::Entry(memory("list", key)))
        .collect();
    for scope in ["lis", "list2", "list "] {
        batch.push(Write::Entry(memory(scope, "b/3")));
    }
    store.write(batch).await.unwrap();
    let page = store.entries(all("list"), at(0)).await.unwrap();
    let ordered = ["B", "a", "b", "b/", "b/1", "b/10", "b/2", "c", "ä"];
    assert_eq!((keys(&page), page.more), (ordered.to_vec(), false));
    assert_eq!(page.entries[1], memory("list", "a"));

    // Page by page it is the same list, whatever the size of a page.
    for (prefix, expected) in [
        ("", &ordered[..]),
        ("b/", &ordered[3..7]),
        ("b", &ordered[2..7]),
        ("x", &[]),
    ] {
        for limit in 1..=10 {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let query = EntryQuery {
                    prefix: prefix.into(),
                    after,
                    limit,
                    ..all("list")
                };
                let page = store.entries(query, at(0)).await.unwrap();
                assert!(page.entries.len() <= limit);
                found.extend(keys(&page).into_iter().map(str::to_owned));
                if !page.more {
                    break;
                }
                after = found.last().cloned();
            }
            assert_eq!(found, expected, "{prefix} by {limit}");
        }
    }
    // A page may begin after a key that is not there, be it before the prefix.
    for (after, expected) in [("b/11", "b/2"), ("a", "b/"), ("", "b/")] {
        let query = EntryQuery {
            prefix: "b/".into(),
            after: Some(after.into()),
            ..all("list")
        };
        assert_eq!(keys(&store.entries(query, at(0)).await.unwrap())[0], expected);
    }
    let query = EntryQuery {
        limit: 0,
        ..all("list")
    };
    let page = store.entries(query, at(0)).await.unwrap();
    assert_eq!((keys(&page), page.more), (vec![], true));
    assert_eq!(
        store.entries(all("nobody"), at(0)).await.unwrap(),
        EntryPage::default()
    );
}

async fn an_entry_is_gone_when_it_has_expired(store: &dyn Store) {
    let until = |key: &str, age| Entry {
        expires_at: Some(at(age)),
        ..memory("expiry", key)
    };
    let batch = [until("a", 10), until("b", 20), memory("expiry", "c")];
    store
        .write(batch.iter().cloned().map(Write::Entry).collect())
        .await
        .unwrap();
    for (now, left) in [(9, vec!["a", "b", "c"]), (10, vec!["b", "c"]), (20, vec!["c"])] {
        let page = store.entries(all("expiry"), at(now)).await.unwrap();
        assert_eq!((keys(&page), page.more), (left.clone(), false));
        for key in ["a", "b", "c"] {
            let found = store
                .entry(EntryKind::Memory, "expiry", key, at(now))
                .await
                .unwrap();
            assert_eq!(found.is_some(), left.contains(&key), "{key} at {now}");
        }
    }
    // The hidden ones do not fill a page.
    let query = EntryQuery {
        limit: 1,
        ..all("expiry")
    };
    let page = store.entries(query, at(20)).await.unwrap();
    assert_eq!((keys(&page), page.more), (vec!["c"], false));
    // A write at a later time drops what has expired by then; a longer life may be given before that.
    store.write(vec![Write::Entry(until("b", 1000))]).await.unwrap();
    let mut later = memory("expiry", "d");
    later.updated_at = at(500);
    store.write(vec![Write::Entry(later)]).await.unwrap();
    let page = store.entries(all("expiry"), at(0)).await.unwrap();
    assert_eq!(keys(&page), ["b", "c", "d"]);
}

async fn a_batch_with_entries_is_whole_or_not_at_all(store: &dyn Store) {
    store
        .write(vec![
            note("eve", "taken", "t"),
            Write::Entry(memory("whole", "old")),
        ])
        .await
        .unwrap();
    let batch = vec![
        Write::Entry(memory("whole", "new")),
        Write::DropEntry {
            kind: EntryKind::Memory,
            scope: "whole".into(),
            key: "old".into(),
        },
        note("eve", "taken", "u"),
    ];
    assert!(matches!(store.write(batch).await, Err(StoreError::Conflict(_))));
    assert_eq!(keys(&store.entries(all("whole"), at(0)).await.unwrap()), ["old"]);
}

async fn large_entries_come_a_few_at_a_time(store: &dyn Store) {
    let large = |n: u32| {
        entry(
            EntryKind::Memory,
            "large",
            &n.to_string(),
            "x".repeat(1_500_000).into(),
        )
    };
    for n in 0..5 {
        store.write(vec![Write::Entry(large(n))]).await.unwrap();
    }
    let page = store.entries(all("large"), at(0)).await.unwrap();
    assert_eq!((keys(&page), page.more), (vec!["0", "1", "2"], true));
    let query = EntryQuery {
        after: Some("2".into()),
        ..all("large")
    };
    let page = store.entries(query, at(0)).await.unwrap();
    assert_eq!((keys(&page), page.more), (vec!["3", "4"], false));
}

async fn entries_have_a_bound(new: New<'_>) {
    let one = size(&memory("bound", "0"));
    let store = new(Retention {
        // Half of it is one principal's.
        entries: (one * 3 + 100) * 2,
        ..ALL
    })
    .await;
    for key in ["0", "1", "2"] {
        store
            .write(vec![Write::Entry(memory("bound", key))])
            .await
            .unwrap();
    }
    let more = vec![Write::Entry(memory("bound", "3")), note("eve", "with it", "t")];
    let error = store.write(more).await.unwrap_err();
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    assert!(error.to_string().contains("of this principal"), "{error}");
    assert_eq!(task_of(&*store, "eve", "with it").await, None);
    assert_eq!(
        store.entry(EntryKind::Memory, "bound", "3", at(0)).await.unwrap(),
        None
    );
    // What is replaced makes room for what replaces it, and so does what is dropped or expires.
    store
        .write(vec![Write::Entry(memory("bound", "2"))])
        .await
        .unwrap();
    let drop = Write::DropEntry {
        kind: EntryKind::Memory,
        scope: "bound".into(),
        key: "0".into(),
    };
    store
        .write(vec![Write::Entry(memory("bound", "3")), drop])
        .await
        .unwrap();
    let mut brief = memory("bound", "3");
    brief.expires_at = Some(at(0));
    brief.value = Value::Null;
    store.write(vec![Write::Entry(brief)]).await.unwrap();
    let mut late = memory("bound", "4");
    late.updated_at = at(1);
    store.write(vec![Write::Entry(late)]).await.unwrap();
    assert_eq!(
        keys(&store.entries(all("bound"), at(0)).await.unwrap()),
        ["1", "2", "4"]
    );
    // Others have their share, and all of them together have a bound.
    for (scope, key) in [("bob", "0"), ("bob", "1"), ("carol", "0")] {
        store.write(vec![Write::Entry(memory(scope, key))]).await.unwrap();
    }
    let error = store.write(vec![Write::Entry(memory("carol", "1"))]).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("together; delete some"), "{error}");
    // What is bounded elsewhere is not bounded here.
    let plan = entry(EntryKind::Plan, "bound", "p", "x".repeat(100_000).into());
    store.write(vec![Write::Entry(plan)]).await.unwrap();
}

async fn entries_of_a_conversation_go_with_it(new: New<'_>) {
    let store = new(Retention {
        age: std::time::Duration::from_micros(100),
        ..ALL
    })
    .await;
    let (gone, kept) = (
        conversation_key(ALICE, "gone"),
        conversation_key(ALICE, "gone too"),
    );
    let mut batch = Vec::new();
    for kind in EntryKind::ALL {
        for (scope, key) in [(&gone, "1"), (&gone, "2"), (&kept, "1")] {
            batch.push(Write::Entry(entry(kind, scope, key, Value::Null)));
        }
    }
    let mut ended = task("t", TaskState::Completed, 1);
    ended.context_id = "gone".into();
    batch.push(Write::Task(ended));
    batch.push(Write::Conversation(agentd_state::Conversation {
        id: gone.clone(),
        ..conversation("")
    }));
    store.write(batch).await.unwrap();
    store
        .write(vec![Write::Task(task("later", TaskState::Completed, 200))])
        .await
        .unwrap();
    assert_eq!(store.conversation(&gone).await.unwrap(), None);
    for kind in EntryKind::ALL {
        let query = |scope: &String| EntryQuery { kind, ..all(scope) };
        assert_eq!(
            store.entries(query(&gone), at(0)).await.unwrap(),
            EntryPage::default()
        );
        assert_eq!(keys(&store.entries(query(&kept), at(0)).await.unwrap()), ["1"]);
    }
}
