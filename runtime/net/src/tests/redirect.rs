//! Redirects: 307 and 308 on the same origin, with method and body; nothing else.

use axum::Router;
use axum::extract::Request as AxumRequest;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use http::StatusCode;

use super::client::{client, post};
use super::peer::Peer;
use crate::{NetError, Options};

fn to(status: StatusCode, location: &'static str) -> axum::routing::MethodRouter {
    any(move || async move { (status, [("location", location)]).into_response() })
}

async fn echo(request: AxumRequest) -> Response {
    let line = format!("{} {} ", request.method(), request.uri());
    let body = axum::body::to_bytes(request.into_body(), 1000).await.unwrap();
    (line + std::str::from_utf8(&body).unwrap()).into_response()
}

async fn peer() -> Peer {
    let router = Router::new()
        .route("/mcp", to(StatusCode::TEMPORARY_REDIRECT, "/mcp/"))
        .route("/moved", to(StatusCode::PERMANENT_REDIRECT, "mcp"))
        .route("/circle", to(StatusCode::TEMPORARY_REDIRECT, "/circle"))
        .route("/found", to(StatusCode::FOUND, "/mcp/"))
        .route(
            "/away",
            to(StatusCode::TEMPORARY_REDIRECT, "https://evil.example/x?token=1"),
        )
        .route(
            "/metadata",
            to(StatusCode::TEMPORARY_REDIRECT, "http://169.254.169.254/latest"),
        )
        .route(
            "/port",
            to(StatusCode::TEMPORARY_REDIRECT, "http://127.0.0.1:1/mcp/"),
        )
        .route("/nonsense", to(StatusCode::TEMPORARY_REDIRECT, "http://["))
        .route("/unmoved", any(|| async { StatusCode::NOT_MODIFIED }))
        .route("/mcp/", any(echo));
    Peer::start(router, None).await
}

#[tokio::test]
async fn followed_on_the_same_origin_with_the_body() {
    let peer = peer().await;
    let client = client(&peer.url("http", "/"), Options::default());
    for path in ["/mcp", "/moved"] {
        let response = client.send(post(path, "hello")).await.unwrap();
        assert_eq!(
            response.body.bytes().await.unwrap().as_ref(),
            b"POST /mcp/ hello",
            "{path}"
        );
    }
    assert_eq!(
        client.send(post("/unmoved", "")).await.unwrap().status,
        StatusCode::NOT_MODIFIED
    );
}

#[tokio::test]
async fn anything_else_is_refused_and_named() {
    let peer = peer().await;
    let client = client(&peer.url("http", "/"), Options::default());
    for (path, part) in [
        ("/circle", "redirects in a circle"),
        ("/found", "redirects (302) to http://127.0.0.1"),
        (
            "/away",
            "redirects (307) to https://evil.example, which is not followed; declare that URL",
        ),
        ("/metadata", "redirects (307) to http://169.254.169.254,"),
        ("/port", "redirects (307) to http://127.0.0.1:1,"),
        ("/nonsense", "not a URL"),
    ] {
        let error = client.send(post(path, "secret")).await.err().unwrap();
        assert!(matches!(error, NetError::Refused(_)), "{error:?}");
        assert!(error.to_string().contains(part), "{path}: {error}");
        assert!(!error.to_string().contains("token"), "{error}");
    }
}
