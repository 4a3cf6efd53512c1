//! The agent is killed by the limit on the size of its files, in the middle of what its store writes, at limits over all
//! that a conversation makes a file grow to. Nothing that was accepted is lost, and without the limit the agent goes on.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;

use nix::sys::signal::Signal;

use super::kept::Kept;
use super::restarted::restarted;
use super::{LANES, Ledger, Place, World, is_soak, script};
use crate::process::Agentd;

/// Limits that are tried, and when there is time.
const LIMITS: u64 = 12;
const SOAK_LIMITS: u64 = 80;

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_by_its_file_size_limit_loses_nothing_that_it_accepted() {
    let largest = recorded().await;
    let count = if is_soak() { SOAK_LIMITS } else { LIMITS };
    // Each conversation differs a little; the last limit is one that all reach.
    let limits: Arc<Vec<u64>> = Arc::new((0..count).map(|n| 1 + largest * n / count).collect());
    let lanes = (0..LANES).map(|lane| tokio::spawn(kill_at_each(limits.clone(), lane)));
    let mut talked = 0;
    for lane in futures::future::join_all(lanes).await {
        talked += lane.unwrap();
    }
    // The first limits let no agent start; most let it begin to talk.
    assert!(talked * 2 >= limits.len(), "{talked} of {limits:?}");
}

/// What the largest file of the store grows to.
async fn recorded() -> u64 {
    let world = World::new(Place::Folder).await;
    let (agentd, caller) = world.start().await;
    let ledger = world.clone().converse(caller, script("one")).await;
    assert_eq!(ledger.acknowledged.len(), ledger.sent.len());
    let files = std::fs::read_dir(world.folder.path().join("state")).unwrap();
    let largest = files.map(|file| file.unwrap().metadata().unwrap().len()).max();
    drop(agentd);
    largest.unwrap()
}

/// How many were killed when they had begun to talk.
async fn kill_at_each(limits: Arc<Vec<u64>>, lane: usize) -> usize {
    let mut talked = 0;
    for limit in limits.iter().skip(lane).step_by(LANES) {
        talked += usize::from(killed_at(*limit).await);
    }
    talked
}

/// Whether it had begun to talk.
async fn killed_at(limit: u64) -> bool {
    let at = format!("at {limit} bytes");
    let world = World::new(Place::Folder).await;
    let line = format!(r#"exec /usr/bin/prlimit --core=0 --fsize={limit}:{limit} "$0" "$@""#);
    let arguments = ["run", "-c", &world.document()];
    let agentd = Agentd::start_by_shell(&line, &arguments, &[], world.folder.path());
    let (agentd, ledger) = match World::ready(agentd).await {
        Err(agentd) => (agentd, Ledger::default()),
        Ok((agentd, caller)) => (agentd, world.clone().converse(caller, script("one")).await),
    };
    let (status, _, log) = agentd.end().await;
    assert_eq!(
        status.signal(),
        Some(Signal::SIGXFSZ as i32),
        "{at}: {status} {log:#?}"
    );
    world.gate.bury();
    let talked = !ledger.sent.is_empty();
    // Of one that never was ready there may be nothing to read yet.
    let before = if talked {
        world.kept().await
    } else {
        Kept::exported("")
    };
    let (_agentd, caller) = restarted(&world, &before, &ledger, "one", &at).await;
    let ledger = world.clone().converse(caller, script("two")).await;
    assert_eq!(ledger.acknowledged.len(), ledger.sent.len(), "{at}");
    world.check().await;
    talked
}
