//! What an install gives a pod: a trust domain with an issuer and a place for reports. The issuer signs whatever ID the
//! token names: who may have which is tested where it is decided.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentd_a2a::server::{Bounds, Events, Handler, Server};
use agentd_base::drain::Drain;
use agentd_base::issuance::{SvidRequest, SvidResponse};
use agentd_base::report::Report;
use agentd_identity::tls::{ClientAuth, server_config};
use agentd_identity::{Authority, IdentitySource, SpiffeId, TrustDomain};
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::watch;

const BOUNDS: Bounds = Bounds {
    connections: 16,
    of_one: 16,
    streams: 16,
    linger: Duration::ZERO,
};

/// A running install.
pub struct Install {
    pub trust_domain: TrustDomain,
    authority: Arc<Authority>,
    issuer: SocketAddr,
    reports: SocketAddr,
    received: watch::Receiver<Vec<(SpiffeId, Report)>>,
    _drains: [Drain; 2],
}

impl Install {
    pub async fn start() -> Self {
        Self::with_svids_of(Duration::from_secs(3600)).await
    }

    /// With an issuer whose SVIDs live so long.
    pub async fn with_svids_of(life: Duration) -> Self {
        let trust_domain: TrustDomain = "test.agentd.internal".parse().unwrap();
        let authority = Arc::new(Authority::generate(&trust_domain, jiff::Timestamp::now()).unwrap());
        let serve = async |name: &str, handler: Endpoint, auth| {
            let source = source(&authority, &id(&trust_domain, "agentd", name));
            let tls = Some(server_config(&source, auth));
            let server = Server::bind(Events::A2A, "127.0.0.1:0".parse().unwrap(), tls, BOUNDS)
                .await
                .unwrap();
            let (address, drain) = (server.local_addr(), Drain::new());
            tokio::spawn(server.serve(handler, drain.watch()));
            (address, drain)
        };
        let (sender, received) = watch::channel(Vec::new());
        let (issuer, one) = serve(
            "r-issuer",
            Endpoint::Issuer(authority.clone(), life),
            ClientAuth::Requested,
        )
        .await;
        let (reports, two) = serve(
            "r-controllers",
            Endpoint::Reports(Arc::new(sender)),
            ClientAuth::Required,
        )
        .await;
        Self {
            trust_domain,
            authority,
            issuer,
            reports,
            received,
            _drains: [one, two],
        }
    }

    pub fn id(&self, account: &str) -> SpiffeId {
        id(&self.trust_domain, "team", account)
    }

    /// A caller's identity.
    pub fn identity(&self, account: &str) -> IdentitySource {
        source(&self.authority, &self.id(account))
    }

    pub fn bundle(&self) -> String {
        self.authority.bundle().to_pem()
    }

    /// `identity` and `report` of a document; writes the token.
    pub fn document(&self, account: &str, folder: &Path, live: &Path) -> Value {
        let id = self.id(account).to_string();
        let token = folder.join("token");
        std::fs::write(&token, &id).unwrap();
        let td = &self.trust_domain;
        json!({
            "identity": {
                "trust_domain": td, "spiffe_id": id,
                "issuer_url": format!("https://{}", self.issuer), "issuer_id": format!("spiffe://{td}/ns/agentd/sa/r-issuer"),
                "token_file": token, "bundle_file": live.join("bundle.pem"),
            },
            "report": { "url": format!("https://{}", self.reports), "server_id": format!("spiffe://{td}/ns/agentd/sa/r-controllers") },
            "lifecycle": { "live_folder": live },
        })
    }

    pub fn issuer_url(&self) -> String {
        format!("https://{}", self.issuer)
    }

    pub fn issuer_id(&self) -> SpiffeId {
        id(&self.trust_domain, "agentd", "r-issuer")
    }

    /// The first report of all.
    pub async fn first_report(&self) -> Report {
        self.report(|_| true).await;
        self.received.borrow()[0].1.clone()
    }

    /// The newest report, of any time, that is as wanted.
    pub async fn report(&self, wanted: impl Fn(&Report) -> bool) -> (SpiffeId, Report) {
        let mut received = self.received.clone();
        let mut found = None;
        let wait = received.wait_for(|reports| {
            found = reports.iter().rev().find(|(_, report)| wanted(report)).cloned();
            found.is_some()
        });
        match tokio::time::timeout(crate::process::PATIENCE, wait).await {
            Ok(Ok(_)) => {}
            _ => panic!("no such report in {:#?}", self.received.borrow()),
        }
        found.unwrap()
    }
}

fn id(trust_domain: &TrustDomain, namespace: &str, account: &str) -> SpiffeId {
    SpiffeId::of_service_account(trust_domain, namespace, account).unwrap()
}

fn source(authority: &Authority, id: &SpiffeId) -> IdentitySource {
    let ttl = Duration::from_secs(3600);
    let source = IdentitySource::new(id.trust_domain().clone());
    source.set_bundle(authority.bundle().clone()).unwrap();
    source
        .set_svid(authority.own_svid(id, &[], ttl, jiff::Timestamp::now()).unwrap())
        .unwrap();
    source
}

#[derive(Clone)]
enum Endpoint {
    Issuer(Arc<Authority>, Duration),
    Reports(Arc<watch::Sender<Vec<(SpiffeId, Report)>>>),
}

impl Handler for Endpoint {
    type Body = Full<Bytes>;

    async fn handle(&self, peer: Option<Arc<SpiffeId>>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let answer = match self {
            Self::Issuer(authority, life) => {
                assert_eq!(parts.uri.path(), agentd_base::issuance::PATH);
                let asked: SvidRequest = serde_json::from_slice(&body).unwrap();
                let token = parts.headers[header::AUTHORIZATION].to_str().unwrap();
                let id: SpiffeId = token.strip_prefix("Bearer ").unwrap().parse().unwrap();
                let now = jiff::Timestamp::now();
                let signed = authority.sign_svid(&asked.csr, &id, &[], *life, now).unwrap();
                let answer = SvidResponse {
                    spiffe_id: id.to_string(),
                    certificates: signed.chain_pem,
                    bundle: authority.bundle().to_pem(),
                    expires_at: signed.expires_at,
                };
                serde_json::to_vec(&answer).unwrap()
            }
            Self::Reports(reports) => {
                assert_eq!(parts.uri.path(), agentd_base::report::PATH);
                let report: Report = serde_json::from_slice(&body).unwrap();
                reports.send_modify(|all| all.push(((*peer.unwrap()).clone(), report)));
                Vec::new()
            }
        };
        Response::new(Full::new(Bytes::from(answer)))
    }

    async fn revoked(&self, _: Option<Arc<SpiffeId>>) {
        std::future::pending().await
    }
}

/// Writes a folder as the kubelet mounts a ConfigMap, and swaps its content in one step.
pub fn mount(folder: &Path, dated: &str, files: &[(&str, &str)]) {
    std::fs::create_dir_all(folder.join(dated)).unwrap();
    for (name, content) in files {
        std::fs::write(folder.join(dated).join(name), content).unwrap();
        let _ = std::os::unix::fs::symlink(Path::new("..data").join(name), folder.join(name));
    }
    std::os::unix::fs::symlink(dated, folder.join("..data_tmp")).unwrap();
    std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
}
