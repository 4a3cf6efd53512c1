//! What the SQLite engine alone must do: survive being killed, keep others out, say what is wrong with its folder.
//! The tests marked `ignored` are the child processes of the others.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use agentd_base::class::{Class, Classified as _};
use agentd_state::{Retention, Store as _, StoreError, TaskState, Write};
use agentd_store::SqliteStore;
use support::{ALICE, ALL, conversation, note, open, task, task_of};

const FOLDER: &str = "STORE_TEST_FOLDER";

/// This test program again, running one of the ignored tests.
fn child(test: &str, folder: &Path, shell: &str) -> Child {
    Command::new("sh")
        .args(["-c", &format!("{shell} exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads", "1"])
        .env(FOLDER, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn child_folder() -> std::path::PathBuf {
    std::env::var_os(FOLDER).unwrap().into()
}

/// What the child said after `prefix`.
fn said<'a>(line: &'a str, prefix: &str) -> Option<&'a str> {
    line.split_once(prefix).map(|(_, rest)| rest.trim())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a child process of the test below"]
async fn child_writes_until_it_is_killed() {
    let store = std::sync::Arc::new(SqliteStore::open(&child_folder(), ALL).unwrap());
    let mut writers = Vec::new();
    for writer in 0..8 {
        let store = store.clone();
        writers.push(tokio::spawn(async move {
            for n in 0.. {
                let id = format!("w{writer}-{n}");
                let batch = vec![
                    Write::Task(task(&id, TaskState::Submitted, n)),
                    note(ALICE, &id, &id),
                    Write::Conversation(conversation(&id)),
                ];
                store.write(batch).await.unwrap();
                println!("acknowledged {id}");
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

#[tokio::test]
async fn an_acknowledged_write_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 1..=3 {
        let mut child = child("child_writes_until_it_is_killed", folder.path(), "");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut fresh = Vec::new();
        while fresh.len() < 200 * round {
            let line = lines.next().unwrap().unwrap();
            fresh.extend(said(&line, "acknowledged ").map(str::to_owned));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it had said before it died, and was still in the pipe.
        fresh.extend(
            lines
                .map_while(Result::ok)
                .filter_map(|line| said(&line, "acknowledged ").map(str::to_owned)),
        );
        fresh.retain(|id| id.split('-').nth(1).is_some_and(|n| !n.is_empty()));
        acknowledged = fresh;
        let store = SqliteStore::open(folder.path(), ALL).unwrap();
        for id in &acknowledged {
            assert!(
                store.task(id).await.unwrap().is_some(),
                "{id} was acknowledged and is gone"
            );
        }
        // Whole or not at all, the unacknowledged ones included.
        for id in open(&store).await {
            assert_eq!(task_of(&store, ALICE, &id).await.as_deref(), Some(id.as_str()));
            assert!(
                store.conversation(&id).await.unwrap().is_some(),
                "{id} is there by half"
            );
        }
        drop(store);
        // The next round begins with an empty store: ids are the same again.
        for file in std::fs::read_dir(folder.path()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
    assert!(acknowledged.len() >= 600);
}

#[tokio::test]
#[ignore = "a child process of the test below"]
async fn child_holds_the_store_until_its_input_ends() {
    let _store = SqliteStore::open(&child_folder(), ALL).unwrap();
    println!("holding");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[tokio::test]
async fn a_second_process_is_refused_and_told_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = child("child_holds_the_store_until_its_input_ends", folder.path(), "");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().contains("holding") {}
    let error = SqliteStore::open(folder.path(), ALL).err().unwrap();
    assert_eq!(error.class(), Class::Unavailable);
    let text = error.to_string();
    for part in [
        folder.path().to_str().unwrap(),
        &format!("in use by process {} on ", child.id()),
        "stop that process, or give this one a folder of its own with `store.path`",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Whoever died with it leaves nothing to clean up.
    let store = SqliteStore::open(folder.path(), ALL).unwrap();
    assert!(
        SqliteStore::open(folder.path(), ALL).is_err(),
        "the same process counts too"
    );
    drop(store);
    SqliteStore::open(folder.path(), ALL).unwrap();
}

#[tokio::test]
#[ignore = "a child process of the test below"]
async fn child_writes_until_the_disk_is_full() {
    let store = SqliteStore::open(&child_folder(), ALL).unwrap();
    for n in 0.. {
        let id = format!("t{n}");
        match store
            .write(vec![Write::Task(task(&id, TaskState::Completed, n))])
            .await
        {
            Ok(()) => println!("acknowledged {id}"),
            Err(error) => {
                // The same is found without anything to write.
                println!("probe {}", store.probe(100_000).await.is_err());
                println!("class {}", error.class().label());
                println!("error {error}");
                println!("first {}", store.task("t0").await.unwrap().is_some());
                return;
            }
        }
    }
}

#[tokio::test]
async fn a_disk_that_takes_no_more_is_unavailable_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    // Files of at most 1 MiB, and no signal at the limit: writing fails as on a full disk.
    let run = child(
        "child_writes_until_the_disk_is_full",
        folder.path(),
        "trap '' XFSZ; ulimit -f 2048;",
    );
    let output = run.wait_with_output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let find = |prefix| {
        output
            .lines()
            .filter_map(|line| said(line, prefix))
            .collect::<Vec<_>>()
    };
    assert_eq!(find("class "), ["unavailable"], "{output}");
    assert_eq!(find("probe "), ["true"], "{output}");
    let error = find("error ").concat();
    assert!(
        error.contains("agentd.db") && error.contains("volume") || error.contains("disk"),
        "{error}"
    );
    assert_eq!(find("first "), ["true"], "reading goes on");
    let store = SqliteStore::open(folder.path(), ALL).unwrap();
    let acknowledged = find("acknowledged ");
    assert!(acknowledged.len() > 10);
    for id in acknowledged {
        assert!(store.task(id).await.unwrap().is_some(), "{id}");
    }
    store
        .write(vec![Write::Task(task("after", TaskState::Completed, 0))])
        .await
        .unwrap();
}

#[tokio::test]
async fn what_was_stored_is_there_for_the_next_process_and_for_nobody_else() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/b");
    let store = SqliteStore::open(&folder, ALL).unwrap();
    store
        .write(vec![Write::Task(task("t", TaskState::Working, 0))])
        .await
        .unwrap();
    assert_eq!(
        (store.folder(), store.file()),
        (folder.as_path(), folder.join("agentd.db"))
    );
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    drop(store);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let store = SqliteStore::open(&folder, ALL).unwrap();
    assert_eq!(mode(&folder), 0o700, "a folder of ours is made private again");
    assert_eq!(
        store.task("t").await.unwrap(),
        Some(task("t", TaskState::Working, 0))
    );
    assert_eq!(open(&store).await, ["t"]);
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for path in [file.as_path(), &file.join("below"), Path::new("/proc/nowhere")] {
        let error = SqliteStore::open(path, ALL).err().unwrap();
        assert_eq!(error.class(), Class::Unavailable, "{error}");
        let text = error.to_string();
        assert!(
            text.contains(path.to_str().unwrap()) && text.contains("`store.path` must be a folder"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_file_that_is_no_store_of_ours_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agentd.db");
    std::fs::write(
        &file,
        "this is a letter, and not a database at all; it is longer than a header",
    )
    .unwrap();
    let error = SqliteStore::open(folder.path(), ALL).err().unwrap();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .starts_with("this is a letter")
    );
    std::fs::remove_file(&file).unwrap();

    drop(SqliteStore::open(folder.path(), ALL).unwrap());
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let error = SqliteStore::open(folder.path(), ALL).err().unwrap();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    assert!(error.to_string().contains("start the newer agentd"), "{error}");
}

/// The file of a store with one task, which is closed.
async fn file_with_a_task(folder: &Path) -> PathBuf {
    let store = SqliteStore::open(folder, ALL).unwrap();
    store
        .write(vec![Write::Task(task("t", TaskState::Working, 0))])
        .await
        .unwrap();
    store.file()
}

#[tokio::test]
async fn a_record_that_this_version_cannot_read_is_said_to_be_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = file_with_a_task(folder.path()).await;
    let connection = rusqlite::Connection::open(file).unwrap();
    connection
        .execute("UPDATE task SET record = '{\"id\":7}'", [])
        .unwrap();
    drop(connection);
    let store = SqliteStore::open(folder.path(), ALL).unwrap();
    let error = store.task("t").await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Corrupt(what) if what.starts_with("task t: ")),
        "{error}"
    );
    assert_eq!(store.task("other").await.unwrap(), None, "the others can be read");
}

#[tokio::test]
async fn the_files_do_not_grow_with_what_was_let_go_of() {
    let folder = tempfile::tempdir().unwrap();
    let keep = Retention {
        bytes: 4 * 1024 * 1024,
        ..ALL
    };
    let store = SqliteStore::open(folder.path(), keep).unwrap();
    for number in 0..120 {
        let mut large = task(&format!("t{number}"), TaskState::Completed, number);
        large.artifacts = vec!["x".repeat(512 * 1024).into()];
        store.write(vec![Write::Task(large)]).await.unwrap();
    }
    let files = std::fs::read_dir(folder.path()).unwrap();
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    // What is kept, the page or two that each large row wastes, and the log.
    assert!(
        bytes < 24 * 1024 * 1024,
        "{bytes} bytes of 60 MiB that were written"
    );
    assert!(store.task("t119").await.unwrap().is_some());
    assert!(store.task("t100").await.unwrap().is_none());
}

/// Commits in a write-ahead log: frames that bear the size of the database after them.
fn commits(log: &[u8]) -> usize {
    let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let frame = 24 + number(8) as usize;
    (32..log.len())
        .step_by(frame)
        .filter(|at| number(at + 4) != 0)
        .count()
}

#[tokio::test]
async fn many_writers_share_one_flush() {
    let folder = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(SqliteStore::open(folder.path(), ALL).unwrap());
    let log = || commits(&std::fs::read(folder.path().join("agentd.db-wal")).unwrap());
    let before = log();
    let writers: Vec<_> = (0..64)
        .map(|n| {
            let (store, id) = (store.clone(), format!("t{n}"));
            tokio::spawn(async move {
                store
                    .write(vec![Write::Task(task(&id, TaskState::Submitted, n))])
                    .await
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    let made = log() - before;
    assert!((1..=32).contains(&made), "{made} commits for 64 batches");
    assert_eq!(open(&*store).await.len(), 64);
}

/// The schema as it was first released, with one task that ended and one that waits.
const FIRST: &str = r#"
    CREATE TABLE conversation (id TEXT PRIMARY KEY, owner TEXT NOT NULL, record TEXT NOT NULL) WITHOUT ROWID, STRICT;
    CREATE TABLE task (id TEXT PRIMARY KEY, owner TEXT NOT NULL, context_id TEXT NOT NULL, open INTEGER NOT NULL,
        created_at INTEGER NOT NULL, record TEXT NOT NULL) WITHOUT ROWID, STRICT;
    CREATE INDEX task_open ON task (created_at, id) WHERE open = 1;
    CREATE TABLE message_id (owner TEXT NOT NULL, message_id TEXT NOT NULL, task_id TEXT NOT NULL,
        PRIMARY KEY (owner, message_id)) WITHOUT ROWID, STRICT;
    PRAGMA user_version = 1;
"#;

#[tokio::test]
async fn a_store_of_the_first_schema_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let connection = rusqlite::Connection::open(folder.path().join("agentd.db")).unwrap();
    connection.execute_batch(FIRST).unwrap();
    let tasks = [
        task("old", TaskState::Completed, 1),
        task("begun", TaskState::Working, 2),
        task("new", TaskState::Submitted, 3),
    ];
    for task in &tasks {
        let open = !task.state.is_terminal();
        let created = task.created_at.as_microsecond();
        let record = serde_json::to_string(task).unwrap();
        let row = rusqlite::params![task.id, task.owner, task.context_id, open, created, record];
        connection
            .execute("INSERT INTO task VALUES (?1, ?2, ?3, ?4, ?5, ?6)", row)
            .unwrap();
    }
    connection
        .execute("INSERT INTO message_id VALUES (?1, 'm', 'old')", [ALICE])
        .unwrap();
    let keep = Retention { bytes: 0, ..ALL };
    let store = SqliteStore::open(folder.path(), keep).unwrap();
    assert_eq!(open(&store).await, ["begun", "new"]);
    assert_eq!(store.task("old").await.unwrap().as_ref(), Some(&tasks[0]));
    let noted = store.message(ALICE, "m").await.unwrap().unwrap();
    assert_eq!((noted.task_id.as_str(), noted.digest.as_str()), ("old", ""));
    // What was there before is counted: with the next end it goes.
    let ended = task("begun", TaskState::Completed, 4);
    store.write(vec![Write::Task(ended)]).await.unwrap();
    assert_eq!(store.task("old").await.unwrap(), None);
    assert_eq!(store.message(ALICE, "m").await.unwrap(), None);
    assert_eq!(open(&store).await, ["new"]);
}

/// Nobody knows what else of the file is damaged, and a write may make it worse: the process is to end.
#[tokio::test]
async fn a_file_that_a_write_finds_damaged_is_lost_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = file_with_a_task(folder.path()).await;
    let connection = rusqlite::Connection::open(&file).unwrap();
    let number = |sql: &str| -> u32 { connection.query_row(sql, [], |row| row.get(0)).unwrap() };
    let root = number("SELECT rootpage FROM sqlite_schema WHERE name = 'conversation'");
    let page = number("PRAGMA page_size");
    drop(connection);
    let opened = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    opened
        .write_all_at(&[0xff; 64], u64::from(root - 1) * u64::from(page))
        .unwrap();

    let store = SqliteStore::open(folder.path(), ALL).unwrap();
    store.probe(0).await.unwrap();
    let error = store
        .write(vec![Write::Conversation(conversation("c"))])
        .await
        .unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("agentd.db") && said.contains("restore the file from a backup"),
        "{said}"
    );
    let lost = store.lost().await;
    assert!(matches!(lost, StoreError::Corrupt(_)), "{lost}");
    assert_eq!(lost.to_string(), said);
}
