//! The guard where it is dialled: what a server led to, by name and by address, and names whose answers change.

use std::sync::Arc;

use axum::Router;
use axum::routing::any;

use super::client::post;
use super::peer::Peer;
use crate::resolve::tests::Script;
use crate::{Declared, Destination, HttpClient, NetError, Options};

/// What comes of a request to a URL that `leader` led to; a TLS handshake that fails was dialled.
async fn led(leader: &Destination, url: &str, script: &Arc<Script>) -> NetError {
    let led = leader.discovered(url).unwrap();
    let client = HttpClient::with_lookup(led, Options::default(), script.clone()).unwrap();
    client.send(post("/token", "secret")).await.err().unwrap()
}

fn mcp(url: &str) -> Destination {
    Destination::declared(url, Declared::Mcp).unwrap()
}

#[tokio::test]
async fn an_address_that_a_server_names_is_never_more_private_than_the_server() {
    let peer = Peer::start(Router::new().fallback(any(|| async { "" })), None).await;
    let script = Arc::new(Script::new(&[
        ("public.example", &[&["1.1.1.1"]]),
        ("private.example", &[&["10.0.0.1"]]),
        ("local.example", &[&["127.0.0.1"]]),
        ("here.example", &[&["127.0.0.1"]]),
    ]));
    let (literal, name) = (peer.url("https", "/token"), peer.named("here.example", "/token"));
    for leader in [
        "https://public.example/mcp",
        "https://private.example/mcp",
        "https://1.1.1.1/mcp",
    ] {
        for url in [&literal, &name] {
            let error = led(&mcp(leader), url, &script).await;
            assert!(
                matches!(&error, NetError::Refused(why) if why.contains("more private")),
                "{leader} {url}: {error:?}"
            );
        }
    }
    assert_eq!(peer.connections(), 0);
    for url in [&literal, &name] {
        let error = led(&mcp("https://local.example/mcp"), url, &script).await;
        assert!(!matches!(error, NetError::Refused(_)), "{url}: {error:?}");
    }
    assert!(peer.connections() > 0);
}

/// A server that was public once leads nowhere private, whatever its name says later.
#[tokio::test]
async fn a_name_that_becomes_private_leads_nowhere_private() {
    let peer = Peer::start(Router::new().fallback(any(|| async { "" })), None).await;
    let script = Arc::new(Script::new(&[
        ("turns.example", &[&["1.1.1.1"], &["127.0.0.1"]]),
        ("here.example", &[&["127.0.0.1"]]),
    ]));
    let leader = mcp("https://turns.example/mcp");
    for url in [peer.named("here.example", "/token"), peer.url("https", "/token")] {
        for _ in 0..3 {
            let error = led(&leader, &url, &script).await;
            assert!(matches!(error, NetError::Refused(_)), "{url}: {error:?}");
        }
    }
    assert_eq!(peer.connections(), 0);
}

/// Each try of a request that is sent again asks anew, and each answer is vetted.
#[tokio::test]
async fn a_name_whose_answers_change_between_tries_is_vetted_each_time() {
    // Nobody listens there, so that a request that may be sent twice is.
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = unused.local_addr().unwrap().port();
    drop(unused);
    let script = Arc::new(Script::new(&[(
        "turns.example",
        &[&["127.0.0.1"], &["169.254.169.254"]],
    )]));
    let url = format!("https://turns.example:{port}/mcp");
    let client = HttpClient::with_lookup(mcp(&url), Options::default(), script).unwrap();
    let mut request = post("/mcp", "");
    request.extensions_mut().insert(crate::Replay::Safe);
    let error = client.send(request).await.err().unwrap();
    assert!(
        matches!(&error, NetError::Refused(why) if why.contains("never dialled")),
        "{error:?}"
    );
}

/// What a caller gave to be told of its task: where it leads is judged when it is given and at each request.
#[tokio::test]
async fn a_push_target_is_public_each_time() {
    let peer = Peer::start(Router::new().fallback(any(|| async { "" })), None).await;
    let script = Arc::new(Script::new(&[
        ("moves.example", &[&["1.1.1.1"], &["127.0.0.1"]]),
        ("inside.example", &[&["10.0.0.1"]]),
        ("half.example", &[&["1.1.1.1", "10.0.0.1"]]),
        ("metadata.example", &[&["169.254.169.254"]]),
    ]));
    let client = |url: &str, allow_private| {
        let target = Destination::declared(url, Declared::Push { allow_private }).unwrap();
        HttpClient::with_lookup(target, Options::default(), script.clone()).unwrap()
    };
    for host in ["inside.example", "half.example", "metadata.example"] {
        let vetted = client(&peer.named(host, "/"), false).vet().await;
        assert!(matches!(vetted, Err(NetError::Refused(_))), "{host}: {vetted:?}");
    }
    let metadata = client("https://metadata.example/", true).vet().await;
    assert!(matches!(metadata, Err(NetError::Refused(_))), "{metadata:?}");
    client("https://inside.example/", true).vet().await.unwrap();
    let nowhere = client("https://nowhere.example/", false).vet().await;
    assert!(matches!(nowhere, Err(NetError::Resolve { .. })), "{nowhere:?}");
    // It was public when it was given.
    let moves = client(&peer.named("moves.example", "/"), false);
    moves.vet().await.unwrap();
    let error = moves.send(post("/", "secret")).await.err().unwrap();
    assert!(matches!(error, NetError::Refused(_)), "{error:?}");
    assert_eq!(peer.connections(), 0);
}
