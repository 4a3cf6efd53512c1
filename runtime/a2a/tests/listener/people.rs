//! Callers whom an OpenID Connect issuer vouches for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agentd_a2a::{Principals, Role};
use agentd_config::document::{Oidc, Principal};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::*;

/// An issuer on loopback.
#[derive(Clone)]
struct Login {
    url: String,
    key: Arc<Mutex<(String, Arc<Ed25519KeyPair>)>>,
    away: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl Login {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let login = Self {
            url: format!("http://{}/realms/one", listener.local_addr().unwrap()),
            key: Arc::new(Mutex::new(Self::key("k1"))),
            away: Arc::default(),
            asked: Arc::default(),
        };
        let served = login.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let served = served.clone();
                let service = service_fn(move |request: Request<_>| {
                    let answer = served.answer(request.uri().path());
                    async move { Ok::<_, std::convert::Infallible>(answer) }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        login
    }

    fn key(id: &str) -> (String, Arc<Ed25519KeyPair>) {
        (id.to_owned(), Arc::new(Ed25519KeyPair::generate().unwrap()))
    }

    fn turns_key(&self, id: &str) {
        *self.key.lock().unwrap() = Self::key(id);
    }

    fn answer(&self, path: &str) -> Response<Full<Bytes>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let (id, pair) = self.key.lock().unwrap().clone();
        let body = match path {
            _ if self.away.load(Ordering::SeqCst) => return status(404),
            "/realms/one/.well-known/openid-configuration" => {
                json!({ "issuer": self.url, "jwks_uri": format!("{}/keys", self.url) })
            }
            "/realms/one/keys" => {
                let x = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
                json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": x }] })
            }
            _ => return status(404),
        };
        Response::new(Full::from(body.to_string()))
    }

    /// A token for the agent, with these claims in place of the ordinary ones.
    fn token(&self, claims: &Value) -> String {
        let (id, pair) = self.key.lock().unwrap().clone();
        let now = now().as_second();
        let mut all =
            json!({ "iss": self.url, "sub": "alice", "aud": "triage", "exp": now + 300, "iat": now });
        for (name, value) in claims.as_object().unwrap() {
            all[name] = value.clone();
        }
        let head = json!({ "alg": "EdDSA", "kid": id }).to_string();
        let signed = [head, all.to_string()]
            .map(|part| URL_SAFE_NO_PAD.encode(part))
            .join(".");
        let signature = URL_SAFE_NO_PAD.encode(pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// Who of the support group may call as a user, and alice as an operator where `boss` says so.
    fn lets_in(&self, world: &World, boss: bool) {
        let whom = Oidc {
            issuer: self.url.clone(),
            audience: "triage".into(),
            ..Oidc::default()
        };
        let support = Oidc {
            claims: [("groups".to_owned(), "support".to_owned())].into(),
            ..whom.clone()
        };
        let mut entries = listed();
        entries.push(Principal::with_oidc("support", support, Role::User));
        if boss {
            let alice = Oidc {
                subject: Some("alice".into()),
                ..whom
            };
            entries.push(Principal::with_oidc("boss", alice, Role::Operator));
        }
        world.principals.send_replace(Arc::new(Principals::new(&entries)));
    }
}

fn status(code: u16) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = code.try_into().unwrap();
    response
}

async fn says(peer: &mut Peer, token: &str) -> Answer {
    shows(peer, rest("POST", "/message:send", message("echo hi")), token).await
}

async fn shows(peer: &mut Peer, mut request: Request<Full<Bytes>>, token: &str) -> Answer {
    let value = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", value);
    peer.send(request).await.unwrap()
}

#[tokio::test]
async fn a_person_is_let_in_by_what_the_issuer_says_and_has_things_of_their_own() {
    let (world, login) = (World::start().await, Login::start().await);
    login.lets_in(&world, false);
    let support = |subject: &str| login.token(&json!({ "sub": subject, "groups": ["support"] }));
    let mut nobody = world.as_nobody().await;
    for subject in ["alice", "bob"] {
        assert_eq!(
            says(&mut nobody, &support(subject)).await.status,
            200,
            "{subject}"
        );
    }
    let owners = {
        let tasks = world.agent.tasks.lock().unwrap();
        [tasks["task-0"].0.clone(), tasks["task-1"].0.clone()]
    };
    assert!(
        owners[0].starts_with("oidc:") && owners[0].ends_with(":alice"),
        "{owners:?}"
    );
    assert!(owners[1].ends_with(":bob"));
    let get = || rest("GET", "/tasks/task-0", json!(null));
    assert_eq!(shows(&mut nobody, get(), &support("alice")).await.status, 200);
    assert_eq!(
        shows(&mut nobody, get(), &support("bob")).await.status,
        404,
        "alice's"
    );
    // What else she may counts at once, and no longer than it is there.
    login.lets_in(&world, true);
    let bobs = || rest("GET", "/tasks/task-1", json!(null));
    assert_eq!(shows(&mut nobody, bobs(), &support("alice")).await.status, 200);
    login.lets_in(&world, false);
    assert_eq!(shows(&mut nobody, bobs(), &support("alice")).await.status, 404);
    assert_eq!(login.asked.load(Ordering::SeqCst), 2, "asked once for all of it");

    for (claims, why) in [
        (
            json!({ "groups": ["sales"] }),
            "the token is for nobody whom this agent knows",
        ),
        (
            json!({ "groups": ["support"], "aud": "other" }),
            "the token is for nobody whom this agent knows",
        ),
        (
            json!({ "groups": ["support"], "iss": "https://login.example" }),
            "the token is for nobody whom this agent knows",
        ),
        (
            json!({ "groups": ["support"], "exp": 1 }),
            "the token has expired",
        ),
    ] {
        let refused = says(&mut nobody, &login.token(&claims)).await;
        assert_eq!(
            (refused.status, refused.reason().as_str()),
            (401, "TOKEN_NOT_VALID")
        );
        assert_eq!(refused.json()["error"]["message"], json!(why));
        assert!(
            refused
                .header("www-authenticate")
                .ends_with(r#"Bearer realm="agentd", error="invalid_token""#)
        );
    }
    // Beside a certificate it adds what it gives, and takes nothing.
    let mut alice = world.as_caller(ALICE).await;
    assert_eq!(says(&mut alice, "no.token.x").await.status, 200);
    assert_eq!(says(&mut alice, &support("alice")).await.status, 200);
    assert_eq!(world.agent.tasks.lock().unwrap()["task-3"].0, ALICE);
}

#[tokio::test]
async fn another_key_is_taken_up_and_strangers_do_not_make_us_ask() {
    let (world, login) = (World::start().await, Login::start().await);
    login.lets_in(&world, false);
    let support = json!({ "groups": ["support"] });
    let mut nobody = world.as_nobody().await;
    let before = login.token(&support);
    login.turns_key("k2");
    assert_eq!(says(&mut nobody, &login.token(&support)).await.status, 200);
    assert_eq!(login.asked.load(Ordering::SeqCst), 2);
    // A key that is not there is asked for at most once in a while, whoever names it.
    for _ in 0..5 {
        let refused = says(&mut nobody, &before).await;
        assert_eq!(
            (refused.status, refused.reason().as_str()),
            (401, "TOKEN_NOT_VALID")
        );
    }
    assert_eq!(login.asked.load(Ordering::SeqCst), 2);
    // One whose claims are somebody else's is not asked about at all, and the same key of another issuer is nobody's.
    let other = Login::start().await;
    *other.key.lock().unwrap() = login.key.lock().unwrap().clone();
    assert_eq!(says(&mut nobody, &other.token(&support)).await.status, 401);
    let other = Login::start().await;
    let forged = other.token(&json!({ "groups": ["support"], "iss": login.url }));
    assert_eq!(says(&mut nobody, &forged).await.status, 401);
    assert_eq!(other.asked.load(Ordering::SeqCst), 0);
    assert_eq!(world.agent.tasks.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn who_cannot_be_asked_vouches_for_nobody() {
    let (world, login) = (World::start().await, Login::start().await);
    login.lets_in(&world, false);
    login.away.store(true, Ordering::SeqCst);
    let support = login.token(&json!({ "groups": ["support"] }));
    let mut nobody = world.as_nobody().await;
    for _ in 0..3 {
        let refused = says(&mut nobody, &support).await;
        assert_eq!(
            (refused.status, refused.reason().as_str()),
            (503, "ISSUER_UNREACHABLE")
        );
        assert_eq!(refused.header("retry-after"), "10");
    }
    assert_eq!(
        login.asked.load(Ordering::SeqCst),
        1,
        "asked again only after a while"
    );
    assert!(world.agent.tasks.lock().unwrap().is_empty());
    let mut alice = world.as_caller(ALICE).await;
    assert_eq!(says(&mut alice, &support).await.status, 200, "by her certificate");
}
