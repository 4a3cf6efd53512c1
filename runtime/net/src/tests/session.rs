//! The one-connection session.

use std::time::Duration;

use agentd_base::clock::{Clock as _, SystemClock};
use agentd_identity::tls::{ClientAuth, client_config, server_config};
use agentd_identity::{Authority, IdentitySource, SpiffeId, TrustDomain};
use axum::Router;
use axum::extract::Request as AxumRequest;
use axum::routing::any;

use super::client::post;
use super::peer::{Peer, install_provider};
use crate::session::{connect, listens};
use crate::{Declared, Destination, NetError, Timeouts};

fn setup() -> (IdentitySource, SpiffeId) {
    install_provider();
    let domain: TrustDomain = "test.agentd.internal".parse().unwrap();
    let id: SpiffeId = format!("spiffe://{domain}/ns/x/sa/operator").parse().unwrap();
    let now = SystemClock.now();
    let authority = Authority::generate(&domain, now).unwrap();
    let source = IdentitySource::new(domain);
    source.set_bundle(authority.bundle().clone()).unwrap();
    source
        .set_svid(
            authority
                .own_svid(&id, &[], Duration::from_secs(3600), now)
                .unwrap(),
        )
        .unwrap();
    (source, id)
}

fn router() -> Router {
    Router::new().fallback(any(|request: AxumRequest| async move {
        let line = format!(
            "{:?} {} {} ",
            request.version(),
            request.method(),
            request.uri().path()
        );
        let body = axum::body::to_bytes(request.into_body(), 1000).await.unwrap();
        line + std::str::from_utf8(&body).unwrap()
    }))
}

#[tokio::test]
async fn sends_on_one_connection_and_knows_when_the_peer_has_gone() {
    let (source, id) = setup();
    let peer = Peer::start(router(), Some(server_config(&source, ClientAuth::Required))).await;
    let destination = Destination::declared(&peer.url("https", ""), Declared::Internal).unwrap();
    let config = client_config(&source, id);
    let (mut session, closed) = connect(&destination, config, Timeouts::default()).await.unwrap();
    for turn in ["one", "two"] {
        let answer = session.send(post("/v1/report", turn)).await.unwrap();
        assert_eq!(
            std::str::from_utf8(answer.body()).unwrap(),
            format!("HTTP/2.0 POST /v1/report {turn}")
        );
    }
    assert_eq!(peer.connections(), 1);
    assert!(listens(peer.address, Duration::from_secs(1)).await);
    let address = peer.address;
    drop(peer);
    closed.await;
    let error = session.send(post("/v1/report", "three")).await.unwrap_err();
    assert!(matches!(error, NetError::Interrupted { .. }), "{error}");
    assert!(!listens(address, Duration::from_secs(1)).await);
}

#[tokio::test]
async fn refuses_the_wrong_peer_and_gives_up_in_time() {
    let (source, _) = setup();
    let peer = Peer::start(router(), Some(server_config(&source, ClientAuth::Required))).await;
    let destination = Destination::declared(&peer.url("https", ""), Declared::Internal).unwrap();
    let other: SpiffeId = "spiffe://test.agentd.internal/ns/x/sa/other".parse().unwrap();
    let wrong = connect(
        &destination,
        client_config(&source, other.clone()),
        Timeouts::default(),
    )
    .await;
    assert!(wrong.err().unwrap().to_string().contains("and the peer is"));

    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", silent.local_addr().unwrap());
    let destination = Destination::declared(&url, Declared::Internal).unwrap();
    let timeouts = Timeouts {
        connect: Duration::from_millis(50),
        ..Timeouts::default()
    };
    let error = connect(&destination, client_config(&source, other), timeouts)
        .await
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .ends_with("the TLS handshake took longer than 50ms"),
        "{error}"
    );
}
