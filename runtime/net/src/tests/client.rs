//! Requests: headers, clocks, bounds, the pool.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_base::class::{Class, Classified as _};
use axum::Router;
use axum::body::Body as AxumBody;
use axum::extract::Request as AxumRequest;
use axum::routing::any;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderName, Method, Request};
use secrecy::SecretString;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::peer::Peer;
use crate::{
    Declared, Destination, HttpClient, Limits, NetError, Options, Replay, SecretValue, StaticSigner, Timeouts,
};

pub(super) fn client(url: &str, options: Options) -> HttpClient {
    HttpClient::new(Destination::declared(url, Declared::Mcp).unwrap(), options).unwrap()
}

pub(super) fn post(path: &str, body: &'static str) -> Request<Bytes> {
    Request::post(path)
        .body(Bytes::from_static(body.as_bytes()))
        .unwrap()
}

fn secret(values: &'static [&'static str]) -> SecretValue {
    let turn = AtomicUsize::new(0);
    Arc::new(move || {
        Ok(SecretString::from(
            values[turn.fetch_add(1, Ordering::SeqCst).min(values.len() - 1)],
        ))
    })
}

fn echo_header(name: &'static str) -> Router {
    Router::new().fallback(any(move |request: AxumRequest| async move {
        let values: Vec<_> = request
            .headers()
            .get_all(name)
            .iter()
            .map(|v| v.to_str().unwrap().to_owned())
            .collect();
        format!("{} {} {}", request.method(), request.uri(), values.join(","))
    }))
}

