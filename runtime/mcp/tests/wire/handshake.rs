//! The handshake: what is declared, which revision is spoken, what counts as a failure.

use std::time::Duration;

use agentd_base::class::Class;
use agentd_base::report::{ServerInfo, ServerState};
use agentd_config::document::{Auth, ClientTls, Connection, McpServer, StaticAuth};
use agentd_identity::IdentitySource;
use agentd_mcp::{CallMeta, Era, Hooks, Kind, Outbound};
use axum::http::StatusCode;
use serde_json::{Map, json};

use crate::peer::{Peer, boot, open, refused};
use crate::script::{Discover, Get, Script};

const SHORT: Duration = Duration::from_millis(400);

#[tokio::test]
async fn m11_a_boot_connection_declares_nothing_and_is_titled() {
    let script = Script {
        instructions: Some(" Be kind.\u{7} ".into()),
        ..Script::default()
    };
    let peer = Peer::start(script).await;
    let connection = peer.boot().await;
    assert_eq!(connection.era(), Era::Legacy);
    assert_eq!(connection.instructions(), Some("Be kind."));
    assert_eq!(
        *connection.info(),
        ServerInfo {
            name: "scripted".into(),
            version: "9".into(),
            protocol_version: "2025-11-25".into(),
            capabilities: vec!["tools".into(), "tools.listChanged".into()],
        }
    );
    connection.tools().await.unwrap();
    peer.seen("GET").await;
    connection.close().await;

    let methods = peer.methods();
    let expected = [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "GET",
        "tools/list",
        "DELETE",
    ];
    // The GET runs beside the list.
    assert_eq!(methods.len(), expected.len(), "{methods:?}");
    assert!(
        expected
            .iter()
            .all(|method| methods.iter().any(|seen| seen == method)),
        "{methods:?}"
    );
    let initialize = peer.seen("initialize").await;
    let client = json!({"name": "agentd", "version": env!("CARGO_PKG_VERSION"), "title": "agent-0"});
    assert_eq!(
        initialize.body["params"],
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
    );
    assert_eq!(
        initialize.header("accept"),
        Some("application/json, text/event-stream")
    );
    assert_eq!(initialize.header("content-type"), Some("application/json"));
    assert_eq!(initialize.header("mcp-session-id"), None);
    for later in ["notifications/initialized", "GET", "tools/list", "DELETE"] {
        let seen = peer.seen(later).await;
        assert_eq!(seen.header("mcp-session-id"), Some("session-1"), "{later}");
        assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"), "{later}");
    }
    assert_eq!(peer.seen("GET").await.header("accept"), Some("text/event-stream"));
    let discover = peer.seen("server/discover").await;
    let meta = &discover.body["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
}

#[tokio::test]
async fn m12_a_worker_offers_elicitation_has_no_title_and_does_not_probe_what_is_known() {
    let peer = Peer::start(Script::default()).await;
    let connection = open(
        &peer.server("s"),
        Kind::Worker {
            era: Some(Era::Legacy),
        },
    )
    .await;
    connection.close().await;
    assert_eq!(peer.count("server/discover"), 0);
    let client = json!({"name": "agentd", "version": env!("CARGO_PKG_VERSION")});
    assert_eq!(
        peer.seen("initialize").await.body["params"],
        json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": client})
    );
}

#[tokio::test]
async fn field_m21_the_stateless_revision_is_spoken_where_it_is_offered() {
    for kind in [
        boot(),
        Kind::Worker { era: None },
        Kind::Worker {
            era: Some(Era::Stateless),
        },
    ] {
        let peer = Peer::start(Script {
            discover: Discover::Modern,
            ..Script::default()
        })
        .await;
        let connection = open(&peer.server("s"), kind).await;
        assert_eq!(connection.era(), Era::Stateless);
        assert_eq!(connection.info().protocol_version, "2026-07-28");
        assert_eq!(connection.tools().await.unwrap().len(), 1);
        connection.close().await;
        assert_eq!(peer.methods(), ["server/discover", "tools/list"]);
        let list = peer.seen("tools/list").await;
        assert_eq!(list.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(list.header("mcp-method"), Some("tools/list"));
        assert_eq!(
            list.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
    }
}

#[tokio::test]
async fn field_m21_whatever_an_older_server_makes_of_the_probe_initialize_follows() {
    for discover in [
        Discover::Page,
        Discover::Silent,
        Discover::SilentStream,
        Discover::Empty,
    ] {
        let peer = Peer::start(Script {
            discover,
            ..Script::default()
        })
        .await;
        let connection = open(&peer.hasty(SHORT), boot()).await;
        assert_eq!(connection.era(), Era::Legacy, "{discover:?}");
        connection.close().await;
    }
}

#[tokio::test]
async fn m15_older_revisions_are_accepted_and_unknown_ones_are_not() {
    for version in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        let peer = Peer::start(Script {
            version,
            ..Script::default()
        })
        .await;
        let connection = peer.boot().await;
        assert_eq!(connection.info().protocol_version, version);
        connection.tools().await.unwrap();
        assert_eq!(
            peer.seen("tools/list").await.header("mcp-protocol-version"),
            Some(version)
        );
        connection.close().await;
    }
    let peer = Peer::start(Script {
        version: "1999-01-01",
        ..Script::default()
    })
    .await;
    let error = refused(&peer.server("s")).await;
    assert_eq!(
        error.message,
        "the server speaks MCP revision 1999-01-01, which is not spoken here"
    );
    assert_eq!((error.state, error.class), (ServerState::Failed, Class::Invalid));
}

/// M04: the optional stream of a compliant server may stay open for ever, may never even begin, and may not exist.
#[tokio::test]
async fn m04_discovery_does_not_wait_for_the_optional_stream() {
    for get in [Get::Held, Get::Silent, Get::NotAllowed, Get::Broken] {
        let peer = Peer::start(Script {
            get,
            ..Script::default()
        })
        .await;
        let connection = peer.boot().await;
        assert_eq!(connection.tools().await.unwrap().len(), 1, "{get:?}");
        peer.seen("GET").await;
        connection.close().await;
    }
}

#[tokio::test]
async fn m15_a_handshake_that_does_not_end_is_a_failure() {
    let peer = Peer::start(Script {
        silent_initialize: true,
        ..Script::default()
    })
    .await;
    let error = refused(&peer.hasty(SHORT)).await;
    assert_eq!(error.message, "the handshake took longer than 400ms");
    assert_eq!(
        (error.state, error.class),
        (ServerState::Failed, Class::Unavailable)
    );
}

#[tokio::test]
async fn refused_credentials_are_told_apart_from_a_server_that_fails() {
    let json = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"who are you"}}"#;
    let hint = "check the credential in its headers or auth";
    for (status, challenge, page, state, message) in [
        (
            401,
            Some("Bearer realm=\"x\""),
            "",
            ServerState::Unauthorized,
            format!("the server answered HTTP 401; {hint}"),
        ),
        (
            401,
            None,
            json,
            ServerState::Unauthorized,
            format!("the server answered HTTP 401; {hint}"),
        ),
        (
            403,
            Some("Bearer scope=\"a\""),
            "",
            ServerState::Unauthorized,
            format!("the server answered HTTP 403; {hint}"),
        ),
        (
            403,
            None,
            json,
            ServerState::Unauthorized,
            format!("the server answered HTTP 403; {hint}"),
        ),
        (
            503,
            None,
            "",
            ServerState::Failed,
            "the server answered HTTP 503".into(),
        ),
        (
            429,
            None,
            "",
            ServerState::Failed,
            "the server answered HTTP 429".into(),
        ),
        (
            500,
            None,
            json,
            ServerState::Failed,
            "the server refused the handshake: error -32001: who are you".into(),
        ),
        (
            404,
            None,
            "",
            ServerState::Failed,
            "the server answered HTTP 404".into(),
        ),
        (
            200,
            None,
            "{}",
            ServerState::Failed,
            "the server's answer is not MCP: unrecognized JSON-RPC message".into(),
        ),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        let peer = Peer::start(Script {
            status: Some((status, challenge, page)),
            ..Script::default()
        })
        .await;
        let error = refused(&peer.server("s")).await;
        assert!(error.message.starts_with(&message), "{status}: {}", error.message);
        assert_eq!(error.state, state, "{status}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_with_the_cause() {
    let peer = Peer::start(Script::default()).await;
    let server = peer.server("s");
    let address = peer.address;
    drop(peer);
    // The port is free once the peer's runtime is gone.
    drop(Peer::on(address, Script::default()).await);
    let error = loop {
        match agentd_mcp::Connection::open(&server, None, boot(), &Outbound::default(), Hooks::default())
            .await
        {
            Ok(connection) => connection.close().await,
            Err(error) if error.message.contains("refused") => break error,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(
        error.message,
        format!("cannot connect to {address}: connection refused; is it running, and is the port right?")
    );
    assert_eq!(
        (error.state, error.class),
        (ServerState::Failed, Class::Unavailable)
    );
}

#[tokio::test]
async fn headers_and_credentials_go_with_every_request_and_a_missing_secret_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    let peer = Peer::start(Script::default()).await;
    let mut server: McpServer = peer.server("s");
    server.connection.headers.insert("X-Team".into(), "blue".into());
    let bearer = format!("{{{{secret-file:{}}}}}", token.display());
    server.connection.auth = Some(Auth::Static(StaticAuth { bearer }));
    let error = refused(&server).await;
    assert_eq!(error.class, Class::Denied);
    assert_eq!(error.state, ServerState::Failed);
    assert!(
        error.message.contains("token does not exist"),
        "{}",
        error.message
    );
    assert!(peer.log().is_empty());

    std::fs::write(&token, "first\n").unwrap();
    let connection = open(&server, boot()).await;
    peer.seen("GET").await;
    std::fs::write(&token, "second\n").unwrap();
    connection.tools().await.unwrap();
    connection.close().await;
    for seen in peer.log() {
        assert_eq!(seen.header("x-team"), Some("blue"), "{}", seen.what());
        let rotated = matches!(seen.what().as_str(), "tools/list" | "DELETE");
        let expected = if rotated { "Bearer second" } else { "Bearer first" };
        assert_eq!(seen.header("authorization"), Some(expected), "{}", seen.what());
    }
}

#[tokio::test]
async fn what_the_document_says_of_trust_is_what_is_done() {
    // As `main` does it.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let tls = |change: &dyn Fn(&mut ClientTls)| {
        let mut tls = ClientTls::default();
        change(&mut tls);
        let connection = Connection {
            tls: Some(tls),
            ..Connection::default()
        };
        McpServer {
            endpoint: "https://127.0.0.1:9/mcp".into(),
            connection,
            ..McpServer::default()
        }
    };
    let absent = || Some("/absent/file.pem".into());
    for (server, part) in [
        (
            tls(&|tls| tls.ca_file = absent()),
            "certificate file /absent/file.pem: No such file",
        ),
        (
            tls(&|tls| (tls.client_cert_file, tls.client_key_file) = (absent(), absent())),
            "certificate file /absent/file.pem: No such file",
        ),
        (
            tls(&|tls| tls.server_name = Some("10.0.0.1".into())),
            "tls.server_name 10.0.0.1 is not a DNS name",
        ),
        (
            tls(&|tls| tls.spiffe_id = Some("spiffe://t/x".into())),
            "tls.spiffe_id needs `identity`",
        ),
        (
            tls(&|tls| tls.spiffe_id = Some("https://t/x".into())),
            "tls.spiffe_id: ",
        ),
    ] {
        let message = refused(&server).await.message;
        assert!(message.contains(part), "{message}");
    }
    let source = IdentitySource::new("test.agentd.internal".parse().unwrap());
    let outbound = Outbound {
        identity: Some(source),
        ..Outbound::default()
    };
    let server = tls(&|tls| tls.spiffe_id = Some("spiffe://test.agentd.internal/ns/x/sa/y".into()));
    let error = agentd_mcp::Connection::open(&server, None, boot(), &outbound, Hooks::default())
        .await
        .err()
        .unwrap();
    assert_eq!(error.message, "this process has no SVID yet");
    let outbound = Outbound {
        tls_ca: absent(),
        ..Outbound::default()
    };
    let error = agentd_mcp::Connection::open(&tls(&|_| {}), None, boot(), &outbound, Hooks::default())
        .await
        .err()
        .unwrap();
    assert!(error.message.contains("/absent/file.pem"), "{}", error.message);
}

/// A server that repeats our credential, in errors and in what it says of itself: it ends in no message, no status and
/// no prompt.
#[tokio::test]
async fn what_a_server_repeats_of_our_secrets_is_blanked() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "canary-token\n").unwrap();
    let said = json!({"type": "text", "text": "you sent Bearer canary-token"});
    let peer = Peer::start(Script {
        instructions: Some("canary-token".into()),
        call: json!({"result": {"content": [said]}}),
        before_answer: vec![json!({"jsonrpc": "2.0", "id": 7, "method": "ping"})],
        ..Script::default()
    })
    .await;
    let mut server: McpServer = peer.server("s");
    let bearer = format!("{{{{secret-file:{}}}}}", token.display());
    server.connection.auth = Some(Auth::Static(StaticAuth { bearer }));
    let connection = open(&server, boot()).await;
    assert_eq!(connection.instructions(), Some("[redacted]"));
    let call = async || connection.call("echo", Map::new(), &CallMeta::default()).await;
    // On a stream, as a body, as an error, as a page that is no MCP.
    assert_eq!(call().await.unwrap().text, "you sent Bearer [redacted]");
    peer.script().before_answer = Vec::new();
    assert_eq!(call().await.unwrap().text, "you sent Bearer [redacted]");
    peer.script().call = json!({"error": {"code": -32000, "message": "bad token canary-token"}});
    let error = call().await.unwrap_err().to_string();
    assert!(error.contains("bad token [redacted]"), "{error}");
    peer.script().status = Some((StatusCode::BAD_REQUEST, None, "\"canary-token\""));
    let error = call().await.unwrap_err().to_string();
    assert!(!error.contains("canary"), "{error}");
    connection.close().await;
}
