//! Credentials and trust: what goes out, what is refused, and what comes back of our secrets.

use agentd_base::class::Class;
use agentd_base::report::ServerState;
use agentd_config::document::{Auth, ClientTls, Connection, McpServer, StaticAuth};
use agentd_identity::IdentitySource;
use agentd_mcp::{CallMeta, Hooks, Outbound};
use axum::http::StatusCode;
use serde_json::{Map, json};

use crate::peer::{Peer, boot, open, refused};
use crate::script::Script;

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
