//! SVIDs from a scripted issuer over TLS.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_base::clock::{Clock as _, SystemClock};
use agentd_base::issuance::{PATH, Refusal, SvidRequest, SvidResponse};
use agentd_identity::tls::{ClientAuth, server_config};
use agentd_identity::{Authority, IdentitySource, SpiffeId, TrustDomain};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use tokio::sync::watch;

use super::peer::{Peer, install_provider};
use crate::issuer::{IssuerClient, IssuerConfig, IssuerError, PACE, Renewal, renew};
use crate::pace::Pace;

/// What the scripted issuer does next.
#[derive(Clone, Copy)]
enum Script {
    Issue { account: &'static str, ttl: Duration },
    Refuse,
    Fail,
    Garbage,
}

struct Issuer {
    authority: Authority,
    domain: TrustDomain,
    script: Mutex<Script>,
    tokens: Mutex<Vec<String>>,
}

impl Issuer {
    fn new(script: Script) -> Arc<Self> {
        install_provider();
        let domain: TrustDomain = "test.agentd.internal".parse().unwrap();
        let authority = Authority::generate(&domain, SystemClock.now()).unwrap();
        Arc::new(Self {
            authority,
            domain,
            script: Mutex::new(script),
            tokens: Mutex::default(),
        })
    }

    fn id(&self, account: &str) -> SpiffeId {
        format!("spiffe://{}/ns/x/sa/{account}", self.domain)
            .parse()
            .unwrap()
    }

    /// A process that has the bundle and nothing else.
    fn source(&self) -> IdentitySource {
        let source = IdentitySource::new(self.domain.clone());
        source.set_bundle(self.authority.bundle().clone()).unwrap();
        source
    }

    async fn start(self: &Arc<Self>) -> Peer {
        let own = self.source();
        let svid = self.authority.own_svid(
            &self.id("issuer"),
            &[],
            Duration::from_secs(3600),
            SystemClock.now(),
        );
        own.set_svid(svid.unwrap()).unwrap();
        let router = Router::new().route(PATH, post(answer)).with_state(self.clone());
        Peer::start(router, Some(server_config(&own, ClientAuth::Requested))).await
    }

    fn client(&self, peer: &Peer, source: IdentitySource, token_file: PathBuf) -> IssuerClient {
        let config = IssuerConfig {
            url: peer.url("https", ""),
            id: self.id("issuer"),
            token_file,
            expected: Some(self.id("agent")),
        };
        IssuerClient::new(source, config, agentd_base::clock::system()).unwrap()
    }
}

async fn answer(
    State(issuer): State<Arc<Issuer>>,
    headers: HeaderMap,
    Json(request): Json<SvidRequest>,
) -> Response {
    issuer
        .tokens
        .lock()
        .unwrap()
        .push(headers["authorization"].to_str().unwrap().to_owned());
    let script = *issuer.script.lock().unwrap();
    match script {
        Script::Issue { account, ttl } => {
            let id = issuer.id(account);
            let signed = issuer
                .authority
                .sign_svid(&request.csr, &id, &[], ttl, SystemClock.now())
                .unwrap();
            Json(SvidResponse {
                spiffe_id: id.to_string(),
                certificates: signed.chain_pem,
                bundle: issuer.authority.bundle().to_pem(),
                expires_at: signed.expires_at,
            })
            .into_response()
        }
        Script::Refuse => {
            let refusal = Refusal {
                reason: "NotOurs".into(),
                message: "no Agent uses this ServiceAccount".into(),
            };
            (StatusCode::FORBIDDEN, Json(refusal)).into_response()
        }
        Script::Fail => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Script::Garbage => "{}".into_response(),
    }
}

fn token_file(folder: &tempfile::TempDir, token: &str) -> PathBuf {
    let path = folder.path().join("token");
    std::fs::write(&path, token).unwrap();
    path
}

const HOUR: Script = Script::Issue {
    account: "agent",
    ttl: Duration::from_secs(3600),
};

#[tokio::test]
async fn fetches_and_checks_what_comes() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(HOUR);
    let peer = issuer.start().await;
    let client = issuer.client(&peer, issuer.source(), token_file(&folder, "t0ken\n"));
    let issued = client.fetch().await.unwrap();
    assert_eq!(issued.svid.id(), &issuer.id("agent"));
    assert_eq!(issued.bundle_pem, issuer.authority.bundle().to_pem());
    assert_eq!(*issuer.tokens.lock().unwrap(), ["Bearer t0ken"]);

