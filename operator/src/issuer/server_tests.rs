//! The issuer's HTTP and TLS, with a scripted token verifier and scripted facts; policy and signing are real.
#![allow(clippy::disallowed_methods)] // The listener under test is on loopback.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentd_base::clock;
use agentd_base::drain::Drain;
use agentd_identity::request::new_key_and_csr;
use agentd_identity::tls::client_config_without_svid;
use agentd_identity::{Authority, IdentitySource, Svid};
use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use jiff::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use tower::ServiceExt as _;

use super::super::facts::{Account, Pod};
use super::*;

const TTL: Duration = Duration::from_secs(3600);
const ISSUER: &str = "spiffe://td/ns/agentd-system/sa/r-issuer";

/// Knows one token: `good.for.NAME`, of ServiceAccount `support/NAME`.
#[derive(Default)]
struct Scripted {
    asked: Arc<AtomicUsize>,
}

impl TokenVerifier for Scripted {
    fn screen(&self, token: &str) -> Result<(), Refusal> {
        match token.strip_prefix("other.audience.") {
            Some(_) => Err(Refusal::new(reason::TOKEN_INVALID, "not for us")),
            None => Ok(()),
        }
    }

    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Token, Refusal>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let result = match token.strip_prefix("good.for.") {
            Some(account) => Ok(Token {
                namespace: "support".to_owned(),
                service_account: account.to_owned(),
                service_account_uid: "u1".to_owned(),
                pod: None,
            }),
            None => Err(Refusal::new(reason::TOKEN_INVALID, "not this one")),
        };
        Box::pin(futures::future::ready(result))
    }
}

/// Finds every account, labelled where its name begins with `caller`; never answers for `slow`, fails for `broken`.
struct Facts1;

impl Lookup for Facts1 {
    fn facts(&self, token: Token) -> BoxFuture<'_, Result<Facts, kube::Error>> {
        Box::pin(async move {
            match token.service_account.as_str() {
                "slow" => futures::future::pending().await,
                "broken" => Err(kube::Error::LinesCodecMaxLineLengthExceeded),
                name => Ok(Facts {
                    account: Some(Account {
                        uid: "u1".to_owned(),
                        labelled: name.starts_with("caller"),
                    }),
                    pod: None::<Pod>,
                    chain: vec![],
                    owner_account: None,
                    service: None,
                    users: vec![],
                    token,
                }),
            }
        })
    }
}

struct Bench {
    app: Arc<App>,
    asked: Arc<AtomicUsize>,
    authority: Arc<Authority>,
}

fn bench() -> Bench {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let authority = Authority::generate(&"td".parse().unwrap(), Timestamp::now()).unwrap();
    let names = ("agentd-system", "r-issuer", "cluster.local");
    let signer = Arc::new(Signer::new(authority, names, TTL, clock::system()).unwrap());
    let verifier = Scripted::default();
    let asked = verifier.asked.clone();
    // Nobody listens there: an Event that cannot be written must not matter.
    let client = kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let app = App::new(
        Box::new(verifier),
        Box::new(Facts1),
        signer.clone(),
        "cluster.local".to_owned(),
        Events::new(client, None),
        Metrics::new(&prometheus::Registry::new()).unwrap(),
    );
    Bench {
        app: Arc::new(app),
        asked,
        authority: signer.authority(),
    }
}

fn request(token: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(issuance::PATH)
        .header("authorization", format!("Bearer {token}"))
        .body(body.into())
        .unwrap()
}

fn csr_body() -> (String, String) {
    let (key, csr) = new_key_and_csr().unwrap();
    (
        key.to_string(),
        serde_json::to_string(&SvidRequest { csr }).unwrap(),
    )
}

async fn ask(bench: &Bench, request: Request<Body>) -> (StatusCode, HeaderMap, Bytes) {
    ask_from("10.0.0.1", bench, request).await
}

async fn ask_from(origin: &str, bench: &Bench, request: Request<Body>) -> (StatusCode, HeaderMap, Bytes) {
    let router = router(bench.app.clone()).layer(Extension(Origin(origin.parse().unwrap())));
    let response = router.oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    (
        parts.status,
        parts.headers,
        body.collect().await.unwrap().to_bytes(),
    )
}

