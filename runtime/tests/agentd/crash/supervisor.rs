//! The supervisor is killed at every change that it makes to its store.

use std::sync::Arc;

use nix::sys::signal::Signal;

use super::gate::Point;
use super::restarted::restarted;
use super::{LANES, Place, World, assert_answered, script};
use crate::a2a::Caller;
use crate::process::Agentd;

/// The conversation makes at least so many changes; fewer, and the test sees less than it thinks.
const CHANGES: usize = 50;
/// And so many requests.
const REQUESTS: usize = 35;
/// Kills that one store lives through.
const WORLD: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_that_is_killed_at_any_commit_loses_nothing_and_repeats_nothing() {
    let events = recorded(Place::Server).await;
    assert!(events.len() >= CHANGES, "{events:#?}");
    kill(Place::Server, Place::Server.points(&events)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_whose_state_is_in_a_folder_is_killed_at_every_request_of_its_turns() {
    let events = recorded(Place::Folder).await;
    assert!(events.len() >= REQUESTS, "{events:#?}");
    kill(Place::Folder, Place::Folder.points(&events)).await;
}

async fn kill(place: Place, points: Vec<Point>) {
    let points = Arc::new(points);
    let lanes = (0..LANES).map(|lane| tokio::spawn(kill_at_each(place, points.clone(), lane)));
    for lane in futures::future::join_all(lanes).await {
        lane.unwrap();
    }
}

/// The events of the whole conversation, which are as many each time.
pub async fn recorded(place: Place) -> Vec<String> {
    let world = World::new(place).await;
    let (_agentd, caller) = world.start().await;
    let mut runs = Vec::new();
    for tag in ["one", "two"] {
        world.gate.renew(None);
        let ledger = world.clone().converse(caller.clone(), script(tag)).await;
        assert_eq!(ledger.acknowledged.len(), ledger.sent.len());
        for said in &ledger.sent {
            assert_answered(&world.kept().await.task_of(&said.id).unwrap());
        }
        let calls = world.calls(tag);
        assert!(
            super::CALLS
                .iter()
                .all(|name| calls[&format!("{tag}-{name}")] == 1),
            "{calls:?}"
        );
        runs.push(world.gate.events());
    }
    let [first, second] = <[Vec<String>; 2]>::try_from(runs).unwrap();
    assert_eq!(first.len(), second.len(), "{first:#?} {second:#?}");
    first
}

async fn kill_at_each(place: Place, points: Arc<Vec<Point>>, lane: usize) {
    let mine: Vec<Point> = points.iter().copied().skip(lane).step_by(LANES).collect();
    for points in mine.chunks(WORLD) {
        let world = World::new(place).await;
        let mut running = world.start().await;
        for (number, point) in points.iter().enumerate() {
            running = killed_at(&world, running, *point, &format!("p{number}")).await;
        }
        drop(running);
        world.check().await;
    }
}

/// One conversation, the kill, and all that must be true after the next start.
async fn killed_at(
    world: &Arc<World>,
    (agentd, caller): (Agentd, Caller),
    point: Point,
    tag: &str,
) -> (Agentd, Caller) {
    world.gate.renew(Some(point));
    let talk = tokio::spawn(world.clone().converse(caller, script(tag)));
    world.gate.reached().await;
    let events = world.gate.events();
    agentd.signal(Signal::SIGKILL);
    agentd.end().await;
    world.gate.bury();
    let ledger = talk.await.unwrap();
    let before = world.kept().await;
    let at = format!("at {point:?} of {events:#?}");

    restarted(world, &before, &ledger, tag, &at).await
}