    for (script, text) in [
        (
            Script::Refuse,
            "the issuer refused (NotOurs): no Agent uses this ServiceAccount",
        ),
        (Script::Fail, "the issuer answered with HTTP 500"),
        (
            Script::Garbage,
            "the issuer's answer is unusable: missing field `spiffe_id`",
        ),
        (
            Script::Issue {
                account: "other",
                ttl: Duration::from_secs(60),
            },
            "it is for spiffe://test.agentd.internal/ns/x/sa/other, and this process is",
        ),
    ] {
        *issuer.script.lock().unwrap() = script;
        let error = client.fetch().await.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[tokio::test]
async fn says_what_is_missing_before_it_dials() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(HOUR);
    let peer = issuer.start().await;
    let bare = IdentitySource::new(issuer.domain.clone());
    let client = issuer.client(&peer, bare, token_file(&folder, "t"));
    assert!(matches!(client.fetch().await, Err(IssuerError::NoBundle)));
    let client = issuer.client(&peer, issuer.source(), folder.path().join("absent"));
    assert!(
        client
            .fetch()
            .await
            .unwrap_err()
            .to_string()
            .contains("absent: No such file")
    );
    let client = issuer.client(&peer, issuer.source(), token_file(&folder, "\n"));
    assert!(
        client
            .fetch()
            .await
            .unwrap_err()
            .to_string()
            .ends_with("is empty")
    );
    assert_eq!(peer.connections(), 0);
}

#[tokio::test]
async fn an_impostor_gets_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let (issuer, impostor) = (Issuer::new(HOUR), Issuer::new(HOUR));
    let peer = impostor.start().await;
    let client = issuer.client(&peer, issuer.source(), token_file(&folder, "t"));
    let error = client.fetch().await.unwrap_err().to_string();
    assert!(
        error.starts_with("the issuer cannot be reached: TLS with"),
        "{error}"
    );
    assert!(impostor.tokens.lock().unwrap().is_empty());
}

#[tokio::test]
async fn renews_by_itself_and_survives_failures() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(Script::Refuse);
    let peer = issuer.start().await;
    let source = issuer.source();
    let client = issuer.client(&peer, source.clone(), token_file(&folder, "t"));
    let pace = Pace {
        first: Duration::from_millis(1),
        max: Duration::from_millis(5),
    };
    let (state, mut seen) = watch::channel(Renewal::default());
    let task = tokio::spawn(renew(client, pace, state));

    let refused = seen
        .wait_for(|state| state.last_error.is_some())
        .await
        .unwrap()
        .clone();
    assert!(refused.last_error.unwrap().contains("NotOurs"));
    assert!(source.current().svid.is_none());

    // A third of this life is over before it begins (it starts a minute ago), so renewal comes as soon as may be.
    let ttl = Duration::from_secs(20);
    *issuer.script.lock().unwrap() = Script::Issue {
        account: "agent",
        ttl,
    };
    seen.wait_for(|state| state.renewals == 1 && state.last_error.is_none())
        .await
        .unwrap();
    let first = source.current().svid.clone().unwrap();
    seen.wait_for(|state| state.renewals == 2).await.unwrap();
    let second = source.current().svid.clone().unwrap();
    assert_ne!(first.chain(), second.chain(), "a new key and certificate");

    // An issuer that goes away takes nothing with it.
    *issuer.script.lock().unwrap() = Script::Fail;
    seen.wait_for(|state| state.last_error.is_some()).await.unwrap();
    assert!(source.current().svid.is_some());
    task.abort();
}

#[tokio::test]
async fn a_bundle_that_arrives_late_ends_the_wait() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(HOUR);
    let peer = issuer.start().await;
    let source = IdentitySource::new(issuer.domain.clone());
    let client = issuer.client(&peer, source.clone(), token_file(&folder, "t"));
    let (state, mut seen) = watch::channel(Renewal::default());
    let never = Pace {
        first: Duration::from_secs(3600),
        ..PACE
    };
    let task = tokio::spawn(renew(
        client,
        Pace {
            max: Duration::from_secs(3600),
            ..never
        },
        state,
    ));
    seen.wait_for(|state| state.last_error.is_some()).await.unwrap();
    source.set_bundle(issuer.authority.bundle().clone()).unwrap();
    seen.wait_for(|state| state.renewals == 1).await.unwrap();
    task.abort();
}
