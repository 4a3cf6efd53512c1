//! OAuth as a server's `auth.oauth2`, on the wire: where a token is asked for, how often, with what, and that neither it
//! nor the secret is in anything that anybody reads.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod output;
mod server;
mod tokens;

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use agentd_base::class::Class;
use agentd_base::report::ServerState;
use agentd_config::document::{Auth, Connection as DocumentConnection, McpServer, OAuth2Auth};
use agentd_mcp::{CallError, CallMeta, ConnectError, Connection, Hooks, Kind, Outbound};
use serde_json::{Map, json};

use crate::output::Output;
use crate::server::{SECRET, Script, Servers, TOKEN, Tokens, basic};

/// The client's secret, in a file as a pod has it.
fn secret_file(secret: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(secret.as_bytes()).unwrap();
    file
}

fn document(servers: &Servers, secret: &Path, change: impl FnOnce(&mut OAuth2Auth)) -> McpServer {
    let mut auth = OAuth2Auth {
        client_id: "svc".into(),
        client_secret: Some(format!("{{{{secret-file:{}}}}}", secret.display())),
        ..OAuth2Auth::default()
    };
    change(&mut auth);
    McpServer {
        name: "s".into(),
        endpoint: format!("http://127.0.0.1:{}/mcp", servers.mcp),
        connection: DocumentConnection {
            auth: Some(Auth::OAuth2(auth)),
            timeout: Some(agentd_base::duration::Duration(Duration::from_secs(60))),
            ..DocumentConnection::default()
        },
        ..McpServer::default()
    }
}

async fn open(server: &McpServer) -> Result<Connection, ConnectError> {
    let kind = Kind::Worker { era: None };
    Connection::open(server, None, kind, &Outbound::default(), Hooks::default()).await
}

async fn echo(connection: &Connection, key: &str) -> Result<String, CallError> {
    let meta = CallMeta {
        run_id: "run".into(),
        instance: "agent-0".into(),
        traceparent: None,
        idempotency_key: key.into(),
        ordinal: 0,
    };
    connection
        .call("echo", Map::new(), &meta)
        .await
        .map(|outcome| outcome.text)
}

/// Why it cannot be connected to; the words hold neither secret nor token.
async fn refused(server: &McpServer) -> ConnectError {
    let output = Output::start();
    let error = open(server).await.err().unwrap();
    output.is_clean(&format!("{error:?} {error}"));
    error
}

#[tokio::test]
async fn m36_a_401_leads_to_a_token_that_goes_with_every_request_and_nowhere_else() {
    let output = Output::start();
    let servers = Servers::start(Script::default()).await;
    let secret = secret_file(SECRET);
    let connection = open(&document(&servers, secret.path(), |_| {})).await.unwrap();
    let tools = connection.tools().await.unwrap();
    // What the server repeats of the token comes without it.
    assert_eq!(echo(&connection, "1").await.unwrap(), "you are [redacted]");
    connection.close().await;

    let asked = servers.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let form = json!({
        "grant_type": "client_credentials",
        "scope": "mcp:read",
        "resource": format!("http://127.0.0.1:{}/mcp", servers.mcp),
    });
    assert_eq!(json!(asked[0].form), form);
    assert_eq!(asked[0].authorization, Some(basic("svc", SECRET)));
    assert!(
        !asked[0].headers.iter().any(|name| name.starts_with("mcp-")),
        "{asked:?}"
    );
    let requests = servers.requests();
    let (bare, signed): (Vec<_>, Vec<_>) = requests.iter().partition(|(_, token)| token.is_none());
    // The one request that found out, and the SDK's look for the challenge.
    assert!(bare.len() <= 2, "{bare:?}");
    assert!(
        signed
            .iter()
            .all(|(_, token)| *token == Some(format!("Bearer {TOKEN}1"))),
        "{signed:?}"
    );
    assert!(signed.iter().any(|(method, _)| method == "tools/call"));
    output.is_clean(&format!("{tools:?} {:?}", connection.info()));
}