async fn refused(bench: &Bench, request: Request<Body>) -> (u16, String) {
    let (status, _, body) = ask(bench, request).await;
    let refusal: issuance::Refusal = serde_json::from_slice(&body).unwrap();
    (status.as_u16(), refusal.reason)
}

#[tokio::test]
async fn a_caller_gets_an_svid_that_verifies() {
    let bench = bench();
    let (key, body) = csr_body();
    let (status, _, answer) = ask(&bench, request("good.for.caller-a", body)).await;
    assert_eq!(status, StatusCode::OK);
    let answer: SvidResponse = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer.spiffe_id, "spiffe://td/ns/support/sa/caller-a");
    assert_eq!(answer.bundle, bench.authority.bundle().to_pem());
    let now = Timestamp::now();
    let svid = Svid::from_pem(
        answer.certificates.as_bytes(),
        key.as_bytes(),
        bench.authority.bundle(),
        now,
    )
    .unwrap();
    assert_eq!(
        (svid.id().to_string(), svid.expires_at()),
        (answer.spiffe_id, answer.expires_at)
    );
    assert_eq!(
        svid.expires_at().as_second() - svid.issued_at().as_second(),
        3600 + 60
    );
}

#[tokio::test]
async fn each_refusal_has_its_status_and_reason() {
    let bench = bench();
    let (_, body) = csr_body();
    let invalid = (401, reason::TOKEN_INVALID.to_owned());
    let bare = Request::post(issuance::PATH)
        .body(Body::from(body.clone()))
        .unwrap();
    assert_eq!(refused(&bench, bare).await, invalid);
    assert_eq!(
        refused(&bench, request("not a token", body.clone())).await,
        invalid
    );
    assert_eq!(
        bench.asked.load(Ordering::SeqCst),
        0,
        "nobody is asked about what is no token"
    );
    assert_eq!(
        refused(&bench, request("other.audience.x", body.clone())).await,
        invalid
    );
    assert_eq!(bench.asked.load(Ordering::SeqCst), 0, "nor about one for others");
    assert_eq!(
        refused(&bench, request("bad.for.caller", body.clone())).await,
        invalid
    );
    assert_eq!(
        refused(&bench, request("good.for.unlabelled", body.clone())).await,
        (403, reason::CALLER_NOT_LABELLED.to_owned())
    );
    assert_eq!(
        refused(&bench, request("good.for.broken", body)).await,
        (503, reason::UNAVAILABLE.to_owned())
    );
}

#[tokio::test]
async fn unusable_bodies_are_told_before_anybody_is_asked_about_the_token() {
    let bench = bench();
    let bad = (400, reason::BAD_REQUEST.to_owned());
    for body in [
        "",
        "{}",
        "[]",
        r#"{"csr": 1}"#,
        r#"{"csr": "x", "spiffe_id": "spiffe://td/me"}"#,
    ] {
        assert_eq!(
            refused(&bench, request("good.for.caller", body)).await,
            bad,
            "{body}"
        );
    }
    assert_eq!(
        refused(&bench, request("good.for.caller", "x".repeat(BODY_BYTES + 1))).await,
        bad
    );
    assert_eq!(bench.asked.load(Ordering::SeqCst), 0);
    let no_csr = serde_json::to_string(&SvidRequest { csr: "no".to_owned() }).unwrap();
    assert_eq!(refused(&bench, request("good.for.caller", no_csr)).await, bad);
}

