//! `auth.oauth2` against fastmcp, which checks each token, and oidc-provider, which gives them.

use std::io::Write as _;

use agentd_config::document::{Auth, McpServer, OAuth2Auth};
use agentd_interop::peers::Peer;
use agentd_interop::{boot, worker};
use agentd_mcp::{Connection, Hooks, Outbound};
use serde_json::json;

use super::{call, open_server};

/// How the document declares it, with the secret in a file.
fn declared(peer: &Peer, client: &str, file: &tempfile::NamedTempFile) -> McpServer {
    let mut server = peer.server();
    server.connection.auth = Some(Auth::OAuth2(OAuth2Auth {
        client_id: client.into(),
        client_secret: Some(format!("{{{{secret-file:{}}}}}", file.path().display())),
        ..OAuth2Auth::default()
    }));
    server
}

fn secret(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// From id and secret alone: the challenge, the protected resource metadata, the authorization server's metadata, a token
/// for this resource, and the call.
#[tokio::test]
async fn m36_a_client_with_id_and_secret_alone_is_let_in_by_servers_that_check() {
    let issuer = Peer::authorization();
    let peer = Peer::guarded(&issuer.issuer());
    let file = secret("svc-secret");
    for kind in [boot(), worker()] {
        let connection = open_server(&declared(&peer, "svc", &file), kind, Hooks::default()).await;
        let who = call(&connection, "who", json!({})).await;
        assert_eq!(
            who.structured,
            Some(json!({"client": "svc", "scopes": ["mcp:read"]}))
        );
        // The token itself is not for the model, even where a server tells it.
        let repeated = call(&connection, "repeat", json!({})).await;
        assert!(repeated.text.contains("[redacted]"), "{}", repeated.text);
        assert!(!repeated.text.contains("eyJ"), "{}", repeated.text);
        connection.close().await;
    }
}

#[tokio::test]
async fn m36_a_wrong_secret_is_refused_in_words_without_it() {
    let issuer = Peer::authorization();
    let peer = Peer::guarded(&issuer.issuer());
    let file = secret("canary-wrong-secret");
    let server = declared(&peer, "svc", &file);
    let refused = Connection::open(&server, None, boot(), &Outbound::default(), Hooks::default()).await;
    let message = refused.err().unwrap().message;
    let expected = format!("{}/token refuses the client svc: invalid_client", issuer.issuer());
    assert!(message.starts_with(&expected), "{message}");
    assert!(!message.contains("canary"), "{message}");
}