#[tokio::test]
async fn m36_a_declared_token_endpoint_is_asked_first_and_as_the_document_says() {
    let servers = Servers::start(Script::default()).await;
    let secret = secret_file(SECRET);
    let endpoint = format!("{}/token", servers.issuer());
    let server = document(&servers, secret.path(), |auth| {
        auth.token_endpoint = Some(endpoint);
        auth.scopes = vec!["b".into(), "a".into()];
        auth.resource = Some("https://mcp.example/".into());
    });
    open(&server).await.unwrap().close().await;
    let form =
        json!({"grant_type": "client_credentials", "scope": "a b", "resource": "https://mcp.example/"});
    assert_eq!(json!(servers.asked()[0].form), form);
    assert!(
        servers.requests().iter().all(|(_, token)| token.is_some()),
        "{:?}",
        servers.requests()
    );
}

#[tokio::test]
async fn m36_the_client_shows_itself_as_the_metadata_says() {
    let servers = Servers::start(Script {
        methods: Some(json!(["client_secret_post"])),
        ..Script::default()
    })
    .await;
    let secret = secret_file(SECRET);
    open(&document(&servers, secret.path(), |_| {}))
        .await
        .unwrap()
        .close()
        .await;
    let asked = servers.asked();
    assert_eq!(asked[0].authorization, None);
    assert_eq!(asked[0].form["client_secret"], SECRET);
    servers.script().methods = Some(json!(["private_key_jwt"]));
    let error = refused(&document(&servers, secret.path(), |_| {})).await;
    assert!(
        error
            .message
            .contains("takes no client secret, but private_key_jwt"),
        "{}",
        error.message
    );
    assert_eq!(servers.asked().len(), 1);
}

#[tokio::test]
async fn m36_the_clients_id_may_be_a_reference_too() {
    let servers = Servers::start(Script::default()).await;
    let (secret, id) = (secret_file(SECRET), secret_file("svc\n"));
    let reference = format!("{{{{secret-file:{}}}}}", id.path().display());
    let server = document(&servers, secret.path(), |auth| auth.client_id = reference);
    open(&server).await.unwrap().close().await;
    assert_eq!(servers.asked()[0].authorization, Some(basic("svc", SECRET)));
    let server = document(&servers, secret.path(), |auth| {
        auth.client_id = "{{secret-file:/absent/id}}".into()
    });
    let error = refused(&server).await;
    assert!(error.message.contains("/absent/id"), "{}", error.message);
}

#[tokio::test]
async fn m36_a_rotated_secret_is_taken_up_without_a_restart() {
    let servers = Servers::start(Script::default()).await;
    let mut secret = secret_file(SECRET);
    let connection = open(&document(&servers, secret.path(), |_| {})).await.unwrap();
    servers.script().secret = "another-secret-1234".into();
    servers.revoke();
    let error = echo(&connection, "1").await.unwrap_err();
    assert!(
        matches!(&error, CallError::Denied(why) if why.contains("refuses the client svc")),
        "{error}"
    );
    secret.as_file_mut().set_len(0).unwrap();
    std::fs::write(secret.path(), "another-secret-1234").unwrap();
    echo(&connection, "2").await.unwrap();
    connection.close().await;
}

#[tokio::test]
async fn m36_missing_rights_are_asked_for_beside_those_that_are_there_and_only_once() {
    let servers = Servers::start(Script {
        needs: Some("mcp:write"),
        ..Script::default()
    })
    .await;
    let secret = secret_file(SECRET);
    let connection = open(&document(&servers, secret.path(), |_| {})).await.unwrap();
    for key in ["1", "2"] {
        echo(&connection, key).await.unwrap();
    }
    let scopes: Vec<_> = servers
        .asked()
        .iter()
        .map(|asked| asked.form["scope"].clone())
        .collect();
    assert_eq!(scopes, ["mcp:read", "mcp:read mcp:write"]);
    connection.close().await;

    servers.script().withheld = true;
    let connection = open(&document(&servers, secret.path(), |_| {})).await.unwrap();
    let before = servers.asked().len();
    for key in ["3", "4", "5"] {
        let error = echo(&connection, key).await.unwrap_err();
        assert!(matches!(error, CallError::Denied(_)), "{error}");
    }
    assert_eq!(servers.asked().len(), before + 1);
    connection.close().await;
}

#[tokio::test]
async fn m36_a_server_that_names_a_crowd_makes_us_ask_a_few_of_them() {
    let secret = secret_file(SECRET);
    let servers = Servers::start(Script {
        crowd: 2000,
        ..Script::default()
    })
    .await;
    refused(&document(&servers, secret.path(), |_| {})).await;
    assert!(servers.in_vain() < 40, "{}", servers.in_vain());
}

