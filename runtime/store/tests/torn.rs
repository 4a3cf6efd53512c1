//! A store that is cut off at any byte that it writes: of the log, of the database at a checkpoint, of a log that is
//! written over from its beginning, and the process with it. Where the cuts are is computed from what a run wrote. After
//! each the store opens, and holds every batch that was acknowledged, whole, and nothing by half. `SOAK=1` cuts at many
//! more places. The test marked `ignored` is the child process of others.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use agentd_state::{Conversation, Noted, Store as _, Task, TaskState, Write};
use agentd_store::SqliteStore;
use rustix::process::{Resource, Rlimit, setrlimit};
use support::{ALICE, ALL, conversation, note, task};

/// Messages that are accepted, begun and answered.
const LIVES: i64 = 12;
const DB: &str = "agentd.db";
const LOG: &str = "agentd.db-wal";
/// Of the file's head, and of that of each frame, whose pages have [`PAGE`].
const LOG_HEAD: usize = 32;
const FRAME_HEAD: usize = 24;
const PAGE: usize = 4096;
const FRAME: usize = FRAME_HEAD + PAGE;

fn is_soak() -> bool {
    std::env::var_os("SOAK").is_some()
}

fn id(life: i64) -> String {
    format!("t{life}")
}

/// Three batches of each life; its answer has `large` bytes and more.
fn batches(large: usize) -> Vec<Vec<Write>> {
    let life = |n: i64| {
        let id = id(n);
        let mut told = conversation(&id);
        told.transcript = serde_json::json!({ "said": n });
        let mut done = task(&id, TaskState::Completed, n);
        done.artifacts = vec!["x".repeat(large + usize::try_from(n).unwrap() * 1111).into()];
        [
            vec![
                Write::Task(task(&id, TaskState::Submitted, n)),
                note(ALICE, &id, &id),
                Write::Conversation(conversation(&id)),
            ],
            vec![Write::Task(task(&id, TaskState::Working, n))],
            vec![Write::Task(done), Write::Conversation(told)],
        ]
    };
    (0..LIVES).flat_map(life).collect()
}

/// What there is of a life.
type Life = (Option<Task>, Option<Conversation>, Option<Noted>);

/// What the first of these batches make.
fn made(batches: &[Vec<Write>]) -> Vec<Life> {
    let mut lives = vec![Life::default(); usize::try_from(LIVES).unwrap()];
    let place = |id: &str| id.trim_start_matches('t').parse::<usize>().unwrap();
    for write in batches.iter().flatten().cloned() {
        match write {
            Write::Task(task) => {
                let at = place(&task.id);
                lives[at].0 = Some(task);
            }
            Write::Conversation(told) => {
                let at = place(&told.id);
                lives[at].1 = Some(told);
            }
            Write::MessageId {
                message_id,
                task_id,
                digest,
                ..
            } => lives[place(&message_id)].2 = Some(Noted { task_id, digest }),
            other => panic!("{other:?}"),
        }
    }
    lives
}

/// What a store holds.
async fn held(store: &SqliteStore) -> Vec<Life> {
    let mut lives = Vec::new();
    let mut open = Vec::new();
    for id in (0..LIVES).map(id) {
        let task = store.task(&id).await.unwrap();
        open.extend(
            task.iter()
                .filter(|task| !task.state.is_terminal())
                .map(|task| task.id.clone()),
        );
        let told = store.conversation(&id).await.unwrap();
        lives.push((task, told, store.message(ALICE, &id).await.unwrap()));
    }
    // Nothing is open that the next start would not find.
    assert_eq!(support::open(store).await, open);
    lives
}

/// Puts these files where a store was cut off, and opens it.
async fn reopened(database: &[u8], log: &[u8]) -> Vec<Life> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(DB), database).unwrap();
    std::fs::write(folder.path().join(LOG), log).unwrap();
    let store = SqliteStore::open(folder.path(), ALL).unwrap();
    let held = held(&store).await;
    // It goes on.
    store
        .write(vec![Write::Task(task("next", TaskState::Submitted, 0))])
        .await
        .unwrap();
    held
}

/// A store, and its files as they are.
struct Written {
    store: SqliteStore,
    folder: tempfile::TempDir,
}

impl Written {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path(), ALL).unwrap();
        Self { store, folder }
    }

    fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(name)).unwrap()
    }

    /// Writes these, one after the other; how long the log was after each.
    async fn write(&self, batches: &[Vec<Write>]) -> Vec<usize> {
        let mut ends = Vec::new();
        for batch in batches {
            self.store.write(batch.clone()).await.unwrap();
            ends.push(committed(&self.file(LOG)));
        }
        ends
    }

    fn checkpoint(&self, mode: &str) {
        let connection = rusqlite::Connection::open(self.folder.path().join(DB)).unwrap();
        connection.pragma_update(None, "wal_checkpoint", mode).unwrap();
    }
}

