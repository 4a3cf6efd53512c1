//! What is sent again, and what never is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request as AxumRequest;
use axum::response::{IntoResponse as _, Response as AxumResponse};
use axum::routing::any;
use bytes::Bytes;
use http::{Request, StatusCode};

use super::client::{client, post};
use super::peer::{Ca, Peer, install_provider};
use crate::resolve::tests::Script;
use crate::tls::WebRoots;
use crate::{Declared, Destination, HttpClient, NetError, Options, Replay, Timeouts, TlsMode};

/// A peer that answers with these, status and `Retry-After`, and with 200 afterwards; it keeps the bodies that came.
async fn peer(answers: &[(u16, Option<&'static str>)]) -> (Peer, Arc<Mutex<Vec<String>>>) {
    let answers = Arc::new(Mutex::new(answers.iter().copied().collect::<VecDeque<_>>()));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let router = Router::new().fallback(any(move |request: AxumRequest| {
        let (answers, log) = (answers.clone(), log.clone());
        async move {
            let body = axum::body::to_bytes(request.into_body(), 1024).await.unwrap();
            log.lock()
                .unwrap()
                .push(String::from_utf8(body.to_vec()).unwrap());
            answer(answers.lock().unwrap().pop_front())
        }
    }));
    (Peer::start(router, None).await, seen)
}

fn answer(scripted: Option<(u16, Option<&'static str>)>) -> AxumResponse {
    let (status, retry_after) = scripted.unwrap_or((200, None));
    let mut response = StatusCode::from_u16(status).unwrap().into_response();
    if let Some(text) = retry_after {
        response
            .headers_mut()
            .insert("retry-after", text.parse().unwrap());
    }
    response
}

fn safe(body: &'static str) -> Request<Bytes> {
    let mut request = post("/", body);
    request.extensions_mut().insert(Replay::Safe);
    request
}

#[tokio::test]
async fn a_busy_server_is_asked_again_when_it_says_and_with_the_body() {
    let (peer, seen) = peer(&[(429, Some("0")), (503, None)]).await;
    let client = client(&peer.url("http", "/"), Options::default());
    assert_eq!(client.send(safe("hello")).await.unwrap().status, StatusCode::OK);
    assert_eq!(*seen.lock().unwrap(), ["hello"; 3]);
}

#[tokio::test]
async fn a_call_is_never_sent_again_however_busy_the_server_says_it_is() {
    let (peer, seen) = peer(&[(429, Some("0")), (503, Some("0"))]).await;
    let client = client(&peer.url("http", "/"), Options::default());
    for expected in [429, 503] {
        assert_eq!(client.send(post("/", "call")).await.unwrap().status, expected);
    }
    assert_eq!(seen.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn it_ends_and_the_last_answer_is_the_callers() {
    let (peer, seen) = peer(&[(503, Some("0")); 9]).await;
    let client = client(&peer.url("http", "/"), Options::default());
    let response = client.send(safe("")).await.unwrap();
    assert_eq!(
        (response.status, &response.headers["retry-after"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"0".parse().unwrap())
    );
    assert_eq!(seen.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn nobody_waits_for_an_hour_nor_past_the_clock_of_the_exchange() {
    for (retry_after, response) in [("3600", None), ("7", Some(Duration::from_secs(7)))] {
        let (peer, seen) = peer(&[(503, Some(retry_after))]).await;
        let timeouts = Timeouts {
            response,
            ..Timeouts::default()
        };
        let client = client(
            &peer.url("http", "/"),
            Options {
                timeouts,
                ..Options::default()
            },
        );
        assert_eq!(client.send(safe("")).await.unwrap().status, 503);
        assert_eq!(seen.lock().unwrap().len(), 1);
    }
}

/// A name that leads to a place where nobody listens, then to one where somebody does: a pod that is replaced.
#[tokio::test]
async fn a_connection_that_is_refused_is_tried_again_for_what_is_safe() {
    install_provider();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let ca = Ca::new();
    std::fs::write(&file, &ca.pem).unwrap();
    let router = Router::new().fallback(any(|| async { "ok" }));
    let peer = Peer::start(router, Some(ca.server(&["mcp.example"], None))).await;
    let nobody = "127.0.0.77";
    for (request, expected) in [(safe(""), true), (post("/", ""), false)] {
        let script = Script::new(&[("mcp.example", &[&[nobody], &["127.0.0.1"]])]);
        let destination = Destination::declared(&peer.named("mcp.example", "/"), Declared::Mcp).unwrap();
        let roots = WebRoots {
            ca_files: vec![file.clone()],
            ..WebRoots::default()
        };
        let options = Options {
            tls: TlsMode::WebRoots(roots),
            ..Options::default()
        };
        let client = HttpClient::with_lookup(destination, options, Arc::new(script)).unwrap();
        let outcome = client.send(request).await;
        match (outcome, expected) {
            (Ok(response), true) => assert_eq!(response.status, 200),
            (Err(NetError::Connect { .. }), false) => {}
            (Ok(_), false) => panic!("a call was sent again"),
            (Err(error), _) => panic!("{error}"),
        }
    }
}
