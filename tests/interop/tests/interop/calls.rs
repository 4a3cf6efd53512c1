//! Lists over pages, calls, and what comes back.

use agentd_config::document::McpServer;
use agentd_interop::peers::Peer;
use agentd_interop::tap::{Asked, Tap, by_hand};
use agentd_interop::{arguments, boot, meta, server, soon, worker};
use agentd_mcp::{CallError, Era, Hooks};
use serde_json::{Value, json};

use crate::{both_eras, call, everything, open, open_server, stateless};

/// fastmcp gives two tools a page.
#[tokio::test(flavor = "multi_thread")]
async fn m19_a_real_servers_pages_are_drained() {
    let tap = Tap::in_front_of(both_eras()).await;
    let connection = open(tap.address.port(), boot()).await;
    let mut names: Vec<String> = connection
        .tools()
        .await
        .unwrap()
        .into_iter()
        .map(|tool| tool.name)
        .collect();
    names.sort();
    assert_eq!(names, ["add", "ask", "big", "boom", "headers", "slow", "touch"]);
    assert_eq!(tap.count("tools/list"), 4);
    let cursors: Vec<Value> = tap
        .log()
        .iter()
        .filter(|asked| asked.what() == "tools/list")
        .map(|asked| asked.body["params"]["cursor"].clone())
        .collect();
    assert!(
        cursors[0].is_null() && cursors[1..].iter().all(Value::is_string),
        "{cursors:?}"
    );
    connection.close().await;
}

/// M20 on the wire to servers of both eras: the same keys, in `params._meta`.
#[tokio::test(flavor = "multi_thread")]
async fn m20_every_call_says_where_it_comes_from_to_servers_of_both_eras() {
    for (port, tool, given) in [
        (everything(), "echo", json!({ "message": "hi" })),
        (both_eras(), "add", json!({ "a": 1, "b": 2 })),
        (stateless(), "add", json!({ "a": 1, "b": 2 })),
    ] {
        let tap = Tap::in_front_of(port).await;
        let connection = open(tap.address.port(), worker()).await;
        let metas = [meta("key-1"), meta("key-2")];
        for each in &metas {
            connection.call(tool, arguments(&given), each).await.unwrap();
        }
        let calls: Vec<Asked> = tap
            .log()
            .into_iter()
            .filter(|asked| asked.what() == "tools/call")
            .collect();
        assert_eq!(calls.len(), metas.len());
        for (asked, each) in calls.iter().zip(&metas) {
            let sent = &asked.body["params"]["_meta"];
            assert_eq!(sent["agent/run_id"], each.run_id.as_str());
            assert_eq!(sent["agent/instance"], each.instance.as_str());
            assert_eq!(sent["agent/idempotency_key"], each.idempotency_key.as_str());
            assert_eq!(sent["traceparent"], each.traceparent.clone().unwrap());
            assert_eq!(
                asked.body["params"]["arguments"], given,
                "nothing is put among the arguments"
            );
        }
        connection.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m21_a_tool_that_fails_is_an_outcome_with_its_words() {
    for (port, tool, words) in [
        (both_eras(), "boom", "boom on request"),
        (stateless(), "fail", "failed on request"),
    ] {
        let connection = open(port, worker()).await;
        let outcome = call(&connection, tool, json!({})).await;
        assert!(outcome.is_error && outcome.text.contains(words), "{outcome:?}");
        // A tool that is not there: each server in its own way, and none of them ends the connection.
        match connection
            .call("no-such-tool", arguments(&json!({})), &meta("k"))
            .await
        {
            Ok(outcome) => assert!(outcome.is_error, "{outcome:?}"),
            Err(error) => assert!(matches!(error, CallError::Protocol { .. }), "{error}"),
        }
        call(&connection, "add", json!({ "a": 1, "b": 2 })).await;
        connection.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m22_structured_content_comes_with_the_tool_that_declared_it() {
    for (port, tool, given, key) in [
        (
            everything(),
            "get-structured-content",
            json!({ "location": "New York" }),
            "temperature",
        ),
        (stateless(), "temperature", json!({}), "celsius"),
    ] {
        let connection = open(port, worker()).await;
        let tools = connection.tools().await.unwrap();
        let declared = tools.iter().find(|each| each.name == tool).unwrap();
        assert!(declared.output_schema.is_some());
        let outcome = call(&connection, tool, given).await;
        assert!(
            outcome
                .structured
                .as_ref()
                .is_some_and(|value| value[key].is_number()),
            "{outcome:?}"
        );
        connection.close().await;
    }
    let old = Peer::old("1.9.4", &[]);
    let connection = open(old.port, worker()).await;
    assert_eq!(
        call(&connection, "add", json!({ "a": 1, "b": 2 }))
            .await
            .structured,
        None
    );
    connection.close().await;
}

/// An argument that the schema names as a header goes there too (`Mcp-Param-*`).
#[tokio::test(flavor = "multi_thread")]
async fn m36_the_stateless_revisions_headers_are_what_its_own_server_demands() {
    let tap = Tap::in_front_of(stateless()).await;
    let connection = open(tap.address.port(), worker()).await;
    connection.tools().await.unwrap();
    for region in ["eu-west", "größer", "=?base64?x?="] {
        let outcome = call(&connection, "region", json!({ "region": region })).await;
        assert_eq!((outcome.text.as_str(), outcome.is_error), (region, false));
    }
    let asked = tap.seen("tools/call", 1).await;
    assert_eq!(asked.header("mcp-name"), Some("region"));
    assert_eq!(asked.header("mcp-param-region"), Some("eu-west"));
    connection.close().await;
}

/// Both kinds of servers announce a new tool: by the GET stream, and by `subscriptions/listen`.
#[tokio::test(flavor = "multi_thread")]
async fn m24_a_new_tool_is_announced() {
    let peer = Peer::stateless(&[]);
    let connection = open(peer.port, boot()).await;
    assert_eq!(connection.era(), Era::Stateless);
    let mut changed = connection.tools_changed();
    // The stream is opened in the background: grown until it is heard.
    let heard = async {
        loop {
            by_hand(peer.port, "GET", "/grow", &[], "").await;
            let pause = std::time::Duration::from_millis(300);
            if tokio::time::timeout(pause, changed.changed()).await.is_ok() {
                return;
            }
        }
    };
    soon("the announcement", heard).await;
    let tools = connection.tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "extra_0"), "{tools:?}");
    connection.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m34_ping_and_a_call_that_takes_too_long() {
    for port in [everything(), both_eras(), stateless()] {
        let connection = open(port, boot()).await;
        connection.ping().await.unwrap();
        connection.close().await;
    }
    let limit = std::time::Duration::from_millis(400);
    for (port, tool, given) in [
        (
            everything(),
            "trigger-long-running-operation",
            json!({ "duration": 30, "steps": 3 }),
        ),
        (both_eras(), "slow", json!({ "seconds": 30 })),
    ] {
        let hasty = McpServer {
            call_timeout: Some(agentd_base::duration::Duration(limit)),
            ..server(port)
        };
        let connection = open_server(&hasty, worker(), Hooks::default()).await;
        let late = connection.call(tool, arguments(&given), &meta("k")).await;
        assert_eq!(late.unwrap_err(), CallError::Timeout(limit));
        connection.ping().await.unwrap();
        connection.close().await;
    }
}
