//! A scripted API server for tests: each request is expected, read and answered in order; one too many fails the test.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower_test::mock::{self, Handle};

/// How long a request may be waited for.
const LIMIT: Duration = Duration::from_secs(5);

/// The other end of a client.
pub(crate) struct ApiServer(Handle<Request<Body>, Response<Body>>);

/// A request as it was made.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Method and path, such as `GET /api/v1/…`.
    pub(crate) line: String,
    /// The query.
    pub(crate) query: String,
    /// The body.
    pub(crate) body: Value,
}

/// A client and the server that it speaks to.
pub(crate) fn api_server() -> (Client, ApiServer) {
    let (service, handle) = mock::pair::<Request<Body>, Response<Body>>();
    (Client::new(service, "default"), ApiServer(handle))
}

impl ApiServer {
    /// Answers the next request.
    pub(crate) async fn answer(&mut self, status: u16, body: Value) -> Seen {
        let next = tokio::time::timeout(LIMIT, self.0.next_request()).await;
        let (request, send) = next
            .expect("a request in time")
            .expect("a client that still lives");
        let (parts, content) = request.into_parts();
        let content = content.collect().await.unwrap().to_bytes();
        let seen = Seen {
            line: format!("{} {}", parts.method, parts.uri.path()),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            body: serde_json::from_slice(&content).unwrap_or_default(),
        };
        let body = Body::from(serde_json::to_vec(&body).unwrap());
        send.send_response(
            Response::builder()
                .status(StatusCode::from_u16(status).unwrap())
                .body(body)
                .unwrap(),
        );
        seen
    }

    /// Answers the next request as the API server refuses one.
    pub(crate) async fn refuse(&mut self, status: u16, reason: &str, message: &str) -> Seen {
        let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason, "message": message});
        self.answer(status, body).await
    }

    /// Fails the test when there was one more request.
    pub(crate) async fn nothing_more(mut self) {
        // The client is gone by now: what it asked for is here already.
        if let Some((request, _)) = self.0.next_request().await {
            panic!("one more request: {} {}", request.method(), request.uri());
        }
    }
}