#[tokio::test]
async fn only_one_path_and_one_method() {
    let bench = bench();
    let other = Request::post("/").body(Body::empty()).unwrap();
    assert_eq!(ask(&bench, other).await.0, StatusCode::NOT_FOUND);
    let get = Request::get(issuance::PATH).body(Body::empty()).unwrap();
    assert_eq!(ask(&bench, get).await.0, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(start_paused = true)]
async fn an_account_that_asks_all_the_time_is_told_to_wait() {
    let bench = bench();
    let (_, body) = csr_body();
    for _ in 0..30 {
        assert_eq!(
            ask(&bench, request("good.for.caller", body.clone())).await.0,
            StatusCode::OK
        );
    }
    let (status, headers, _) = ask(&bench, request("good.for.caller", body.clone())).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    let wait: u64 = headers[header::RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert_eq!(
        ask(&bench, request("good.for.caller2", body.clone())).await.0,
        StatusCode::OK
    );
    tokio::time::advance(Duration::from_secs(wait)).await;
    assert_eq!(
        ask(&bench, request("good.for.caller", body)).await.0,
        StatusCode::OK
    );
}

#[tokio::test(start_paused = true)]
async fn garbage_from_one_address_keeps_neither_the_api_server_nor_the_others() {
    let bench = bench();
    let (_, body) = csr_body();
    let burst = ORIGIN_RATE.burst as usize;
    for at in 0..3 * burst {
        let (status, headers, _) =
            ask_from("10.9.9.9", &bench, request("bad.for.caller", body.clone())).await;
        if at < burst {
            assert_eq!(status, StatusCode::UNAUTHORIZED);
        } else {
            assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(headers[header::RETRY_AFTER], "1");
        }
    }
    assert_eq!(bench.asked.load(Ordering::SeqCst), burst, "TokenReviews");
    let (status, _, _) = ask_from("10.0.0.1", &bench, request("good.for.caller", body.clone())).await;
    assert_eq!(status, StatusCode::OK);
    tokio::time::advance(Duration::from_secs(1)).await;
    let (status, _, _) = ask_from("10.9.9.9", &bench, request("good.for.caller", body)).await;
    assert_eq!(status, StatusCode::OK, "and it may ask again, slowly");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_hangs_ends_in_a_refusal() {
    let bench = bench();
    let (_, body) = csr_body();
    assert_eq!(
        refused(&bench, request("good.for.slow", body)).await,
        (503, reason::UNAVAILABLE.to_owned())
    );
}

/// One request over TLS, by a client that knows the issuer by its ID.
async fn over_tls(
    address: SocketAddr,
    expected: &str,
    bundle: &agentd_identity::Bundle,
) -> Result<u16, String> {
    let source = IdentitySource::new("td".parse().unwrap());
    source.set_bundle(bundle.clone()).unwrap();
    let connector = TlsConnector::from(Arc::new(client_config_without_svid(
        &source,
        expected.parse().unwrap(),
    )));
    let stream = TcpStream::connect(address).await.map_err(|e| e.to_string())?;
    let stream = connector
        .connect("issuer".try_into().unwrap(), stream)
        .await
        .map_err(|e| e.to_string())?;
    let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| e.to_string())?;
    tokio::spawn(connection);
    let request = request("good.for.caller", csr_body().1);
    let (parts, body) = request.into_parts();
    let body = Full::new(body.collect().await.unwrap().to_bytes());
    let response = send
        .send_request(Request::from_parts(parts, body))
        .await
        .map_err(|e| e.to_string())?;
    Ok(response.status().as_u16())
}

#[tokio::test]
async fn over_tls_it_is_known_by_its_id_and_strangers_do_not_hold_it_up() {
    let bench = bench();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let drain = Drain::new();
    let serving = tokio::spawn(serve(listener, bench.app.clone(), drain.watch()));

    // Two that never finish their handshake, one that speaks no TLS.
    let silent = [
        TcpStream::connect(address).await.unwrap(),
        TcpStream::connect(address).await.unwrap(),
    ];
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain
        .write_all(b"POST /v1/svid HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"));

    assert_eq!(over_tls(address, ISSUER, bench.authority.bundle()).await, Ok(200));
    let other = over_tls(
        address,
        "spiffe://td/ns/agentd-system/sa/other",
        bench.authority.bundle(),
    )
    .await;
    assert!(other.is_err());
    let foreign = Authority::generate(&"td".parse().unwrap(), Timestamp::now()).unwrap();
    assert!(over_tls(address, ISSUER, foreign.bundle()).await.is_err());

    // Another root of the same trust domain is taken up by the running listener.
    let bundle = foreign.bundle().clone();
    bench.app.signer.replace(foreign).unwrap();
    assert_eq!(over_tls(address, ISSUER, &bundle).await, Ok(200));
    let renamed = Authority::generate(&"other".parse().unwrap(), Timestamp::now()).unwrap();
    assert!(matches!(
        bench.app.signer.replace(renamed),
        Err(super::super::sign::SignError::TrustDomain(_))
    ));

    drop(silent);
    assert!(drain.run(Duration::from_secs(30)).await);
    serving.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
