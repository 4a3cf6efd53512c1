//! Servers that do not get through their own handshake.

use agentd_base::class::{Class, Classified as _};
use agentd_base::report::ServerState;
use agentd_interop::sane::sane;
use agentd_interop::tap::{Act, Tap};
use agentd_interop::{boot, hasty, server};
use serde_json::json;

use crate::{CLOCK, bounded, but, echo, open, refused};

#[tokio::test(flavor = "multi_thread")]
async fn m15_a_server_that_answers_with_anything_else_is_a_connect_failure() {
    for (name, act) in [
        (
            "HTML",
            (|_| Act::text(200, "text/html", "<html></html>")) as fn(&_) -> Act,
        ),
        ("broken JSON", |_| Act::text(200, "application/json", "{")),
        ("invalid UTF-8", |_| {
            Act::text(200, "application/json", b"\xff\xfe".to_vec())
        }),
        ("a black hole", |_| Act::hole()),
        ("a byte a second", |_| {
            Act::dripped(b"HTTP/1.1 200 OK\r\n".to_vec(), std::time::Duration::from_secs(1))
        }),
        ("500", |_| Act::status(500)),
        ("503", |_| Act::status(503).with("retry-after", "1")),
        ("closed", |_| Act::cut()),
        ("events without end", |_| {
            Act::repeated(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_vec(),
                b": x\n\n".to_vec(),
                None,
            )
        }),
        ("a redirect in a circle", |_| {
            Act::status(307).with("location", "/mcp")
        }),
        ("a redirect to another origin", |_| {
            Act::status(307).with("location", "http://127.0.0.1:9/mcp")
        }),
        ("a redirect to the metadata service", |_| {
            Act::status(307).with("location", "http://169.254.169.254/latest")
        }),
    ] {
        for rule in ["every request", "initialize"] {
            let error = refused(name, move |asked| match rule {
                "initialize" => but("initialize", act)(asked),
                _ => act(asked),
            })
            .await;
            assert_eq!(error.state, ServerState::Failed, "{name}: {error}");
            assert!(
                !error.message.is_empty() && error.message.len() < 2048,
                "{name}: {error}"
            );
            assert!(!error.message.chars().any(char::is_control), "{name}: {error:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m15_a_revision_that_nobody_knows_is_refused_by_its_name() {
    for version in ["1999-01-01", "2099-01-01", "", "\u{1b}[31m"] {
        let error = refused(version, but("initialize", move |asked| {
            let result = json!({ "protocolVersion": version, "capabilities": {}, "serverInfo": { "name": "s", "version": "1" } });
            Act::json(&asked.result(&result))
        }))
        .await;
        assert_eq!(error.class(), Class::Invalid, "{error}");
        assert!(!error.message.contains('\u{1b}'), "{error:?}");
    }
}

/// A server of the stateless revision alone, and none of its revisions is ours.
#[tokio::test(flavor = "multi_thread")]
async fn m15_no_revision_in_common_is_a_clear_refusal() {
    let error = refused("-32022", |asked| {
        let error = json!({ "code": -32022, "message": "Unsupported protocol version", "data": { "supported": ["2031-01-01"], "requested": "2026-07-28" } });
        let answer = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "error": error });
        Act::text(400, "application/json", answer.to_string())
    })
    .await;
    assert_eq!(error.state, ServerState::Failed, "{error}");
}

/// The optional GET stream, in every way not to have it: the handshake does not wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn m30_a_get_that_is_refused_held_open_or_broken_holds_nothing_up() {
    for (name, act) in [
        ("405", (|_| Act::status(405)) as fn(&_) -> Act),
        ("404", |_| Act::status(404)),
        ("400", |_| Act::status(400)),
        ("500", |_| Act::status(500)),
        ("HTML", |_| Act::text(200, "text/html", "<html></html>")),
        ("held open without a head", |_| Act::hole()),
        ("held open", |_| Act::held(&[])),
        ("held open, a byte a second", |_| {
            Act::dripped(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: x\n\n".repeat(100),
                std::time::Duration::from_secs(1),
            )
        }),
        ("closed", |_| Act::cut()),
    ] {
        let tap = Tap::server(but("GET", act)).await;
        let connection = bounded(name, open(&server(tap.address.port()), boot()))
            .await
            .unwrap();
        assert_eq!(connection.tools().await.unwrap().len(), 1, "{name}");
        let before = tap.count("GET");
        for _ in 0..3 {
            assert_eq!(echo(&connection, "x").await.unwrap().text, "echo: x", "{name}");
        }
        // Not opened again without a pause.
        assert!(tap.count("GET") <= before + 3, "{name}: {}", tap.count("GET"));
        bounded(name, connection.close()).await;
    }
}

/// A server that does not end its session when it is told to.
#[tokio::test(flavor = "multi_thread")]
async fn m35_closing_does_not_wait_for_a_server_that_does_not_answer() {
    for act in [
        (|_| Act::hole()) as fn(&_) -> Act,
        |_| Act::status(500),
        |_| Act::status(405),
        |_| Act::cut(),
    ] {
        let tap = Tap::server(but("DELETE", act)).await;
        let connection = open(&hasty(tap.address.port(), CLOCK * 10), boot())
            .await
            .unwrap();
        bounded("closing", connection.close()).await;
        drop(connection);
        tap.rule(sane);
        tap.connections(0).await;
    }
}
