//! Our client against our listener, over mutual TLS by SPIFFE ID.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods
)]

mod support;

use agentd_a2a::client::{Client, ClientError, Listing, Outgoing};
use agentd_a2a::wire::{SendMessageResponse, StreamResponse, TaskState};
use agentd_base::class::{Class, Classified as _};
use agentd_net::{Declared, Destination, Options, TlsMode};
use support::*;

fn client(world: &World, own: &str, expected: &str) -> Client {
    let source = source(&world.authority, own, &[]);
    let url = format!("https://localhost:{}/agents/helper", world.address.port());
    let base = Destination::declared(&url, Declared::Internal).unwrap();
    let options = Options {
        tls: TlsMode::Spiffe {
            source,
            expected: id(expected),
        },
        ..Options::default()
    };
    Client::new(base, options, agentd_base::id::uuids())
}

fn text(text: &str) -> Outgoing {
    Outgoing {
        text: text.into(),
        ..Outgoing::default()
    }
}

#[tokio::test]
async fn sends_a_message_and_reads_its_task() {
    let world = World::start().await;
    let alice = client(&world, ALICE, SERVER);
    assert_eq!(alice.card().await.unwrap().name, "helper");
    let SendMessageResponse::Task(task) = alice.send(text("echo hi")).await.unwrap() else {
        unreachable!()
    };
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(task.artifacts.as_ref().unwrap()[0].parts[0].as_text(), Some("hi"));
    assert_eq!(alice.task(&task.id).await.unwrap(), task);
    let on = Outgoing {
        context_id: Some(task.context_id.clone()),
        ..text("echo more")
    };
    let SendMessageResponse::Task(second) = alice.send(on).await.unwrap() else {
        unreachable!()
    };
    assert_eq!(second.context_id, task.context_id);
}

#[tokio::test]
async fn tasks_are_listed_and_followed() {
    let world = World::start().await;
    let alice = client(&world, ALICE, SERVER);
    let at_once = Outgoing {
        return_immediately: true,
        ..text("echo never")
    };
    let SendMessageResponse::Task(waits) = alice.send(at_once).await.unwrap() else {
        unreachable!()
    };
    alice.send(text("echo hi")).await.unwrap();
    let one = Listing {
        page_size: Some(1),
        ..Listing::default()
    };
    let first = alice.tasks(one.clone()).await.unwrap();
    assert_eq!((first.tasks.len(), first.total_size), (1, 2));
    let next = Listing {
        page_token: Some(first.next_page_token),
        ..one
    };
    assert_eq!(alice.tasks(next).await.unwrap().tasks[0].id, waits.id);

    let mut followed = alice.follow(&waits.id);
    let Some(Ok(StreamResponse::Task(task))) = followed.next().await else {
        unreachable!()
    };
    assert_eq!(task.status.state, TaskState::Submitted);
    world.agent.piece(&waits.id, "some", false);
    assert!(matches!(
        followed.next().await,
        Some(Ok(StreamResponse::ArtifactUpdate(_)))
    ));
    let done = alice.follow(&first.tasks[0].id).ended().await.unwrap();
    assert_eq!(done.status.state, TaskState::Completed);
    let unknown = alice.cancel("nope").await.unwrap_err();
    assert!(unknown.is_task_not_found(), "{unknown}");
}

#[tokio::test]
async fn refusals_have_their_class() {
    let world = World::start().await;
    let mallory = client(&world, MALLORY, SERVER)
        .send(text("echo hi"))
        .await
        .unwrap_err();
    assert_eq!(mallory.class(), Class::Denied);
    assert!(
        mallory.to_string().contains("no principal of this agent matches"),
        "{mallory}"
    );
    let unknown = client(&world, ALICE, SERVER).task("nope").await.unwrap_err();
    assert!(
        matches!(unknown, ClientError::Rpc { code: -32001, .. }),
        "{unknown}"
    );
    let impostor = client(&world, ALICE, BOB)
        .send(text("echo hi"))
        .await
        .unwrap_err();
    assert!(matches!(impostor, ClientError::Net(_)), "{impostor}");
    assert!(
        impostor.to_string().contains(SERVER),
        "says who answered: {impostor}"
    );
    assert!(world.agent.tasks.lock().unwrap().is_empty());
}