#[tokio::test]
async fn m36_an_authorization_server_that_refuses_or_fails_is_named_and_the_secret_is_not() {
    let servers = Servers::start(Script::default()).await;
    let secret = secret_file(SECRET);
    let token_url = format!("127.0.0.1:{}/as/token", servers.authorization);
    for (tokens, state, class, part) in [
        (
            Tokens::Refused,
            ServerState::Unauthorized,
            Class::Denied,
            "invalid_client",
        ),
        (Tokens::Busy, ServerState::Failed, Class::Unavailable, "HTTP 503"),
        (
            Tokens::Page,
            ServerState::Failed,
            Class::Unavailable,
            "neither a token nor a refusal",
        ),
        (
            Tokens::Elsewhere,
            ServerState::Failed,
            Class::Invalid,
            "redirects (302)",
        ),
    ] {
        servers.script().tokens = tokens;
        let error = refused(&document(&servers, secret.path(), |_| {})).await;
        assert_eq!(
            (error.state, error.class),
            (state, class),
            "{tokens:?}: {}",
            error.message
        );
        assert!(error.message.contains(part), "{tokens:?}: {}", error.message);
        assert!(
            error.message.contains(&token_url),
            "{tokens:?}: {}",
            error.message
        );
    }
    servers.script().tokens = Tokens::Given;

    // Away.
    let server = document(&servers, secret.path(), |auth| {
        auth.token_endpoint = Some("http://127.0.0.1:1/token".into());
    });
    let error = refused(&server).await;
    assert_eq!(
        (error.state, error.class),
        (ServerState::Failed, Class::Unavailable)
    );
    assert!(
        error
            .message
            .contains("no token from http://127.0.0.1:1/token: cannot connect"),
        "{}",
        error.message
    );

    // No secret there.
    let server = document(&servers, Path::new("/absent/secret"), |_| {});
    let error = refused(&server).await;
    assert!(error.message.contains("/absent/secret"), "{}", error.message);
}

#[tokio::test]
async fn m36_a_credential_goes_only_where_the_document_or_the_first_challenge_says() {
    let servers = Servers::start(Script::default()).await;
    let secret = secret_file(SECRET);
    let issuer = servers.issuer();
    // The declared issuer.
    let server = document(&servers, secret.path(), |auth| auth.issuer = Some(issuer));
    open(&server).await.unwrap().close().await;
    let before = servers.asked().len();
    let server = document(&servers, secret.path(), |auth| {
        auth.issuer = Some("https://as.example".into())
    });
    let error = refused(&server).await;
    assert_eq!(error.state, ServerState::Unauthorized);
    assert!(
        error
            .message
            .contains("not https://as.example; our credential is not sent there"),
        "{}",
        error.message
    );

    // Metadata that speaks for somebody else.
    servers.script().issuer = Some("https://as.example".into());
    let error = refused(&document(&servers, secret.path(), |_| {})).await;
    assert!(error.message.contains("issuer mismatch"), "{}", error.message);
    servers.script().issuer = None;

    // A token endpoint that is not public, or not where the guard lets a discovered URL be.
    for endpoint in [
        "https://169.254.169.254",
        "http://as.example",
        "https://[fe80::1]",
    ] {
        servers.script().endpoint = Some(endpoint.into());
        let error = refused(&document(&servers, secret.path(), |_| {})).await;
        assert!(
            error.message.contains("is not asked for a token"),
            "{}",
            error.message
        );
    }
    servers.script().endpoint = None;

    // A server that wants a token and does not say from whom.
    servers.script().names_issuer = false;
    let error = refused(&document(&servers, secret.path(), |_| {})).await;
    assert!(
        error.message.contains("set auth.oauth2.token_endpoint"),
        "{}",
        error.message
    );
    assert_eq!(servers.asked().len(), before);
}

#[tokio::test]
async fn m36_another_authorization_server_later_does_not_get_the_credential() {
    let servers = Servers::start(Script::default()).await;
    let other = Servers::start(Script::default()).await;
    let secret = secret_file(SECRET);
    let connection = open(&document(&servers, secret.path(), |_| {})).await.unwrap();
    servers.revoke();
    servers.moves_to(&other);
    let error = echo(&connection, "1").await.unwrap_err();
    assert!(
        matches!(&error, CallError::Denied(why) if why.contains(&other.issuer())),
        "{error}"
    );
    assert_eq!(other.asked(), []);
    connection.close().await;
}
