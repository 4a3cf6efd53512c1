//! Sessions: closed in order, moved, forgotten, restarted.

use std::collections::BTreeMap;

use agentd_base::class::{Class, Classified as _};
use agentd_base::report::ServerState;
use agentd_config::document::Mcp;
use agentd_interop::peers::Peer;
use agentd_interop::tap::{Act, Asked, Tap};
use agentd_interop::{arguments, boot, meta, server, soon, worker};
use agentd_mcp::supervised::PACE;
use agentd_mcp::{Hooks, Outbound, Supervised};
use futures::future::join_all;
use serde_json::json;

use crate::{call, everything, open, open_server};

#[tokio::test(flavor = "multi_thread")]
async fn m35_closing_ends_the_session_at_the_server() {
    let old = Peer::old("1.12.4", &[]);
    for port in [everything(), old.port] {
        let tap = Tap::in_front_of(port).await;
        let connection = open(tap.address.port(), boot()).await;
        connection.tools().await.unwrap();
        let session = tap
            .seen("tools/list", 1)
            .await
            .header("mcp-session-id")
            .unwrap()
            .to_owned();
        connection.close().await;
        assert_eq!(
            tap.seen("DELETE", 1).await.header("mcp-session-id"),
            Some(session.as_str())
        );
        // The notification stream ends with it, and nothing stays open.
        drop(connection);
        tap.connections(0).await;
    }
}

/// B8: the redirect of a POST within its origin is followed with body, headers and session.
#[tokio::test(flavor = "multi_thread")]
async fn m15_a_post_that_is_sent_elsewhere_on_its_own_server_arrives_whole() {
    for release in ["1.8.1", "1.9.4"] {
        let peer = Peer::old(release, &[]);
        let tap = Tap::in_front_of(peer.port).await;
        let mut declared = server(tap.address.port());
        declared.connection.headers = BTreeMap::from([("x-mine".into(), "1".into())]);
        let connection = open_server(&declared, boot(), Hooks::default()).await;
        assert_eq!(
            call(&connection, "add", json!({ "a": 1, "b": 2 })).await.text,
            "3"
        );
        connection.close().await;
        let moved: Vec<Asked> = tap
            .log()
            .into_iter()
            .filter(|asked| asked.path == "/mcp/")
            .collect();
        assert!(!moved.is_empty(), "{release} does not move us");
        let arrived = moved.iter().find(|asked| asked.what() == "tools/call").unwrap();
        assert_eq!(arrived.header("x-mine"), Some("1"));
        assert!(arrived.header("mcp-session-id").is_some());
        assert!(moved.iter().any(|asked| asked.what() == "DELETE"), "{release}");
    }
}

/// Field case M01: the server has forgotten the session while eight calls are on their way.
#[tokio::test(flavor = "multi_thread")]
async fn field_m01_a_forgotten_session_is_begun_again_once_and_no_call_is_carried_out_twice() {
    let tap = Tap::in_front_of(everything()).await;
    let connection = open(tap.address.port(), worker()).await;
    call(&connection, "echo", json!({ "message": "before" })).await;
    let old = tap
        .seen("tools/call", 1)
        .await
        .header("mcp-session-id")
        .unwrap()
        .to_owned();
    let initialized = tap.count("initialize");
    let forgotten = old.clone();
    tap.rule(
        move |asked| match asked.header("mcp-session-id") == Some(&forgotten) {
            true => Act::text(
                404,
                "application/json",
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#,
            ),
            false => Act::Pass,
        },
    );
    let calls = (0..8).map(|number| {
        let connection = connection.clone();
        async move {
            let text = number.to_string();
            let given = arguments(&json!({ "message": text }));
            (number, connection.call("echo", given, &meta(&text)).await)
        }
    });
    let results = soon("the calls", join_all(calls)).await;
    for (number, result) in results {
        // Refused by the session's absence, a call was not carried out: it may be sent again, or its caller is told.
        match result {
            Ok(outcome) => assert_eq!(outcome.text, format!("Echo: {number}")),
            Err(error) => assert_eq!(error.class(), Class::Unavailable, "{error}"),
        }
    }
    assert_eq!(
        call(&connection, "echo", json!({ "message": "after" }))
            .await
            .text,
        "Echo: after"
    );
    assert_eq!(
        tap.count("initialize"),
        initialized + 1,
        "one new session, not one a call"
    );
    let mut carried_out: BTreeMap<String, usize> = BTreeMap::new();
    for asked in tap.log() {
        if asked.what() == "tools/call" && asked.header("mcp-session-id") != Some(&old) {
            let key = asked.body["params"]["_meta"]["agent/idempotency_key"]
                .as_str()
                .unwrap()
                .to_owned();
            *carried_out.entry(key).or_default() += 1;
        }
    }
    assert!(carried_out.values().all(|times| *times == 1), "{carried_out:?}");
    connection.close().await;
}

/// Field case M01: a call whose connection died may have been carried out, so it is not sent again.
#[tokio::test(flavor = "multi_thread")]
async fn field_m01_a_call_that_may_have_been_carried_out_is_never_sent_again() {
    let tap = Tap::in_front_of(everything()).await;
    let connection = open(tap.address.port(), worker()).await;
    call(&connection, "echo", json!({ "message": "before" })).await;
    tap.rule(|asked| {
        if asked.what() == "tools/call" {
            Act::cut()
        } else {
            Act::Pass
        }
    });
    let sent = tap.count("tools/call");
    let lost = connection
        .call("echo", arguments(&json!({ "message": "lost" })), &meta("lost"))
        .await;
    assert_eq!(lost.unwrap_err().class(), Class::Unavailable);
    assert_eq!(tap.count("tools/call"), sent + 1);
    tap.rule(|_| Act::Pass);
    assert_eq!(
        call(&connection, "echo", json!({ "message": "after" }))
            .await
            .text,
        "Echo: after"
    );
    connection.close().await;
}

/// Field case M01: another process answers at the same address, and knows nothing of the session (the reference server
/// says so with 400, not 404).
#[tokio::test(flavor = "multi_thread")]
async fn field_m01_a_restarted_server_is_taken_back_without_help() {
    let first = Peer::everything();
    let tap = Tap::in_front_of(first.port).await;
    let mcp = Mcp {
        servers: vec![server(tap.address.port())],
        ..Mcp::default()
    };
    let supervised = Supervised::start(&mcp, "agent-0".into(), Outbound::default(), PACE);
    let mut view = supervised.view();
    let connected = view.wait_for(|view| view.servers[0].state == ServerState::Connected);
    soon("the first connection", connected).await.unwrap();
    tap.seen("GET", 1).await;
    let initialized = tap.count("initialize");

    let second = Peer::everything();
    tap.forward_to(second.port);
    drop(first);
    tap.cut();
    tap.seen("initialize", initialized + 1).await;
    let connected = view.wait_for(|view| {
        view.servers[0].state == ServerState::Connected && !view.catalogue.entries().is_empty()
    });
    soon("the second connection", connected).await.unwrap();
    supervised.close().await;
}
