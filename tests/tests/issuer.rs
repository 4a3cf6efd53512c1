//! The issuer against a real API server: real tokens, real owner chains made by the real controllers, with the rights
//! that the chart gives it. No node is needed: a pod has its identity claims before it runs.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::clock::{self, Clock as _, SystemClock};
use agentd_base::drain::Drain;
use agentd_base::issuance::{self, Refusal, SvidRequest, SvidResponse, reason};
use agentd_identity::request::new_key_and_csr;
use agentd_identity::tls::client_config_without_svid;
use agentd_identity::{Authority, Bundle, IdentitySource, SpiffeId, Svid};
use agentd_operator::authority_store::{self, StoreError};
use agentd_operator::issuer::{Issuer, IssuerArgs, IssuerError};
use agentd_tests::cluster::{cluster, repository};
use agentd_tests::command::run;
use agentd_tests::namespace::Namespace;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

const RELEASE: &str = "plum";
const TTL: Duration = Duration::from_secs(3600);
const LIMIT: Duration = Duration::from_secs(30);

/// An install of the chart's ServiceAccounts and rights, without its Deployments.
struct Install {
    namespace: Namespace,
    client: Client,
    rbac: String,
}

impl Install {
    async fn new() -> Self {
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

    fn name(&self) -> &str {
        self.namespace.name()
    }

    fn audience(&self) -> String {
        format!("agentd:{}/{RELEASE}", self.name())
    }

    /// A client with the rights of `<release>-<component>`.
    async fn client_of(&self, component: &str) -> Client {
        let account = format!("{RELEASE}-{component}");
        let token = token(&self.client, self.name(), &account, None, None).await;
        let mut config = cluster().config().await;
        config.auth_info = kube::config::AuthInfo {
            token: Some(token.into()),
            ..kube::config::AuthInfo::default()
        };
        Client::try_from(config).unwrap()
    }

    async fn bind(&self) -> Issuer {
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

    async fn ensure(&self) -> authority_store::Ensured {
        let controllers = self.client_of("controllers").await;
        authority_store::ensure(&controllers, self.name(), RELEASE, None, SystemClock.now())
            .await
            .unwrap()
    }

    /// A running issuer with an authority.
    async fn start(&self) -> Running {
        let Ensured { authority, .. } = self.ensure().await;
        self.serve(self.bind().await, authority.bundle().clone()).await
    }

    async fn serve(&self, issuer: Issuer, bundle: Bundle) -> Running {
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

use authority_store::Ensured;

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

struct Running {
    address: std::net::SocketAddr,
    admin: std::net::SocketAddr,
    id: SpiffeId,
    bundle: Bundle,
    drain: Drain,
    serving: JoinHandle<Result<(), IssuerError>>,
}

impl Running {
    async fn stop(self) {
        assert!(self.drain.run(LIMIT).await);
        self.serving.await.unwrap().unwrap();
    }

    async fn admin(&self, path: &str) -> (u16, String) {
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

    async fn ready(&self) {
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
    async fn ask(&self, token: &str) -> Result<(SvidResponse, Svid), (u16, Refusal)> {
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
    fn refused(result: Result<(SvidResponse, Svid), (u16, Refusal)>) -> (u16, String, String) {
        let (status, refusal) = result.expect_err("a refusal");
        (status, refusal.reason, refusal.message)
    }
}

/// A token of a ServiceAccount; for the API server itself when no audience is given.
async fn token(
    client: &Client,
    namespace: &str,
    account: &str,
    audience: Option<&str>,
    pod: Option<&Pod>,
) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: audience.map(str::to_owned).into_iter().collect(),
            expiration_seconds: Some(3600),
            bound_object_ref: pod.map(|pod| BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
            }),
        },
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .unwrap();
    answer.status.unwrap().token
}

/// The first pod with a label; controllers make it when they get to it.
async fn pod_of(client: &Client, namespace: &str, app: &str) -> Pod {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut seen =
        Box::pin(watcher(pods, watcher::Config::default().labels(&format!("app={app}"))).applied_objects());
    let pod = tokio::time::timeout(LIMIT, seen.next())
        .await
        .expect("a pod appears");
    pod.unwrap().unwrap()
}

const POD_SPEC: &str = r"
    serviceAccountName: ACCOUNT
    securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
    containers:
      - name: main
        image: registry.local/nothing:1
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
";

fn pod_spec(account: &str, indent: usize) -> String {
    let spec = POD_SPEC.replace("ACCOUNT", account);
    spec.lines()
        .map(|line| format!("{}{line}\n", " ".repeat(indent)))
        .collect()
}

fn account(name: &str, label: Option<&str>) -> String {
    let labels = label
        .map(|label| format!("  labels: {{{label}}}\n"))
        .unwrap_or_default();
    format!(
        "---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {name}\n  namespace: NAMESPACE\n{labels}"
    )
}

fn agent(name: &str, account: Option<&str>) -> String {
    let account = account
        .map(|name| format!("  serviceAccount: {{name: {name}}}\n"))
        .unwrap_or_default();
    format!(
        "---\napiVersion: agentd.io/v1alpha1\nkind: Agent\nmetadata: {{name: {name}, namespace: NAMESPACE}}\nspec:\n  \
         instruction: Help.\n  intelligence:\n    endpoints: [{{name: m, url: 'https://model.example/v1'}}]\n    model: m\n  \
         run: {{mode: Service}}\n{account}"
    )
}

fn server(name: &str) -> String {
    format!(
        "---\napiVersion: agentd.io/v1alpha1\nkind: McpServer\nmetadata: {{name: {name}, namespace: NAMESPACE}}\nspec:\n  \
         deployment: {{image: 'registry.local/nothing:1', transport: http, port: 8080}}\n"
    )
}

/// What the operator makes for an Agent or McpServer, as far as the issuer looks at it.
fn made(kind: &str, object: &DynamicObject, name: &str, account: &str) -> String {
    let owner = format!(
        "ownerReferences: [{{apiVersion: agentd.io/v1alpha1, kind: {kind}, name: {}, uid: {}, controller: true}}]",
        object.name_any(),
        object.uid().unwrap()
    );
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: NAMESPACE\n  {owner}\nspec:\n  \
         selector: {{app: {name}}}\n  ports: [{{port: 8443}}]\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  \
         name: {name}\n  namespace: NAMESPACE\n  {owner}\nspec:\n  selector: {{matchLabels: {{app: {name}}}}}\n  \
         template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:{}",
        pod_spec(account, 2)
    )
}

fn bare_pod(name: &str, account: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: NAMESPACE, labels: {{app: {name}}}}}\n\
         spec:{}",
        pod_spec(account, 0)
    )
}