/// Where the last commit of a log ends: frames with the salts of its head, of which the last bears the size of the
/// database. What is behind it is of an earlier time.
fn committed(log: &[u8]) -> usize {
    let frames = (LOG_HEAD..log.len()).step_by(FRAME);
    let ours = frames.take_while(|at| log.len() >= at + FRAME && log[at + 8..at + 16] == log[16..24]);
    let commits = ours.filter(|at| log[at + 4..at + 8] != [0; 4]);
    commits.last().map_or(LOG_HEAD, |at| at + FRAME)
}

/// How many of the batches that end there are whole in `torn`: what stands behind a cut may be what was written.
fn whole(ends: &[usize], torn: &[u8], log: &[u8]) -> usize {
    let alike = torn.iter().zip(log).take_while(|(torn, log)| torn == log).count();
    ends.iter().filter(|end| **end <= alike).count()
}

/// Whole values; a difference is said by what is behind it, for the values are large.
fn assert_alike(held: &[Life], made: &[Life], at: &str) {
    let states = |lives: &[Life]| {
        let state = |life: &Life| life.0.as_ref().map(|task| task.state);
        lives.iter().map(state).collect::<Vec<_>>()
    };
    assert!(
        held == made,
        "{at}: {:?} and not {:?}",
        states(held),
        states(made)
    );
}

/// Where to cut a log whose batches end there: in its head, in frames, at each end and just before it.
fn cuts(ends: &[usize]) -> Vec<usize> {
    let end = ends.last().copied().unwrap();
    let within = [
        0,
        1,
        17,
        FRAME_HEAD,
        FRAME_HEAD + 1,
        FRAME_HEAD + PAGE / 2,
        FRAME - 1,
    ];
    let head = [0, 1, 16, LOG_HEAD - 1];
    let frames = (LOG_HEAD..end).step_by(FRAME).enumerate();
    let frames = frames.step_by(if is_soak() { 1 } else { 4 });
    let in_frames = frames.flat_map(|(number, at)| {
        let chosen = within.into_iter().enumerate().filter(move |(place, _)| {
            // Another place in each.
            is_soak() || place % within.len() == number % within.len()
        });
        chosen.map(move |(_, within)| at + within)
    });
    let of_batches = ends.iter().flat_map(|end| [end - 1, *end]);
    head.into_iter().chain(in_frames).chain(of_batches).collect()
}

/// What stands behind a cut, if anything: a file that grew before it was written.
fn tails(number: usize, length: usize) -> Vec<Vec<u8>> {
    let all = [Vec::new(), vec![0; length], vec![0xa5; length]];
    match is_soak() {
        true => all.to_vec(),
        false => vec![all[number % all.len()].clone()],
    }
}

#[tokio::test]
async fn a_log_that_ends_at_any_byte_holds_what_was_acknowledged() {
    let batches = batches(0);
    let written = Written::new();
    let (database, begun) = (written.file(DB), committed(&written.file(LOG)));
    let ends = written.write(&batches).await;
    let log = written.file(LOG);
    assert_eq!(written.file(DB), database, "no checkpoint came between");
    assert!(ends.is_sorted() && begun < ends[0] && ends.len() == batches.len());
    let cuts = cuts(&ends);
    assert!(cuts.len() > 100, "{cuts:?}");
    for (number, cut) in cuts.into_iter().enumerate() {
        for tail in tails(number, (log.len() - cut).min(2 * FRAME)) {
            let torn = [&log[..cut], &tail].concat();
            let at = format!("cut at {cut} of {} with {} behind it", log.len(), tail.len());
            let acknowledged = whole(&ends, &torn, &log);
            assert_alike(
                &reopened(&database, &torn).await,
                &made(&batches[..acknowledged]),
                &at,
            );
        }
    }
}

#[tokio::test]
async fn a_checkpoint_that_ends_at_any_byte_loses_nothing() {
    let batches = batches(0);
    let written = Written::new();
    written.write(&batches).await;
    let (before, log) = (written.file(DB), written.file(LOG));
    written.checkpoint("PASSIVE");
    let after = written.file(DB);
    assert!(after.len() > before.len() + 16 * PAGE);
    let complete = made(&batches);
    // In order, cut in the middle of every second page.
    for cut in (0..=after.len())
        .step_by(PAGE / 2)
        .skip(1)
        .step_by(if is_soak() { 1 } else { 3 })
    {
        let rest = before.get(cut..).unwrap_or_default();
        let torn = [&after[..cut], rest].concat();
        assert_alike(&reopened(&torn, &log).await, &complete, &format!("cut at {cut}"));
    }
    // In any order, as a disk may write what it was not told to flush.
    for seed in 1..if is_soak() { 400_usize } else { 40 } {
        let mut torn = before.clone();
        torn.resize(after.len(), 0);
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for at in (0..after.len()).step_by(512) {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if random >> 62 == 0 {
                torn[at..at + 512].copy_from_slice(&after[at..at + 512]);
            }
        }
        assert_alike(&reopened(&torn, &log).await, &complete, &format!("seed {seed}"));
    }
}

