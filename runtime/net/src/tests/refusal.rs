//! Refused requests: signed again as long as the signer knows better, and never for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agentd_base::class::Class;
use axum::Router;
use axum::extract::Request as AxumRequest;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use bytes::Bytes;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode, request};

use super::client::{client, post};
use super::peer::Peer;
use crate::{NetError, Options, Redirects, Refusal, RequestSigner};

/// Counts upwards with every refusal; gives up, or fails, at a number.
#[derive(Default)]
struct Counter {
    value: AtomicU32,
    gives_up: Option<u32>,
    fails: Option<u32>,
}

#[async_trait::async_trait]
impl RequestSigner for Counter {
    async fn sign(&self, parts: &mut request::Parts, _: &Bytes) -> Result<(), NetError> {
        let value = self.value.load(Ordering::SeqCst);
        parts.headers.insert(AUTHORIZATION, HeaderValue::from(value));
        Ok(())
    }

    async fn refused(&self, refusal: &Refusal<'_>) -> Result<bool, NetError> {
        let value = self.value.load(Ordering::SeqCst);
        assert_eq!(refusal.sent.get(AUTHORIZATION), Some(&HeaderValue::from(value)));
        assert_eq!(refusal.headers.get(WWW_AUTHENTICATE).unwrap(), "Count");
        if self.fails == Some(refusal.round) {
            let (message, class) = ("no more numbers".to_owned(), Class::Denied);
            return Err(NetError::Authorization { message, class });
        }
        self.value.fetch_add(1, Ordering::SeqCst);
        Ok(self.gives_up != Some(refusal.round))
    }
}

/// Wants a number of at least this; before it refuses.
async fn peer(wanted: u32, status: StatusCode) -> Peer {
    let answer = move |request: AxumRequest| async move {
        let number = request.headers()[AUTHORIZATION].to_str().unwrap().to_owned();
        let body = axum::body::to_bytes(request.into_body(), 1000).await.unwrap();
        match number.parse::<u32>().unwrap() {
            number if number < wanted => (status, [("www-authenticate", "Count")]).into_response(),
            number => (number.to_string() + std::str::from_utf8(&body).unwrap()).into_response(),
        }
    };
    let found = any(|| async {
        Response::builder()
            .status(302)
            .header("location", "/")
            .body("".into())
            .unwrap() as Response
    });
    Peer::start(Router::new().route("/", any(answer)).route("/found", found), None).await
}

async fn ask(peer: &Peer, signer: Counter) -> Result<(StatusCode, String), NetError> {
    let options = Options {
        signer: Some(Arc::new(signer)),
        ..Options::default()
    };
    let response = client(&peer.url("http", "/"), options)
        .send(post("/", "!"))
        .await?;
    let status = response.status;
    let body = response.body.bytes().await.unwrap();
    Ok((status, String::from_utf8(body.to_vec()).unwrap()))
}

#[tokio::test]
async fn a_refused_request_goes_out_again_with_its_body_as_often_as_the_signer_knows_better() {
    for status in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN] {
        let taken = ask(&peer(2, status).await, Counter::default()).await.unwrap();
        assert_eq!(taken, (StatusCode::OK, "2!".to_owned()));
    }
    let given_up = Counter {
        gives_up: Some(0),
        ..Counter::default()
    };
    let (status, _) = ask(&peer(2, StatusCode::UNAUTHORIZED).await, given_up)
        .await
        .unwrap();
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    // A signer that always knows better is stopped.
    let (status, _) = ask(&peer(100, StatusCode::FORBIDDEN).await, Counter::default())
        .await
        .unwrap();
    assert_eq!(status, StatusCode::FORBIDDEN);
    // Any other refusal is not about the signature.
    let (status, _) = ask(&peer(1, StatusCode::NOT_FOUND).await, Counter::default())
        .await
        .unwrap();
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_keeps_the_signer_from_it_is_the_error() {
    let failing = Counter {
        fails: Some(1),
        ..Counter::default()
    };
    let error = ask(&peer(9, StatusCode::UNAUTHORIZED).await, failing)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "no more numbers");
}

#[tokio::test]
async fn a_caller_may_want_the_redirect_itself() {
    let peer = peer(0, StatusCode::OK).await;
    let client = client(&peer.url("http", "/"), Options::default());
    let mut request = post("/found", "");
    request.extensions_mut().insert(Redirects::Returned);
    let response = client.send(request).await.unwrap();
    assert_eq!(response.status, StatusCode::FOUND);
}
