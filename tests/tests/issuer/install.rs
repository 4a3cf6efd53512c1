//! An install of the chart's accounts and rights, and an issuer that runs in this process with them.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::clock::{self, Clock as _, SystemClock};
use agentd_base::drain::Drain;
use agentd_base::issuance::{self, Refusal, SvidRequest, SvidResponse};
use agentd_identity::request::new_key_and_csr;
use agentd_identity::tls::client_config_without_svid;
use agentd_identity::{Bundle, IdentitySource, SpiffeId, Svid};
use agentd_operator::authority_store::{self, Ensured};
use agentd_operator::issuer::{Issuer, IssuerArgs, IssuerError};
use agentd_tests::cluster::{cluster, repository};
use agentd_tests::namespace::Namespace;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use kube::Client;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::objects::token;

pub(crate) const RELEASE: &str = "plum";
const TTL: Duration = Duration::from_secs(3600);
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// An install of the chart's ServiceAccounts and rights, without its Deployments.
pub(crate) struct Install {
    pub(crate) namespace: Namespace,
    pub(crate) client: Client,
    pub(crate) rbac: String,
}

impl Install {
    pub(crate) async fn new() -> Self {
        static CRDS: std::sync::Once = std::sync::Once::new();
        CRDS.call_once(|| {
            let _ = cluster()
                .kubectl(
                    ["apply", "--server-side", "-f"]
                        .map(std::ffi::OsString::from)
                        .into_iter()
                        .chain([repository().join("crds/generated").into()]),
                )
                .ok();
            let _ = cluster()
                .kubectl([
                    "wait",
                    "--for=condition=Established",
                    "crd/agents.agentd.io",
                    "crd/mcpservers.agentd.io",
                ])
                .ok();
        });
        let namespace = Namespace::new("issuer");
        let chart = repository().join("charts/agentd");
        let rbac = cluster()
            .helm([
                "template".as_ref(),
                RELEASE.as_ref(),
                chart.as_os_str(),
                "--namespace".as_ref(),
                namespace.name().as_ref(),
                "--show-only".as_ref(),
                "templates/rbac.yaml".as_ref(),
            ])
            .ok();
        let _ = cluster().apply(&rbac).ok();
        Self {
            namespace,
            client: cluster().client().await,
            rbac,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.namespace.name()
    }

    pub(crate) fn audience(&self) -> String {
        format!("agentd:{}/{RELEASE}", self.name())
    }

    /// A client with the rights of `<release>-<component>`.
    pub(crate) async fn client_of(&self, component: &str) -> Client {
        let account = format!("{RELEASE}-{component}");
        let token = token(&self.client, self.name(), &account, None, None).await;
        let mut config = cluster().config().await;
        config.auth_info = kube::config::AuthInfo {
            token: Some(token.into()),
            ..kube::config::AuthInfo::default()
        };
        Client::try_from(config).unwrap()
    }

    pub(crate) async fn bind(&self) -> Issuer {
        let any = "127.0.0.1:0".parse().unwrap();
        let args = IssuerArgs {
            client: self.client_of("issuer").await,
            release: RELEASE.to_owned(),
            namespace: self.name().to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            svid_ttl: TTL,
            listen: any,
            admin: any,
            pod_name: None,
            clock: clock::system(),
        };
        Issuer::bind(args).await.unwrap()
    }

    pub(crate) async fn ensure(&self) -> authority_store::Ensured {
        let controllers = self.client_of("controllers").await;
        authority_store::ensure(&controllers, self.name(), RELEASE, None, SystemClock.now())
            .await
            .unwrap()
    }

    /// A running issuer with an authority.
    pub(crate) async fn start(&self) -> Running {
        let Ensured { authority, .. } = self.ensure().await;
        self.serve(self.bind().await, authority.bundle().clone()).await
    }

    pub(crate) async fn serve(&self, issuer: Issuer, bundle: Bundle) -> Running {
        let (address, admin) = (issuer.local_addr().unwrap(), issuer.admin_addr().unwrap());
        let drain = Drain::new();
        let serving = tokio::spawn(issuer.serve(drain.watch()));
        let id =
            SpiffeId::of_service_account(bundle.trust_domain(), self.name(), &format!("{RELEASE}-issuer"))
                .unwrap();
        let running = Running {
            address,
            admin,
            id,
            bundle,
            drain,
            serving,
        };
        running.ready().await;
        running
    }
}

impl Drop for Install {
    fn drop(&mut self) {
        // What is not in the namespace.
        for kind in ["clusterrole", "clusterrolebinding"] {
            let names = self
                .rbac
                .lines()
                .filter_map(|line| line.strip_prefix("  name: agentd:"));
            for name in names.collect::<std::collections::BTreeSet<_>>() {
                let _ = cluster().kubectl(["delete", kind, &format!("agentd:{name}"), "--ignore-not-found"]);
            }
        }
    }
}

pub(crate) struct Running {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) admin: std::net::SocketAddr,
    pub(crate) id: SpiffeId,
    pub(crate) bundle: Bundle,
    pub(crate) drain: Drain,
    pub(crate) serving: JoinHandle<Result<(), IssuerError>>,
}

impl Running {
    pub(crate) async fn stop(self) {
        assert!(self.drain.run(LIMIT).await);
        self.serving.await.unwrap().unwrap();
    }

    pub(crate) async fn admin(&self, path: &str) -> (u16, String) {
        let stream = TcpStream::connect(self.admin).await.unwrap();
        let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let request = http::Request::get(path)
            .header("host", "x")
            .body(Full::<Bytes>::default())
            .unwrap();
        let response = send.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    pub(crate) async fn ready(&self) {
        let ready = async {
            while self.admin("/readyz").await.0 != 200 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, ready)
            .await
            .expect("the issuer becomes ready");
    }

    /// Asks as `agentd` does: TLS to an exact SPIFFE ID, the token as bearer.
    pub(crate) async fn ask(&self, token: &str) -> Result<(SvidResponse, Svid), (u16, Refusal)> {
        let source = IdentitySource::new(self.bundle.trust_domain().clone());
        source.set_bundle(self.bundle.clone()).unwrap();
        let connector = TlsConnector::from(Arc::new(client_config_without_svid(&source, self.id.clone())));
        let stream = TcpStream::connect(self.address).await.unwrap();
        let stream = connector
            .connect("issuer".try_into().unwrap(), stream)
            .await
            .unwrap();
        let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let (key, csr) = new_key_and_csr().unwrap();
        let body = serde_json::to_vec(&SvidRequest { csr }).unwrap();
        let request = http::Request::post(issuance::PATH)
            .header("host", "x")
            .header("authorization", format!("Bearer {token}"))
            .body(Full::<Bytes>::from(body))
            .unwrap();
        let response = send.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        if status != 200 {
            return Err((status, serde_json::from_slice(&body).unwrap()));
        }
        let answer: SvidResponse = serde_json::from_slice(&body).unwrap();
        let now = SystemClock.now();
        let svid = Svid::from_pem(answer.certificates.as_bytes(), key.as_bytes(), &self.bundle, now).unwrap();
        Ok((answer, svid))
    }

    #[track_caller]
    pub(crate) fn refused(result: Result<(SvidResponse, Svid), (u16, Refusal)>) -> (u16, String, String) {
        let (status, refusal) = result.expect_err("a refusal");
        (status, refusal.reason, refusal.message)
    }
}