#[tokio::test]
async fn a_log_that_is_written_over_loses_nothing_of_either_time() {
    let batches = batches(0);
    let (first, second) = batches.split_at(batches.len() / 2);
    let written = Written::new();
    written.write(first).await;
    written.checkpoint("RESTART");
    let (database, old) = (written.file(DB), written.file(LOG));
    let ends = written.write(second).await;
    assert_eq!(written.file(DB), database, "no checkpoint came between");
    let new = written.file(LOG);
    let end = *ends.last().unwrap();
    assert_ne!(new[..LOG_HEAD], old[..LOG_HEAD], "it begins anew");
    for cut in cuts(&ends) {
        let torn = [&new[..cut], old.get(cut..).unwrap_or_default()].concat();
        let acknowledged = first.len() + whole(&ends, &torn, &new);
        let at = format!("cut at {cut} of {end}");
        assert_alike(
            &reopened(&database, &torn).await,
            &made(&batches[..acknowledged]),
            &at,
        );
    }
}

const FOLDER: &str = "STORE_TEST_FOLDER";
const LIMIT: &str = "STORE_TEST_LIMIT";
/// Bytes of an answer, so that checkpoints come between.
const LARGE: usize = 300_000;

#[tokio::test]
#[ignore = "a child process of the tests below"]
async fn child_writes_no_file_beyond_a_limit() {
    let limit: u64 = std::env::var(LIMIT).unwrap().parse().unwrap();
    let bound = Rlimit {
        current: Some(limit),
        maximum: Some(limit),
    };
    setrlimit(Resource::Fsize, bound).unwrap();
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let store = match SqliteStore::open(&folder, ALL) {
        Ok(store) => store,
        Err(error) => return println!("refused {error}"),
    };
    for batch in batches(LARGE) {
        match store.write(batch).await {
            Ok(()) => println!("acknowledged"),
            Err(error) => return println!("refused {error}"),
        }
    }
}

/// Runs the child, which dies where it writes beyond the limit, or is refused; how many batches it acknowledged.
fn limited(folder: &Path, limit: usize, dies: bool) -> (ExitStatus, usize, String) {
    let shell = match dies {
        true => "ulimit -c 0; exec \"$0\" \"$@\"",
        false => "trap '' XFSZ; exec \"$0\" \"$@\"",
    };
    let run = Command::new("sh")
        .args(["-c", shell])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "child_writes_no_file_beyond_a_limit",
            "--ignored",
            "--nocapture",
        ])
        .env(FOLDER, folder)
        .env(LIMIT, limit.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    (run.status, said.matches("acknowledged").count(), said)
}

/// Offsets of the files of a whole run, which is made for this: every one that the log can have, and of the database
/// those beyond, where nothing but a checkpoint writes.
fn offsets() -> Vec<usize> {
    let folder = tempfile::tempdir().unwrap();
    let (status, acknowledged, said) = limited(folder.path(), usize::MAX >> 1, true);
    assert!(status.success() && acknowledged == batches(LARGE).len(), "{said}");
    // It was closed in good order: no log is left.
    let end = usize::try_from(std::fs::metadata(folder.path().join(DB)).unwrap().len()).unwrap();
    // A prime, so that each is at another place of a page.
    let (first, step) = if is_soak() {
        (8_191, 12_289)
    } else {
        (150_001, 199_999)
    };
    let in_files = (0..end).step_by(step);
    // Where the database and its schema are made.
    let at_first = (0..150_000)
        .step_by(first)
        .skip(1)
        .take(if is_soak() { 30 } else { 0 });
    let places = [0, 1, 100, 4_096, 4_097, 32_767, 32_768, 40_000, 90_001];
    places
        .into_iter()
        .chain(at_first)
        .chain(in_files.skip(1))
        .collect()
}

#[tokio::test]
async fn a_process_that_dies_at_any_offset_of_its_files_loses_nothing_that_it_acknowledged() {
    let batches = batches(LARGE);
    let (mut early, mut late) = (0, 0);
    for limit in offsets() {
        let folder = tempfile::tempdir().unwrap();
        let (status, acknowledged, said) = limited(folder.path(), limit, true);
        assert_eq!(status.signal(), Some(25), "SIGXFSZ at {limit}: {said}");
        let store = SqliteStore::open(folder.path(), ALL).unwrap();
        let held = held(&store).await;
        // The last one may be whole, and nobody was told.
        let possible = [acknowledged, (acknowledged + 1).min(batches.len())];
        assert!(
            possible.iter().any(|count| held == made(&batches[..*count])),
            "died at {limit} after {acknowledged}: {said}"
        );
        early += usize::from(acknowledged == 0);
        late += usize::from(acknowledged > batches.len() / 2);
    }
    assert!(early > 2 && late > 2, "{early} {late}");
}

#[tokio::test]
async fn a_process_whose_disk_is_full_at_any_offset_keeps_what_it_acknowledged_and_no_more() {
    let batches = batches(LARGE);
    for limit in offsets() {
        let folder = tempfile::tempdir().unwrap();
        let (status, acknowledged, said) = limited(folder.path(), limit, false);
        assert!(
            status.success() && said.contains("refused "),
            "at {limit}: {said}"
        );
        let store = SqliteStore::open(folder.path(), ALL).unwrap();
        let at = format!("full at {limit}: {said}");
        assert_alike(&held(&store).await, &made(&batches[..acknowledged]), &at);
    }
}
