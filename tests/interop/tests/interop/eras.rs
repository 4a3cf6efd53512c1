//! Handshakes: each accepted revision with a server of its time, and the stateless one.

use agentd_interop::peers::{OLD, Peer};
use agentd_interop::tap::{Asked, Tap};
use agentd_interop::{boot, server, worker};
use agentd_mcp::{Era, Hooks, Kind};
use serde_json::json;

use crate::{both_eras, call, everything, open, open_server, stateless};

/// Whether requests after the handshake say what was agreed on.
fn assert_headers(log: &[Asked], revision: &str, session: bool) {
    let later = log
        .iter()
        .skip_while(|asked| asked.what() != "notifications/initialized");
    let mut seen = 0;
    for asked in later {
        assert_eq!(
            asked.header("mcp-protocol-version"),
            Some(revision),
            "{}",
            asked.what()
        );
        assert_eq!(
            asked.header("mcp-session-id").is_some(),
            session,
            "{}",
            asked.what()
        );
        seen += 1;
    }
    assert!(seen >= 4, "{log:#?}");
    for asked in log.iter().filter(|asked| asked.method == "POST") {
        assert_eq!(
            asked.header("accept"),
            Some("application/json, text/event-stream"),
            "{}",
            asked.what()
        );
    }
}

/// M15, field case M21: a release of that time for each older revision, its answers as streams and as JSON.
#[tokio::test(flavor = "multi_thread")]
async fn m15_each_older_revision_is_spoken_with_a_server_of_its_time() {
    for (release, revision) in OLD {
        for options in [&[][..], &["json"], &["stateless"]] {
            // Without sessions the first two fall over at a request that they do not know, as the probe is.
            if options == ["stateless"] && release != "1.12.4" {
                continue;
            }
            // Release 1.8.1 is of no use once a session was ended, so one is all it has.
            let kind = if options.is_empty() { boot() } else { worker() };
            let peer = Peer::old(release, options);
            let tap = Tap::in_front_of(peer.port).await;
            let connection = open(tap.address.port(), kind).await;
            assert_eq!(connection.era(), Era::Legacy, "{release}");
            assert_eq!(connection.info().protocol_version, revision, "{release}");
            assert_eq!(
                connection.instructions(),
                Some("Old peer: say please."),
                "{release}"
            );
            let mut tools: Vec<String> = connection
                .tools()
                .await
                .unwrap()
                .into_iter()
                .map(|tool| tool.name)
                .collect();
            tools.sort();
            assert_eq!(tools, ["add", "boom", "notify"], "{release}");
            let sum = call(&connection, "add", json!({ "a": 19, "b": 23 })).await;
            assert_eq!((sum.text.as_str(), sum.is_error), ("42", false), "{release}");
            let sent = call(&connection, "notify", json!({})).await;
            assert_eq!(
                sent.text, "sent",
                "{release}: what came before the answer did not hide it"
            );
            assert!(call(&connection, "boom", json!({})).await.is_error, "{release}");
            connection.close().await;
            let session = !options.contains(&"stateless");
            let end = tap
                .log()
                .iter()
                .position(|asked| asked.what() == "notifications/initialized")
                .unwrap();
            let first: Vec<Asked> = tap.log().into_iter().skip(end).take(5).collect();
            assert_headers(&first, revision, session);
            if session {
                tap.seen("DELETE", 1).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn field_m21_a_probe_that_the_reference_server_refuses_is_followed_by_initialize() {
    let tap = Tap::in_front_of(everything()).await;
    let connection = open(tap.address.port(), boot()).await;
    assert_eq!(
        (connection.era(), connection.info().protocol_version.as_str()),
        (Era::Legacy, "2025-11-25")
    );
    connection.tools().await.unwrap();
    call(&connection, "echo", json!({ "message": "hi" })).await;
    connection.close().await;
    let what: Vec<String> = tap.log().iter().map(Asked::what).collect();
    assert_eq!(what[..2], ["server/discover", "initialize"], "{what:?}");
    assert_headers(&tap.log(), "2025-11-25", true);
    // What is known is not asked again.
    let known = Tap::in_front_of(everything()).await;
    let kind = Kind::Worker {
        era: Some(Era::Legacy),
    };
    open(known.address.port(), kind).await.close().await;
    assert_eq!(known.count("server/discover"), 0);
}

/// M37, field case M21: both SDKs that speak it, with both kinds of answers.
#[tokio::test(flavor = "multi_thread")]
async fn m37_the_stateless_revision_is_spoken_where_the_server_has_it() {
    let json = Peer::both_eras(&["json"]);
    let modern = Peer::stateless(&["modern-only", "json"]);
    let sse = Peer::stateless(&["sse"]);
    for port in [both_eras(), json.port, stateless(), modern.port, sse.port] {
        let tap = Tap::in_front_of(port).await;
        for kind in [boot(), worker()] {
            let connection = open(tap.address.port(), kind).await;
            assert_eq!(connection.era(), Era::Stateless);
            assert_eq!(connection.info().protocol_version, "2026-07-28");
            assert!(
                connection
                    .instructions()
                    .is_some_and(|text| text.ends_with("say please."))
            );
            let sum = call(&connection, "add", json!({ "a": 19, "b": 23 })).await;
            assert_eq!(sum.text, "42");
            connection.ping().await.unwrap();
            connection.close().await;
        }
        assert_eq!(tap.count("initialize"), 0);
        for asked in tap.log() {
            assert_eq!(
                asked.header("mcp-protocol-version"),
                Some("2026-07-28"),
                "{}",
                asked.what()
            );
            assert_eq!(asked.header("mcp-session-id"), None, "{}", asked.what());
            assert_eq!(asked.header("mcp-method"), Some(asked.what().as_str()));
            let meta = &asked.body["params"]["_meta"];
            assert_eq!(
                meta["io.modelcontextprotocol/protocolVersion"],
                "2026-07-28",
                "{}",
                asked.what()
            );
            assert_eq!(
                meta["io.modelcontextprotocol/clientInfo"]["name"],
                "agentd",
                "{}",
                asked.what()
            );
        }
    }
}

/// M11, M12: who says what of itself, on the wire to the reference server.
#[tokio::test(flavor = "multi_thread")]
async fn m11_a_boot_connection_declares_nothing_and_has_the_instances_name() {
    let tap = Tap::in_front_of(everything()).await;
    open(tap.address.port(), boot()).await.close().await;
    let asked = tap.seen("initialize", 1).await.body["params"].clone();
    assert_eq!(
        (
            &asked["protocolVersion"],
            &asked["capabilities"],
            &asked["clientInfo"]["name"],
            &asked["clientInfo"]["title"]
        ),
        (
            &json!("2025-11-25"),
            &json!({}),
            &json!("agentd"),
            &json!("agent-0")
        )
    );
    assert!(asked["clientInfo"]["version"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_a_workers_connection_takes_questions_and_has_no_title() {
    let tap = Tap::in_front_of(everything()).await;
    open(tap.address.port(), worker()).await.close().await;
    let asked = tap.seen("initialize", 1).await.body["params"].clone();
    assert_eq!(
        (&asked["capabilities"], &asked["clientInfo"]["name"]),
        (&json!({ "elicitation": {} }), &json!("agentd"))
    );
    assert!(asked["clientInfo"].get("title").is_none(), "{asked}");
}

/// M7: a secret in a header is resolved when it is sent, again after its file was rotated, to servers of both eras.
#[tokio::test(flavor = "multi_thread")]
async fn m7_a_secret_in_a_header_is_read_when_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    for port in [everything(), both_eras()] {
        std::fs::write(&file, "first\n").unwrap();
        let tap = Tap::in_front_of(port).await;
        let mut declared = server(tap.address.port());
        let reference = format!("Token {{{{secret-file:{}}}}}", file.display());
        declared.connection.headers.insert("X-Key".into(), reference);
        let connection = open_server(&declared, boot(), Hooks::default()).await;
        assert!(
            tap.log()
                .iter()
                .all(|asked| asked.header("x-key") == Some("Token first")),
            "{:?}",
            tap.log()
        );
        std::fs::write(&file, "second\n").unwrap();
        connection.tools().await.unwrap();
        assert_eq!(
            tap.seen("tools/list", 1).await.header("x-key"),
            Some("Token second")
        );
        assert!(!format!("{declared:?}").contains("second"));
        connection.close().await;
    }
}

/// A worker that was told of the older era still reaches a server that has both.
#[tokio::test(flavor = "multi_thread")]
async fn m15_a_server_of_both_eras_is_spoken_to_in_the_one_that_is_known() {
    for port in [both_eras(), stateless()] {
        let kind = Kind::Worker {
            era: Some(Era::Legacy),
        };
        let connection = open(port, kind).await;
        assert_eq!(
            (connection.era(), connection.info().protocol_version.as_str()),
            (Era::Legacy, "2025-11-25")
        );
        assert_eq!(
            call(&connection, "add", json!({ "a": 1, "b": 2 })).await.text,
            "3"
        );
        connection.close().await;
    }
}
