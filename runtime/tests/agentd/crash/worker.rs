//! A worker is killed at every commit that its supervisor makes while it lives, on both sides of it: the worker of the
//! conversation, and that of the subagent. The commit is the intent; with what follows it the supervisor is busy
//! beside the turn. Where nobody sees the commits it is killed at every request between them.

use std::sync::Arc;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::gate::{Moment, Point};
use super::kept::{Kept, is_live};
use super::{LANES, Place, Said, World, assert_answered, is_soak, script};
use crate::process::{Agentd, PATIENCE};

/// Workers live at least at so many points; fewer, and the test sees less than it thinks.
const KILLS: usize = 20;
/// Kills that one supervisor lives through.
const WORLD: usize = 16;

/// Whose worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Conversation,
    Subagent,
}

/// A worker, and the last run that it was given: a task, or the handle of a subagent.
#[derive(Debug, Clone)]
struct Worker {
    pid: u32,
    run: String,
}

/// A point, and whose worker is killed there.
type Target = (Point, Victim);

/// What became of the kills of a lane.
#[derive(Default)]
struct Lane {
    killed: usize,
    /// Of them those that failed a turn or a subagent.
    failed: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_at_any_commit_fails_its_turn_and_nothing_else() {
    kill_everywhere(Place::Server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_state_is_in_a_folder_is_killed_at_every_request_and_fails_its_turn_and_nothing_else()
{
    kill_everywhere(Place::Folder).await;
}

async fn kill_everywhere(place: Place) {
    let targets = Arc::new(recorded(place).await);
    assert!(targets.len() >= KILLS, "{targets:?}");
    let lanes = (0..LANES).map(|lane| tokio::spawn(kill_at_each(place, targets.clone(), lane)));
    let lanes = futures::future::join_all(lanes).await;
    let (mut killed, mut failed) = (0, 0);
    for lane in lanes {
        let lane = lane.unwrap();
        killed += lane.killed;
        failed += lane.failed;
    }
    // The worker of a subagent that has ended may leave before it is killed.
    assert!(killed * 10 >= targets.len() * 8, "{killed} of {targets:?}");
    // A turn is in the middle at some of them, and at others it is not.
    assert!(failed > 8 && failed < killed, "{failed} of {killed}");
}

/// Whether a worker is killed here.
fn is_aimed_at(place: Place, event: &str, moment: Moment) -> bool {
    match place {
        Place::Server => event.ends_with("manifest"),
        Place::Folder => is_soak() || place.chosen(event) == moment,
    }
}

/// Steps through the whole conversation: at which points which workers live.
async fn recorded(place: Place) -> Vec<Target> {
    let world = World::new(place).await;
    let (agentd, caller) = world.start().await;
    let mut next = (0, Moment::Before);
    world.gate.renew(Some(next));
    let talk = tokio::spawn(world.clone().converse(caller, script("one")));
    tokio::pin!(talk);
    let mut targets = Vec::new();
    loop {
        tokio::select! {
            () = world.gate.reached() => {}
            ledger = &mut talk => {
                assert_eq!(ledger.unwrap().acknowledged.len(), script("one").len());
                return targets;
            }
        }
        if is_aimed_at(place, &world.gate.events()[next.0], next.1) {
            let kept = world.kept().await;
            for victim in [Victim::Conversation, Victim::Subagent] {
                if worker(&agentd, &kept, "one", victim).await.is_some() {
                    targets.push((next, victim));
                }
            }
        }
        next = match next {
            (number, Moment::Before) => (number, Moment::After),
            (number, Moment::After) => (number + 1, Moment::Before),
        };
        world.gate.open(Some(next));
    }
}

/// The youngest worker of this kind in the conversation.
async fn worker(agentd: &Agentd, kept: &Kept, tag: &str, victim: Victim) -> Option<Worker> {
    let mut workers: Vec<Worker> = Vec::new();
    for pid in agentd.workers() {
        let run = turn_of(agentd, pid).await;
        workers.push(Worker { pid, run });
    }
    let is_here = |worker: &Worker| match victim {
        Victim::Conversation => {
            let task = kept.task(&worker.run);
            task.is_some_and(|task| task.asked().contains(&format!("{tag}-")))
        }
        Victim::Subagent => {
            let record = kept.subagents().get(&worker.run).cloned();
            record.is_some_and(|record| record["parent"].as_str().unwrap().contains(&format!("{tag}-")))
        }
    };
    workers.retain(is_here);
    workers.into_iter().max_by(|a, b| a.run.cmp(&b.run))
}

/// The last run that a worker was given.
pub async fn turn_of(agentd: &Agentd, worker: u32) -> String {
    // What it is given is logged before it is given; the line may be on its way.
    let run = async {
        loop {
            let given = agentd.lines("turn.spawn");
            if let Some(line) = given.iter().rev().find(|line| line["worker"] == worker) {
                return line["run_id"].as_str().unwrap().to_owned();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, run).await.unwrap()
}

/// Kills, one after the other, workers of one supervisor.
async fn kill_at_each(place: Place, targets: Arc<Vec<Target>>, lane: usize) -> Lane {
    let mut done = Lane::default();
    let mine: Vec<Target> = targets.iter().copied().skip(lane).step_by(LANES).collect();
    for targets in mine.chunks(WORLD) {
        let world = World::new(place).await;
        let (agentd, caller) = world.start().await;
        for (number, (point, victim)) in targets.iter().enumerate() {
            let tag = format!("w{number}");
            world.gate.renew(Some(*point));
            let talk = tokio::spawn(world.clone().converse(caller.clone(), script(&tag)));
            world.gate.reached().await;
            let kept = world.kept().await;
            let at = format!("{victim:?} at {point:?} of {:#?}", world.gate.events());
            let killed = worker(&agentd, &kept, &tag, *victim).await;
            // One that leaves at this moment is not killed.
            let killed = killed.filter(|worker| signal(worker.pid, Signal::SIGKILL));
            done.killed += usize::from(killed.is_some());
            world.gate.open(None);
            let ledger = talk.await.unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(ledger.acknowledged.len(), ledger.sent.len(), "{at}");
            assert!(world.settled().await, "{at}");
            done.failed += usize::from(was_failed(&world, &kept, killed.as_ref(), &tag, &at).await);
        }
        drop(agentd);
        world.check().await;
    }
    done
}

/// What must be true after the death of a worker, which nothing but its own turn may show; whether that did.
async fn was_failed(world: &World, before: &Kept, killed: Option<&Worker>, tag: &str, at: &str) -> bool {
    let after = world.kept().await;
    assert_eq!(after.marks(), 0, "{at}");
    let calls = world.calls(tag);
    assert!(calls.values().all(|count| *count == 1), "{at}: {calls:?}");
    // A turn that had not begun, or had ended, is none of the worker's.
    let run = killed.map_or("", |killed| killed.run.as_str());
    let is_working = before.task(run).is_some_and(|task| task.state() == "working");
    let may_fail = is_working || before.subagents().get(run).is_some_and(is_live);
    let mut failed = false;
    for task in after.tasks() {
        if !task.asked().contains(&format!("{tag}-")) {
            continue;
        }
        if task.id() == run && task.state() == "failed" {
            assert!(may_fail && task.reason().contains("SIGKILL"), "{at}: {task:#?}");
            failed = true;
        } else {
            assert_answered(&task);
        }
    }
    if let Some(record) = after.subagents().get(run)
        && let Some(reason) = record["reason"].as_str()
    {
        assert!(may_fail && reason.contains("SIGKILL"), "{at}: {record:#}");
        failed = true;
    }
    failed
}

/// Whether it was there to hear it.
pub fn signal(pid: u32, signal: Signal) -> bool {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).is_ok()
}

/// What ends a process from within, or without its doing, fails the turn that it is in the middle of, by its name.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_a_fault_ends_fails_one_turn_by_the_name_of_the_fault() {
    let world = World::new(Place::Folder).await;
    let (agentd, caller) = world.start().await;
    let faults = [
        Signal::SIGSEGV,
        Signal::SIGABRT,
        Signal::SIGBUS,
        Signal::SIGILL,
        Signal::SIGTERM,
        Signal::SIGKILL,
    ];
    for fault in faults {
        let tag = fault.as_str();
        // The tool has done its work, and its answer does not come.
        world.gate.renew(Some((1, Moment::After)));
        let said = Said {
            id: format!("{tag}-m"),
            context: format!("{tag}-c"),
            text: format!("echo {tag}-once"),
        };
        let saying = {
            let (said, caller) = (said.clone(), caller.clone());
            tokio::spawn(async move { said.say(&caller, json!({})).await })
        };
        world.gate.reached().await;
        let kept = world.kept().await;
        let hit = worker(&agentd, &kept, tag, Victim::Conversation).await.unwrap();
        // The first one of some only takes away what Rust installs to tell a stack overflow.
        let gone = async {
            while signal(hit.pid, fault) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.unwrap();
        let task = saying.await.unwrap();
        let task = task.unwrap_or_else(|| panic!("{tag}: {:#?}", agentd.lines("turn.failed")));
        world.gate.bury();
        assert_eq!(task["status"]["state"], "TASK_STATE_FAILED", "{task:#}");
        assert!(crate::a2a::said(&task).contains(tag), "{task:#}");
        let again = said.say(&caller, json!({})).await.unwrap();
        assert_eq!(again["id"], task["id"], "it is not carried out again by itself");
        let next = Said {
            id: format!("{tag}-next"),
            text: format!("echo {tag}-next"),
            ..said
        };
        let next = next.say(&caller, json!({})).await.unwrap();
        assert_eq!(
            crate::a2a::answer(&next),
            format!("the tool said: echo: {tag}-next")
        );
        let calls = world.calls(tag);
        assert!(
            calls.values().all(|count| *count == 1) && calls.len() == 2,
            "{calls:?}"
        );
    }
}