async fn text(client: &HttpClient, request: Request<Bytes>) -> String {
    let response = client.send(request).await.unwrap();
    String::from_utf8(response.body.bytes().await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn headers_are_resolved_for_each_request_and_the_requests_own_win() {
    let peer = Peer::start(echo_header("x-key"), None).await;
    let headers = vec![(HeaderName::from_static("x-key"), secret(&["one", "two"]))];
    let client = client(
        &peer.url("http", "/mcp?a=1"),
        Options {
            headers,
            ..Options::default()
        },
    );
    assert_eq!(text(&client, post("/mcp?a=1", "")).await, "POST /mcp?a=1 one");
    assert_eq!(text(&client, post("/other", "")).await, "POST /other two");
    let own = Request::get("/")
        .header("x-key", "mine")
        .body(Bytes::new())
        .unwrap();
    assert_eq!(text(&client, own).await, "GET / mine");
    let absolute = Request::get(peer.url("http", "/full"))
        .body(Bytes::new())
        .unwrap();
    assert_eq!(text(&client, absolute).await, "GET /full two");
    assert_eq!(peer.connections(), 1, "one pooled connection");
}

#[tokio::test]
async fn the_signer_comes_last_and_takes_up_a_new_token() {
    let peer = Peer::start(echo_header("authorization"), None).await;
    let signer: Arc<dyn crate::RequestSigner> = Arc::new(StaticSigner::bearer(secret(&["t1", "t2"])));
    let headers = vec![(http::header::AUTHORIZATION, secret(&["Basic abc"]))];
    let client = client(
        &peer.url("http", "/"),
        Options {
            headers,
            signer: Some(signer),
            ..Options::default()
        },
    );
    assert_eq!(text(&client, post("/", "")).await, "POST / Bearer t1");
    assert_eq!(text(&client, post("/", "")).await, "POST / Bearer t2");
}

#[tokio::test]
async fn a_secret_that_is_missing_or_has_a_line_break_sends_nothing() {
    let peer = Peer::start(echo_header("x-key"), None).await;
    let missing: SecretValue = Arc::new(|| Err("secret file /s/k does not exist".into()));
    for (value, expected) in [
        (missing, "secret file /s/k does not exist"),
        (
            secret(&["a\r\nHost: evil"]),
            "the value of header x-key has a line break or another control character",
        ),
    ] {
        let headers = vec![(HeaderName::from_static("x-key"), value)];
        let client = client(
            &peer.url("http", "/"),
            Options {
                headers,
                ..Options::default()
            },
        );
        let error = client.send(post("/", "")).await.err().unwrap();
        assert_eq!(
            (error.to_string().as_str(), error.class()),
            (expected, Class::Denied)
        );
    }
    assert_eq!(peer.connections(), 0);
}

#[tokio::test]
async fn a_client_is_for_its_origin_alone() {
    let peer = Peer::start(echo_header("x"), None).await;
    let client = client(&peer.url("http", "/"), Options::default());
    for other in [
        "http://127.0.0.1:1/",
        "https://mcp.example/",
        "http://169.254.169.254/latest",
    ] {
        let request = Request::get(other).body(Bytes::new()).unwrap();
        assert!(
            matches!(client.send(request).await, Err(NetError::Invalid(_))),
            "{other}"
        );
    }
    assert_eq!(peer.connections(), 0);
}

#[tokio::test]
async fn clocks_run_apart() {
    let router = Router::new()
        .route("/slow", any(std::future::pending::<String>))
        .route(
            "/drip",
            any(|| async {
                let drops =
                    futures::stream::iter([Ok::<_, std::io::Error>("a")]).chain(futures::stream::pending());
                AxumBody::from_stream(drops)
            }),
        )
        .route("/fast", any(|| async { "fast" }));
    let peer = Peer::start(router, None).await;
    let short = Duration::from_millis(50);
    let timeouts = |response, total| Timeouts {
        response,
        total,
        ..Timeouts::default()
    };
    let with = |timeouts| {
        client(
            &peer.url("http", "/"),
            Options {
                timeouts,
                ..Options::default()
            },
        )
    };

    let error = with(timeouts(Some(short), None))
        .send(post("/slow", ""))
        .await
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        format!("{}: waiting for the answer took longer than 50ms", peer.address)
    );
    assert!(!error.is_connect());
    let error = with(timeouts(None, Some(short)))
        .send(post("/slow", ""))
        .await
        .err()
        .unwrap();
    assert!(error.to_string().contains("the whole exchange"), "{error}");
    let dripping = with(timeouts(Some(Duration::from_secs(5)), Some(short)))
        .send(post("/drip", ""))
        .await
        .unwrap();
    let error = dripping.body.bytes().await.unwrap_err();
    assert!(error.to_string().contains("the whole exchange"), "{error}");
    assert_eq!(text(&with(timeouts(None, None)), post("/fast", "")).await, "fast");

    // Accepts and never shakes hands.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let connect = Timeouts {
        connect: short,
        ..Timeouts::default()
    };
    let error = client(
        &url,
        Options {
            timeouts: connect,
            ..Options::default()
        },
    )
    .send(post("/", ""))
    .await
    .err()
    .unwrap();
    assert!(
        error.to_string().ends_with("connecting took longer than 50ms"),
        "{error}"
    );
    assert!(error.is_connect());
}

#[tokio::test]
async fn bodies_and_headers_are_bounded() {
    let router = Router::new()
        .route("/body", any(|| async { "x".repeat(1001) }))
        .route("/headers", any(|| async { ([("x-long", "y".repeat(2000))], "") }));
    let peer = Peer::start(router, None).await;
    let limits = Limits {
        header_bytes: 1000,
        body_bytes: 1000,
    };
    let client = client(
        &peer.url("http", "/"),
        Options {
            limits,
            ..Options::default()
        },
    );
    let response = client.send(post("/body", "")).await.unwrap();
    assert!(matches!(
        response.body.bytes().await,
        Err(NetError::TooLarge {
            what: "body",
            limit: 1000,
            ..
        })
    ));
    assert!(matches!(
        client.send(post("/headers", "")).await,
        Err(NetError::TooLarge { what: "headers", .. })
    ));
}

