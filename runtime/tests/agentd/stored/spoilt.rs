//! Records at a server that nobody can read any more: they are written over, and the agent goes on.

use super::*;

/// A kind of record in a key of the server.
fn is_of(key: &str, kinds: &[&str]) -> bool {
    kinds.iter().any(|kind| key.contains(&format!("/{kind}/")))
}

/// Replaces what is held of these kinds; how many records that were.
fn spoil(held: &Held, kinds: &[&str], text: &str) -> usize {
    let mut held = held.lock().unwrap();
    let records = held.iter_mut().filter(|(key, _)| is_of(key, kinds));
    records.map(|(_, (_, found))| *found = text.to_owned()).count()
}

async fn kill(agentd: Agentd) {
    kill_worker(agentd.pid());
    agentd.end().await;
}

/// What a conversation, a task and the budget are overwritten with: what is no JSON, and what another version would
/// have written.
async fn goes_on(world: &World, document: &str, held: &Held, text: &str) {
    let (agentd, caller) = world.start(document).await;
    let in_c = || json!({ "contextId": "c" });
    let first = caller.send("m1", "hello one", in_c()).await;
    // What the last intent says is put in its place again: it is to be about another conversation.
    for (id, context) in [("m2", "d"), ("m3", "e")] {
        let sent = caller.send(id, "hello", json!({ "contextId": context })).await;
        assert_eq!(sent["status"]["state"], "TASK_STATE_COMPLETED", "{sent:#}");
    }
    kill(agentd).await;
    let spoilt = spoil(held, &["context", "task", "budget"], text);
    // Those of the first two conversations; the last one may still stand in the intent.
    assert!(spoilt >= 4, "{spoilt}");

    // A process that took the record's number for that of a stranger would end here, and the next one again.
    for (id, said) in [("m4", "hello four"), ("m5", "hello five")] {
        let (agentd, caller) = world.start(document).await;
        let sent = caller.send(id, said, in_c()).await;
        assert_eq!(sent["status"]["state"], "TASK_STATE_COMPLETED", "{sent:#}");
        let next = caller.send(&format!("{id}-next"), said, in_c()).await;
        assert_eq!(next["status"]["state"], "TASK_STATE_COMPLETED", "{next:#}");
        assert_eq!(agentd.lines("store.conflict"), Vec::<Value>::new());
        kill(agentd).await;
    }
    // The task that nobody can read is not there; the conversation and the budget are there again.
    let (agentd, caller) = world.start(document).await;
    assert_eq!(caller.task(first["id"].as_str().unwrap()).await, Value::Null);
    let held = held.lock().unwrap().clone();
    let conversation = held
        .iter()
        .find(|(key, _)| key.ends_with("/context/anonymous%20c"));
    let unread: Vec<&String> = held
        .iter()
        .filter(|(key, (_, found))| is_of(key, &["context", "budget"]) && found == text)
        .map(|(key, _)| key)
        .collect();
    assert!(
        unread
            .iter()
            .all(|key| key.ends_with("%20d") || key.ends_with("%20e")),
        "{unread:?} {:?}",
        held.keys()
    );
    assert!(conversation.is_none_or(|(_, (_, found))| found.contains("hello five")));
    drop(agentd);
}

const OTHER_VERSION: &str = r#"{"v":99,"seq":1,"state":{}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_record_at_an_http_service_is_written_over_and_the_agent_goes_on() {
    for text in ["no JSON", OTHER_VERSION] {
        let (world, held) = (World::new().await, Held::default());
        let server = Server::start(&held).await;
        let (store, servers) = of_http(&server.base_url());
        goes_on(&world, &world.document("spoilt", &store, &servers), &held, text).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_record_at_an_mcp_server_is_written_over_and_the_agent_goes_on() {
    let (world, held) = (World::new().await, Held::default());
    let server = Server::start(&held).await;
    let (store, servers) = of_mcp(&server.endpoint());
    goes_on(
        &world,
        &world.document("spoilt", &store, &servers),
        &held,
        "no JSON",
    )
    .await;
}
