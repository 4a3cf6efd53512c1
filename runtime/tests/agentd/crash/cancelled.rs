//! At every point of the conversation a caller cancels the turns that are in the middle, and before they have ended their
//! workers are killed, or the agent is told to stop. What was accepted holds: such a task is cancelled, in the answer and in
//! the store, and every other one is answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::gate::Point;
use super::kept::Kept;
use super::restarted::restarted;
use super::supervisor::recorded;
use super::worker::{signal, turn_of};
use super::{LANES, Ledger, Place, World, assert_answered, script};
use crate::a2a::Caller;
use crate::process::Agentd;

/// Turns that are cancelled at least, of as many as there are points; fewer, and the test sees less than it thinks.
const CANCELLED: usize = 15;
/// Points that one store lives through.
const WORLD: usize = 8;

/// What happens after the cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The workers of the turns are killed.
    Kill,
    /// The agent is told to stop, and the workers of the turns do what they are asked to.
    Drain,
    /// The agent is told to stop, and the workers of the turns are killed.
    DrainAndKill,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_is_accepted_holds_when_the_worker_is_killed_then() {
    cancel_everywhere(&[Then::Kill]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_is_accepted_holds_when_the_agent_drains_then() {
    cancel_everywhere(&[Then::Drain, Then::DrainAndKill]).await;
}

/// At every point, in turn, one of these.
async fn cancel_everywhere(then: &'static [Then]) {
    let points = Arc::new(Place::Folder.points(&recorded(Place::Folder).await));
    let lanes = (0..LANES).map(|lane| tokio::spawn(cancel_at_each(then, points.clone(), lane)));
    let mut cancelled = 0;
    for lane in futures::future::join_all(lanes).await {
        cancelled += lane.unwrap();
    }
    assert!(cancelled >= CANCELLED, "{cancelled} at {points:?}");
}

async fn cancel_at_each(then: &'static [Then], points: Arc<Vec<Point>>, lane: usize) -> usize {
    let mine: Vec<Point> = points.iter().copied().skip(lane).step_by(LANES).collect();
    let mut cancelled = 0;
    for points in mine.chunks(WORLD) {
        let world = World::new(Place::Folder).await;
        let mut running = world.start().await;
        for ((number, point), then) in points.iter().enumerate().zip(then.iter().cycle()) {
            let tag = format!("x{number}");
            let at = Cancelled::at(&world, running, *point, &tag).await;
            let what = format!("{then:?} at {point:?} of {:#?}", world.gate.events());
            running = match then {
                Then::Kill => at.killed(&tag, &what, &mut cancelled).await,
                Then::Drain | Then::DrainAndKill => at.drained(*then, &tag, &what, &mut cancelled).await,
            };
        }
        drop(running);
        world.check().await;
    }
    cancelled
}

/// An agent that was asked to cancel what it works on, and whose workers do not hear of it yet.
struct Cancelled {
    world: Arc<World>,
    agentd: Agentd,
    caller: Caller,
    talk: JoinHandle<Ledger>,
    /// By task: what the caller will be told.
    asked: BTreeMap<String, JoinHandle<Value>>,
}

impl Cancelled {
    /// Talks up to this point, and cancels.
    async fn at(world: &Arc<World>, (agentd, caller): (Agentd, Caller), point: Point, tag: &str) -> Self {
        world.gate.renew(Some(point));
        let talk = tokio::spawn(world.clone().converse(caller.clone(), script(tag)));
        world.gate.reached().await;
        for pid in agentd.workers() {
            signal(pid, Signal::SIGSTOP);
        }
        let mut asked = BTreeMap::new();
        for task in world.kept().await.tasks() {
            if task.state() == "working" {
                let (caller, id) = (caller.clone(), task.id().to_owned());
                let asking = async move { caller.call("CancelTask", json!({ "id": id })).await.unwrap() };
                asked.insert(task.id().to_owned(), tokio::spawn(asking));
            }
        }
        // By then it has been heard; if not, then what the caller is told says so.
        world.kept().await;
        Self {
            world: world.clone(),
            agentd,
            caller,
            talk,
            asked,
        }
    }

    /// Lets workers go on; those of the turns that were cancelled are killed, if they are to be.
    async fn release(&self, is_killed: bool) {
        for pid in self.agentd.workers() {
            let is_victim = is_killed && self.asked.contains_key(&turn_of(&self.agentd, pid).await);
            signal(
                pid,
                if is_victim {
                    Signal::SIGKILL
                } else {
                    Signal::SIGCONT
                },
            );
        }
        self.world.gate.open(None);
    }

    async fn killed(self, tag: &str, at: &str, cancelled: &mut usize) -> (Agentd, Caller) {
        self.release(true).await;
        let ledger = self.talk.await.unwrap_or_else(|error| panic!("{at}: {error}"));
        assert_eq!(ledger.acknowledged.len(), ledger.sent.len(), "{at}");
        assert!(self.world.settled().await, "{at}");
        let after = self.world.kept().await;
        assert_eq!(after.marks(), 0, "{at}");
        for task in after.tasks() {
            if task.asked().contains(&format!("{tag}-")) && !self.asked.contains_key(task.id()) {
                assert_answered(&task);
            }
        }
        let calls = self.world.calls(tag);
        assert!(calls.values().all(|count| *count == 1), "{at}: {calls:?}");
        *cancelled += verdicts(self.asked, &after, at).await;
        (self.agentd, self.caller)
    }

    async fn drained(mut self, then: Then, tag: &str, at: &str, cancelled: &mut usize) -> (Agentd, Caller) {
        self.agentd.signal(Signal::SIGTERM);
        self.agentd.event("drain.start").await;
        self.release(then == Then::DrainAndKill).await;
        let (status, _, log) = self.agentd.end().await;
        assert_eq!(status.code(), Some(0), "{at}: {log:#?}");
        let ledger = self.talk.await.unwrap_or_else(|error| panic!("{at}: {error}"));
        self.world.gate.bury();
        let before = self.world.kept().await;
        for task in before.tasks() {
            assert_ne!(task.state(), "working", "{at}: {task:#?}");
        }
        *cancelled += verdicts(self.asked, &before, at).await;
        restarted(&self.world, &before, &ledger, tag, at).await
    }
}

/// What the callers were told is what is stored; how many tasks are cancelled.
async fn verdicts(asked: BTreeMap<String, JoinHandle<Value>>, after: &Kept, at: &str) -> usize {
    let mut cancelled = 0;
    for (id, told) in asked {
        let told = told.await.unwrap();
        let task = after.task(&id).unwrap_or_else(|| panic!("{at}: lost {id}"));
        if told["result"]["status"]["state"] == "TASK_STATE_CANCELED" {
            assert_eq!(task.state(), "canceled", "{at}: {task:#?}");
            assert!(!task.reason().contains("restarted"), "{at}: {task:#?}");
            cancelled += 1;
        } else {
            assert_eq!(told["error"]["code"], -32002, "{at}: {told:#}");
            assert!(["completed", "failed"].contains(&task.state()), "{at}: {task:#?}");
        }
    }
    cancelled
}