#[tokio::test]
async fn connection_faults_guess_the_cause() {
    let port = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let error = client(&format!("http://{port}/"), Options::default())
        .send(post("/", ""))
        .await
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        format!("cannot connect to {port}: connection refused; is it running, and is the port right?")
    );
    assert!(error.is_connect());
    assert_eq!(error.class(), Class::Unavailable);

    let plain = Peer::start(echo_header("x"), None).await;
    let error = client(&plain.url("https", "/"), Options::default())
        .send(post("/", ""))
        .await
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "TLS with {} failed: it does not speak TLS on this port",
            plain.address
        )
    );
}

/// Answers the first request of each connection and hangs up at the second.
async fn flaky() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let log = log.clone();
            tokio::spawn(async move {
                for answer in [true, false] {
                    let mut bytes = vec![0; 4096];
                    let read = stream.read(&mut bytes).await.unwrap();
                    if read == 0 {
                        return;
                    }
                    let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
                    log.lock().unwrap().push(text.lines().next().unwrap().to_owned());
                    if answer {
                        stream
                            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                            .await
                            .unwrap();
                    }
                }
            });
        }
    });
    (url, seen)
}

#[tokio::test]
async fn a_stale_connection_costs_a_safe_request_one_retry_and_never_repeats_an_unsafe_one() {
    let (url, seen) = flaky().await;
    let client = client(&url, Options::default());
    assert_eq!(text(&client, post("/1", "")).await, "ok");
    let mut safe = post("/2", "");
    safe.extensions_mut().insert(Replay::Safe);
    assert_eq!(text(&client, safe).await, "ok");
    let error = client.send(post("/3", "")).await.err().unwrap();
    assert!(matches!(error, NetError::Interrupted { .. }), "{error}");
    let get = Request::builder()
        .method(Method::GET)
        .uri("/4")
        .body(Bytes::new())
        .unwrap();
    assert_eq!(text(&client, get).await, "ok");
    let seen = seen.lock().unwrap().clone();
    let expected =
        ["POST /1", "POST /2", "POST /2", "POST /3", "GET /4"].map(|line| format!("{line} HTTP/1.1"));
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_body_can_be_streamed_both_ways() {
    let router = Router::new().route("/", any(|request: AxumRequest| async { request.into_body() }));
    let peer = Peer::start(router, None).await;
    let destination = Destination::declared(&peer.url("http", "/"), Declared::Upstream).unwrap();
    let client = HttpClient::new(destination, Options::default()).unwrap();
    let (sender, receiver) = futures::channel::mpsc::unbounded::<std::io::Result<Bytes>>();
    let request = Request::post("/").body(receiver.boxed()).unwrap();
    let (response, ()) = tokio::join!(client.send_streamed(request), async {
        sender.unbounded_send(Ok(Bytes::from_static(b"first"))).unwrap();
    });
    let mut chunks = response.unwrap().body.chunks();
    assert_eq!(chunks.next().await.unwrap().unwrap().as_ref(), b"first");
    sender.unbounded_send(Ok(Bytes::from_static(b"second"))).unwrap();
    assert_eq!(chunks.next().await.unwrap().unwrap().as_ref(), b"second");
    drop(sender);
    assert!(chunks.next().await.is_none());
}

/// A server that repeats what it was sent, in a body and in the beginning of an error.
#[tokio::test]
async fn a_secret_that_a_server_repeats_does_not_come_back() {
    let peer = Peer::start(echo_header("authorization"), None).await;
    let token = || secret(&["canary-token"]);
    let options = Options {
        signer: Some(Arc::new(StaticSigner::bearer(token()))),
        confidential: vec![token()],
        ..Options::default()
    };
    let verbatim = Options {
        verbatim: true,
        ..options.clone()
    };
    let keeps = client(&peer.url("http", "/"), verbatim);
    assert_eq!(text(&keeps, post("/", "")).await, "POST / Bearer canary-token");
    let client = client(&peer.url("http", "/"), options);
    assert_eq!(text(&client, post("/", "")).await, "POST / Bearer [redacted]");
    let response = client.send(post("/", "")).await.unwrap();
    assert_eq!(
        response.body.prefix(100).await.as_ref(),
        b"POST / Bearer [redacted]"
    );
}
