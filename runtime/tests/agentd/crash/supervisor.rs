//! The supervisor is killed at every change that it makes to its store.

use std::sync::Arc;

use serde_json::json;

use super::gate::{Moment, Point};
use super::kept::is_live;
use super::{LANES, Place, World, assert_answered, is_soak, script};
use crate::a2a::Caller;
use crate::process::Agentd;

use nix::sys::signal::Signal;

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
    // An intent is the commit: it is there, and nobody heard of it. Of the records that follow, some are not.
    let points = points(&events, |event| match event.ends_with("manifest") {
        true => Moment::After,
        false => Moment::Before,
    });
    kill(Place::Server, points).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_whose_state_is_in_a_folder_is_killed_at_every_request_of_its_turns() {
    let events = recorded(Place::Folder).await;
    assert!(events.len() >= REQUESTS, "{events:#?}");
    // What a tool did is done, and nobody heard of it.
    let points = points(&events, |event| match event == "tool" {
        true => Moment::After,
        false => Moment::Before,
    });
    kill(Place::Folder, points).await;
}

/// Every event at its moment; when there is time, at both.
fn points(events: &[String], moment: impl Fn(&str) -> Moment) -> Vec<Point> {
    let both = [Moment::Before, Moment::After];
    let all = events.iter().enumerate().flat_map(|(number, event)| {
        let chosen = moment(event);
        let moments = both
            .into_iter()
            .filter(move |moment| is_soak() || *moment == chosen);
        moments.map(move |moment| (number, moment))
    });
    all.collect()
}

async fn kill(place: Place, points: Vec<Point>) {
    let points = Arc::new(points);
    let lanes = (0..LANES).map(|lane| tokio::spawn(kill_at_each(place, points.clone(), lane)));
    for lane in futures::future::join_all(lanes).await {
        lane.unwrap();
    }
}

/// The events of the whole conversation, which are as many each time.
async fn recorded(place: Place) -> Vec<String> {
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

    let (agentd, caller) = world.start().await;
    assert!(world.settled().await);
    let after = world.kept().await;
    for task in before.tasks() {
        let now = after
            .task(task.id())
            .unwrap_or_else(|| panic!("{at}: lost {task:#?}"));
        match task.state() {
            "submitted" => assert_answered(&now),
            "working" => {
                assert_eq!(now.state(), "failed", "{at}");
                assert!(now.reason().contains("restarted"), "{at}: {now:#?}");
            }
            _ => assert_eq!(now, task, "{at}"),
        }
    }
    for (handle, record) in before.subagents() {
        let now = &after.subagents()[&handle];
        if is_live(&record) {
            assert!(
                now["reason"].as_str().unwrap().contains("restarted"),
                "{at}: {now:#}"
            );
        } else {
            assert_eq!(*now, record, "{at}");
        }
    }
    assert_eq!(after.marks(), 0, "{at}");

    // Whoever was not answered asks again.
    for said in &ledger.sent {
        let again = said.say(&caller, json!({})).await.unwrap();
        let acknowledged = ledger.acknowledged.get(&said.id);
        assert!(
            acknowledged.is_none_or(|id| again["id"] == id.as_str()),
            "{at}: {said:?} {again:#}"
        );
    }
    assert!(world.settled().await);
    let after = world.kept().await;
    for said in &ledger.sent {
        let stored = before.task_of(&said.id);
        let is_acknowledged = ledger.acknowledged.contains_key(&said.id);
        assert!(!is_acknowledged || stored.is_some(), "{at}: lost {said:?}");
        let task = after.task_of(&said.id).unwrap();
        match stored {
            Some(stored) => assert_eq!(stored.id(), task.id(), "{at}"),
            None => assert_answered(&task),
        }
    }
    let calls = world.calls(tag);
    assert!(calls.values().all(|count| *count == 1), "{at}: {calls:?}");
    (agentd, caller)
}