async fn object(client: &Client, namespace: &str, kind: &str, name: &str) -> DynamicObject {
    agentd_tests::wait::resources(client, namespace, kind)
        .get(name)
        .await
        .unwrap()
}

/// URI and DNS names of the leaf as OpenSSL prints them, after its strictest verification.
fn judged_by_openssl(answer: &SvidResponse) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), &answer.bundle).unwrap();
    std::fs::write(folder.path().join("leaf.pem"), &answer.certificates).unwrap();
    for purpose in ["sslserver", "sslclient"] {
        let mut command = Command::new("openssl");
        command.current_dir(folder.path());
        run(command.args([
            "verify",
            "-x509_strict",
            "-purpose",
            purpose,
            "-CAfile",
            "ca.pem",
            "leaf.pem",
        ]))
        .ok();
    }
    let mut command = Command::new("openssl");
    command.current_dir(folder.path());
    run(command.args(["x509", "-in", "leaf.pem", "-noout", "-ext", "subjectAltName"])).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ca_is_made_once_and_the_issuer_waits_for_it() {
    let install = Install::new().await;
    let issuer = install.bind().await;
    let (admin, drain) = (issuer.admin_addr().unwrap(), Drain::new());
    let address = issuer.local_addr().unwrap();
    let serving = tokio::spawn(issuer.serve(drain.watch()));
    // Until there is an authority the ID of the issuer is not known either: any will do here.
    let unknown = Authority::generate(&"unknown".parse().unwrap(), SystemClock.now()).unwrap();
    let mut running = Running {
        address,
        admin,
        id: "spiffe://unknown/x".parse().unwrap(),
        bundle: unknown.bundle().clone(),
        drain,
        serving,
    };
    let (status, cause) = running.admin("/readyz").await;
    assert_eq!(status, 503);
    assert!(
        cause.contains(&format!("Secret {}/{RELEASE}-ca", install.name())),
        "{cause}"
    );
    assert_eq!(running.admin("/healthz").await.0, 200);

    let first = install.ensure().await;
    assert!(first.made && !first.lost);
    assert!(
        first
            .authority
            .trust_domain()
            .as_str()
            .ends_with(".agentd.internal")
    );
    running.ready().await;
    running.id =
        SpiffeId::of_service_account(first.authority.trust_domain(), install.name(), "plum-issuer").unwrap();
    running.bundle = first.authority.bundle().clone();

    let again = install.ensure().await;
    assert!(!again.made);
    assert_eq!(again.authority.bundle(), first.authority.bundle());
    let other = "other.example".parse().unwrap();
    let admin_client = install.client.clone();
    let refused = authority_store::ensure(
        &admin_client,
        install.name(),
        RELEASE,
        Some(&other),
        SystemClock.now(),
    )
    .await;
    assert!(matches!(refused, Err(StoreError::TrustDomainChanged { .. })));

    // Lost: the trust domain is taken from what is published, and the running issuer takes up the new root.
    let published = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: agentd-bundle, namespace: NAMESPACE}}\ndata: {{trust-domain: {}}}\n",
        first.authority.trust_domain()
    );
    install.namespace.apply(&published);
    let secrets: Api<Secret> = Api::namespaced(install.client.clone(), install.name());
    secrets.delete("plum-ca", &DeleteParams::default()).await.unwrap();
    let next = install.ensure().await;
    assert!(next.made && next.lost);
    assert_eq!(next.authority.trust_domain(), first.authority.trust_domain());
    assert_ne!(next.authority.bundle(), first.authority.bundle());
    let source = IdentitySource::new(next.authority.trust_domain().clone());
    source.set_bundle(next.authority.bundle().clone()).unwrap();
    let connector = TlsConnector::from(Arc::new(client_config_without_svid(&source, running.id.clone())));
    let takes_up = async {
        loop {
            let stream = TcpStream::connect(running.address).await.unwrap();
            if connector
                .connect("issuer".try_into().unwrap(), stream)
                .await
                .is_ok()
            {
                break;
            }
        }
    };
    tokio::time::timeout(LIMIT, takes_up)
        .await
        .expect("the new root is taken up");
    let (_, metrics) = running.admin("/metrics").await;
    let expiry = format!(
        "agentd_issuer_root_expiry_timestamp_seconds {}",
        next.authority.not_after().as_second()
    );
    assert!(metrics.contains(&expiry), "{metrics}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_agents_and_servers_get_their_identity_and_names() {
    let install = Install::new().await;
    let running = install.start().await;
    let (client, space) = (&install.client, Namespace::new("workload"));
    space.apply(
        &[
            agent("triage", None),
            server("fs"),
            account("triage-agent", None),
            account("fs-mcp", None),
        ]
        .concat(),
    );
    for (kind, name, account) in [("Agent", "triage", "triage-agent"), ("McpServer", "fs", "fs-mcp")] {
        let object = object(client, space.name(), kind, name).await;
        space.apply(&made(kind, &object, account, account));
        let pod = pod_of(client, space.name(), account).await;
        let token = token(
            client,
            space.name(),
            account,
            Some(&install.audience()),
            Some(&pod),
        )
        .await;
        let (answer, svid) = running.ask(&token).await.unwrap();
        let td = running.bundle.trust_domain();
        assert_eq!(
            answer.spiffe_id,
            format!("spiffe://{td}/ns/{}/sa/{account}", space.name())
        );
        assert_eq!(svid.id().to_string(), answer.spiffe_id);
        let names = judged_by_openssl(&answer);
        let host = format!("{account}.{}.svc", space.name());
        let expected = format!("URI:{}, DNS:{host}, DNS:{host}.cluster.local\n", answer.spiffe_id);
        assert!(names.ends_with(&expected), "{names}");
        // Renewal is the same request once more.
        assert!(running.ask(&token).await.is_ok());
    }
    let (_, metrics) = running.admin("/metrics").await;
    assert!(
        metrics.contains("agentd_issuer_requests_total{outcome=\"workload\"} 4"),
        "{metrics}"
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_labelled_account_gets_an_identity_that_third_parties_read() {
    let install = Install::new().await;
    let running = install.start().await;
    let (client, space) = (&install.client, Namespace::new("caller"));
    space.apply(&(account("alice", Some("agentd.io/caller: 'true'")) + &bare_pod("script", "alice")));
    let pod = pod_of(client, space.name(), "script").await;
    for pod in [None, Some(&pod)] {
        let token = token(client, space.name(), "alice", Some(&install.audience()), pod).await;
        let (answer, svid) = running.ask(&token).await.unwrap();
        let id = format!(
            "spiffe://{}/ns/{}/sa/alice",
            running.bundle.trust_domain(),
            space.name()
        );
        assert_eq!(answer.spiffe_id, id);
        assert!(judged_by_openssl(&answer).ends_with(&format!("URI:{id}\n")));
        parsed_by_py_spiffe(&answer, &svid, &id);
    }
    running.stop().await;
}

fn parsed_by_py_spiffe(answer: &SvidResponse, svid: &Svid, id: &str) {
    let python = std::env::var_os("TEST_PYTHON").unwrap_or_else(|| {
        let folder = run(Command::new(repository().join("tests/scripts/peers.sh")).arg("python")).ok();
        std::path::Path::new(folder.trim())
            .join("bin/python")
            .into_os_string()
    });
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("svid.pem", &answer.certificates),
        ("key.pem", &*svid.key_pem()),
        ("bundle.pem", &answer.bundle),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let script = "import sys\nfrom spiffe import TrustDomain, X509Bundle, X509Svid\n\
                  svid = X509Svid.parse(open('svid.pem', 'rb').read(), open('key.pem', 'rb').read())\n\
                  domain = TrustDomain(svid.spiffe_id.trust_domain.name)\n\
                  X509Bundle.parse(domain, open('bundle.pem', 'rb').read())\nprint(svid.spiffe_id)\n";
    let shown = run(Command::new(python)
        .current_dir(folder.path())
        .args(["-c", script]))
    .ok();
    assert_eq!(shown.trim(), id);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_issuer_refuses() {
    let install = Install::new().await;
    let running = install.start().await;
    let (client, space) = (&install.client, Namespace::new("refused"));
    let audience = install.audience();
    let audience = Some(audience.as_str());
    space.apply(
        &[
            agent("triage", None),
            agent("borrower", Some("lent")),
            account("triage-agent", None),
            account("lent", Some("agentd.io/caller: 'true'")),
            account("plain", None),
            account("alice", Some("agentd.io/caller: 'true'")),
        ]
        .concat(),
    );
    let name = space.name();
    let ask = async |token: String| Running::refused(running.ask(&token).await);

    // A wrong audience: another install's, and the API server's own.
    for wrong in [Some("agentd:elsewhere/plum"), None] {
        let (status, reason, message) = ask(token(client, name, "alice", wrong, None).await).await;
        assert_eq!(
            (status, reason.as_str()),
            (401, reason::TOKEN_INVALID),
            "{message}"
        );
        assert!(message.contains(audience.unwrap()), "{message}");
    }
    // No token, and one that nobody signed.
    for text in ["x", "e30.e30.e30"] {
        assert_eq!(ask(text.to_owned()).await.1, reason::TOKEN_INVALID);
    }
    // An unlabelled ServiceAccount.
    let (status, reason, message) = ask(token(client, name, "plain", audience, None).await).await;
    assert_eq!((status, reason.as_str()), (403, reason::CALLER_NOT_LABELLED));
    assert!(
        message.contains(&format!("kubectl label serviceaccount plain -n {name}")),
        "{message}"
    );
    // A token with no pod claims for an Agent's ServiceAccount.
    let (status, reason, message) = ask(token(client, name, "triage-agent", audience, None).await).await;
    assert_eq!((status, reason.as_str()), (403, reason::POD_CLAIMS_MISSING));
    assert!(message.contains("Agent triage"), "{message}");
    // A labelled one that an Agent uses: the label is ignored, and an Event says so.
    let (status, reason, message) = ask(token(client, name, "lent", audience, None).await).await;
    assert_eq!((status, reason.as_str()), (403, reason::POD_CLAIMS_MISSING));
    assert!(message.contains("Agent borrower"), "{message}");
    let events: Api<Event> = Api::namespaced(client.clone(), name);
    let mut events = Box::pin(watcher(events, watcher::Config::default()).applied_objects());
    let event = async {
        loop {
            let event = events.next().await.unwrap().unwrap();
            if event.reason.as_deref() == Some("CallerLabelIgnored") {
                return event;
            }
        }
    };
    let event = tokio::time::timeout(LIMIT, event).await.expect("an Event");
    assert_eq!(event.regarding.unwrap().name.as_deref(), Some("lent"));

    // A foreign Pod that names an Agent's ServiceAccount: bare, and one of a foreign Deployment.
    space.apply(&bare_pod("foreign", "triage-agent"));
    let foreign = pod_of(client, name, "foreign").await;
    let foreign_token = token(client, name, "triage-agent", audience, Some(&foreign)).await;
    let (status, reason, message) = ask(foreign_token.clone()).await;
    assert_eq!((status, reason.as_str()), (403, reason::FOREIGN_POD));
    assert!(
        message.contains("Pod foreign is controlled by no Agent or McpServer"),
        "{message}"
    );
    let deployment = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: triage-agent, namespace: NAMESPACE}}\nspec:\n  selector: \
         {{matchLabels: {{app: mine}}}}\n  template:\n    metadata: {{labels: {{app: mine}}}}\n    spec:{}",
        pod_spec("triage-agent", 2)
    );
    space.apply(&deployment);
    let foreign = pod_of(client, name, "mine").await;
    let (_, reason, message) = ask(token(client, name, "triage-agent", audience, Some(&foreign)).await).await;
    assert_eq!(reason, reason::FOREIGN_POD);
    assert!(
        message.contains("Deployment triage-agent is controlled by no Agent or McpServer"),
        "{message}"
    );

    // A token of a deleted pod, though the API server may still call it good.
    space.apply(&bare_pod("shortlived", "alice"));
    let pod = pod_of(client, name, "shortlived").await;
    let of_pod = token(client, name, "alice", audience, Some(&pod)).await;
    assert!(running.ask(&of_pod).await.is_ok());
    let pods: Api<Pod> = Api::namespaced(client.clone(), name);
    pods.delete("shortlived", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    let (status, reason, message) = ask(of_pod).await;
    assert!(
        (status, reason.as_str()) == (403, reason::POD_GONE)
            || (status, reason.as_str()) == (401, reason::TOKEN_INVALID),
        "{status} {reason} {message}"
    );

    // A token of a deleted ServiceAccount, also when its name is taken again.
    let old = token(client, name, "alice", audience, None).await;
    assert!(running.ask(&old).await.is_ok());
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    accounts.delete("alice", &DeleteParams::default()).await.unwrap();
    space.apply(&account("alice", Some("agentd.io/caller: 'true'")));
    let (status, reason, message) = ask(old).await;
    assert!(
        (status, reason.as_str()) == (403, reason::SERVICE_ACCOUNT_GONE)
            || (status, reason.as_str()) == (401, reason::TOKEN_INVALID),
        "{status} {reason} {message}"
    );
    assert!(
        running
            .ask(&token(client, name, "alice", audience, None).await)
            .await
            .is_ok()
    );

    let (_, metrics) = running.admin("/metrics").await;
    let count = |outcome: &str| {
        let line = format!("agentd_issuer_requests_total{{outcome=\"{outcome}\"}} ");
        metrics
            .lines()
            .find_map(|each| each.strip_prefix(&line)?.parse::<u64>().ok())
            .unwrap_or_default()
    };
    assert_eq!(
        (count("caller"), count(reason::FOREIGN_POD), count("workload")),
        (3, 2, 0),
        "{metrics}"
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_goes_takes_its_identity_along() {
    let install = Install::new().await;
    let running = install.start().await;
    let (client, space) = (&install.client, Namespace::new("gone"));
    space.apply(&(agent("triage", None) + &account("triage-agent", None)));
    let found = object(client, space.name(), "Agent", "triage").await;
    space.apply(&made("Agent", &found, "triage-agent", "triage-agent"));
    let pod = pod_of(client, space.name(), "triage-agent").await;
    let token = token(
        client,
        space.name(),
        "triage-agent",
        Some(&install.audience()),
        Some(&pod),
    )
    .await;
    assert!(running.ask(&token).await.is_ok());

    // A Service of that name that somebody else made gives no DNS name.
    let _ = space.kubectl(&["delete", "service", "triage-agent"]).ok();
    space.apply("apiVersion: v1\nkind: Service\nmetadata: {name: triage-agent, namespace: NAMESPACE}\nspec: {ports: [{port: 1}]}\n");
    let (answer, _) = running.ask(&token).await.unwrap();
    assert!(!judged_by_openssl(&answer).contains("DNS"));

    // The Agent itself goes, its pod is still there: a new Agent of the same name is another object.
    let _ = space
        .kubectl(&["delete", "agent", "triage", "--cascade=orphan"])
        .ok();
    space.apply(&agent("triage", None));
    let (status, reason, message) = Running::refused(running.ask(&token).await);
    assert_eq!((status, reason.as_str()), (403, reason::FOREIGN_POD), "{message}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_issuer_may_do_no_more_than_it_needs() {
    let install = Install::new().await;
    let account = format!("system:serviceaccount:{}:{RELEASE}-issuer", install.name());
    let may = |verb: &str, resource: &str, namespace: &str| {
        let asked = cluster().kubectl([
            "auth",
            "can-i",
            verb,
            resource,
            "--namespace",
            namespace,
            "--as",
            &account,
        ]);
        asked.stdout.trim() == "yes"
    };
    let own = install.name();
    let rights: BTreeMap<_, _> = [
        ("its CA", may("get", "secrets/plum-ca", own)),
        ("other Secrets", may("get", "secrets/other", own)),
        ("all Secrets", may("list", "secrets", own)),
        ("the same elsewhere", may("get", "secrets/plum-ca", "default")),
        ("writing its CA", may("update", "secrets/plum-ca", own)),
        ("making pods", may("create", "pods", own)),
        ("making tokens", may("create", "serviceaccounts/token", own)),
    ]
    .into();
    let expected: BTreeMap<_, _> = [
        ("its CA", true),
        ("other Secrets", false),
        ("all Secrets", false),
        ("the same elsewhere", false),
        ("writing its CA", false),
        ("making pods", false),
        ("making tokens", false),
    ]
    .into();
    assert_eq!(rights, expected);
}
