//! An install of the chart's accounts and rights, the controllers that run in this process with them, and what stands
//! in for kubelet and pods.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use agentd_base::clock::Clock;
use agentd_base::drain::Drain;
use agentd_base::report::{self, Report};
use agentd_identity::{Authority, IdentitySource, SpiffeId, tls};
use agentd_operator::app::{AppError, Controllers, ControllersArgs};
use agentd_operator::authority_store;
use agentd_tests::cluster::{cluster, repository};
use agentd_tests::namespace::Namespace;
use agentd_tests::wait::{for_condition, resources};
use futures::TryStreamExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, MutexGuard, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::objects;

pub(crate) const RELEASE: &str = "plum";
/// What the controllers may take for anything that needs no clock.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// One operator at a time: two would write over each other in all namespaces.
static ONE: Mutex<()> = Mutex::const_new(());

/// The machine's clock, moved forward by tests.
#[derive(Debug, Default)]
pub(crate) struct Shifted(AtomicI64);

impl Shifted {
    pub(crate) fn forward(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for Shifted {
    fn now(&self) -> Timestamp {
        Timestamp::now() + SignedDuration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

/// Stands between the controllers and the API server, to cut their connections.
pub(crate) struct Relay {
    port: u16,
    cut: watch::Sender<()>,
}

impl Relay {
    async fn start(target: http::Uri) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (cut, cuts) = watch::channel(());
        let target = format!("{}:{}", target.host().unwrap(), target.port_u16().unwrap());
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (target, mut cuts) = (target.clone(), cuts.clone());
                // Cuts of before are not this connection's.
                cuts.mark_unchanged();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(target).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        Self { port, cut }
    }

    /// Ends every connection that is open.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(());
    }
}

/// An install with its controllers running.
pub(crate) struct Operator {
    pub(crate) client: Client,
    pub(crate) namespace: Namespace,
    pub(crate) clock: Arc<Shifted>,
    pub(crate) reports: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) relay: Relay,
    rbac: String,
    running: Option<(Drain, JoinHandle<Result<(), AppError>>)>,
    _one: MutexGuard<'static, ()>,
}

impl Operator {
    /// Installs and starts.
    pub(crate) async fn start() -> Self {
        let one = ONE.lock().await;
        install_crds();
        // What an earlier test left in a namespace that is still going: its controllers would count its writes.
        cluster()
            .kubectl([
                "delete",
                "agents.agentd.io,mcpservers.agentd.io",
                "--all",
                "--all-namespaces",
            ])
            .ok();
        let namespace = Namespace::new("op");
        let rbac = cluster()
            .helm([
                "template".into(),
                RELEASE.into(),
                repository().join("charts/agentd").into_os_string(),
                "--namespace".into(),
                namespace.name().into(),
                "--show-only".into(),
                OsString::from("templates/rbac.yaml"),
            ])
            .ok();
        cluster().apply(&rbac).ok();
        let nowhere = "127.0.0.1:0".parse().unwrap();
        let mut operator = Self {
            client: cluster().client().await,
            namespace,
            clock: Arc::default(),
            reports: nowhere,
            admin: nowhere,
            relay: Relay::start(cluster().config().await.cluster_url).await,
            rbac,
            running: None,
            _one: one,
        };
        operator.resume().await;
        operator
    }

    /// Starts the controllers, which are not running.
    pub(crate) async fn resume(&mut self) {
        let controllers = self.controllers(None).await;
        self.reports = controllers.reports_addr().unwrap();
        self.admin = controllers.admin_addr().unwrap();
        let drain = Drain::new();
        let task = tokio::spawn(controllers.serve(drain.watch()));
        self.running = Some((drain, task));
    }

    /// Controllers of this install, with their ports bound.
    pub(crate) async fn controllers(&self, pod_name: Option<&str>) -> Controllers {
        let any = "127.0.0.1:0".parse().unwrap();
        let args = ControllersArgs {
            client: self.own_client().await,
            release: RELEASE.to_owned(),
            namespace: self.namespace.name().to_owned(),
            trust_domain: None,
            cluster_domain: "cluster.local".to_owned(),
            agent_image: "registry.test/agentd:1".to_owned(),
            image_pull_policy: None,
            image_pull_secrets: Vec::new(),
            fs_group: true,
            svid_ttl: Duration::from_secs(3600),
            reports: any,
            admin: any,
            pod_name: pod_name.map(str::to_owned),
            clock: self.clock.clone(),
        };
        Controllers::bind(args).await.unwrap()
    }

    /// Ends the controllers as SIGTERM does.
    pub(crate) async fn halt(&mut self) {
        let (drain, task) = self.running.take().unwrap();
        assert!(drain.run(LIMIT).await, "the controllers end in time");
        task.await.unwrap().unwrap();
    }

    /// Ends the controllers as SIGKILL does.
    pub(crate) async fn kill(&mut self) {
        let (_drain, task) = self.running.take().unwrap();
        task.abort();
        let _ = task.await;
    }

    /// A client with the rights of the controllers.
    async fn own_client(&self) -> Client {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), self.namespace.name());
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(7200),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let account = format!("{RELEASE}-controllers");
        let answer = accounts
            .create_token_request(&account, &PostParams::default(), &request)
            .await
            .unwrap();
        let mut config = cluster().config().await;
        config.cluster_url = format!("https://127.0.0.1:{}", self.relay.port).parse().unwrap();
        config.auth_info = kube::config::AuthInfo {
            token: Some(answer.status.unwrap().token.into()),
            ..kube::config::AuthInfo::default()
        };
        Client::try_from(config).unwrap()
    }

    /// A page of the admin port.
    pub(crate) async fn page(&self, path: &str) -> (u16, String) {
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

    /// The sum of a counter over its labels, those whose line contains `part`.
    pub(crate) async fn counter(&self, name: &str, part: &str) -> f64 {
        let (_, text) = self.page("/metrics").await;
        let lines = text
            .lines()
            .filter(|line| line.starts_with(name) && line.contains(part));
        lines
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum()
    }

    /// The install's authority, once it is there.
    pub(crate) async fn authority(&self) -> Authority {
        let namespace = self.namespace.name();
        tokio::time::timeout(LIMIT, async {
            loop {
                if let Some(authority) = authority_store::load(&self.client, namespace, RELEASE)
                    .await
                    .unwrap()
                {
                    return authority;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the leader makes an authority")
    }

    /// Reports as the holder of a ServiceAccount would: the status code and what the operator said.
    pub(crate) async fn report_as(&self, namespace: &str, account: &str, report: &Report) -> (u16, String) {
        let authority = self.authority().await;
        let id = SpiffeId::of_service_account(authority.trust_domain(), namespace, account).unwrap();
        self.report_with(&authority, &id, report)
            .await
            .expect("the handshake succeeds")
    }

    /// The same with an SVID that `authority` signs.
    pub(crate) async fn report_with(
        &self,
        authority: &Authority,
        id: &SpiffeId,
        report: &Report,
    ) -> Result<(u16, String), std::io::Error> {
        self.report_to(self.reports, authority, id, report).await
    }

    /// The same at another port.
    pub(crate) async fn report_to(
        &self,
        address: SocketAddr,
        authority: &Authority,
        id: &SpiffeId,
        report: &Report,
    ) -> Result<(u16, String), std::io::Error> {
        let ours = self.authority().await;
        let server = format!("{RELEASE}-controllers");
        let server =
            SpiffeId::of_service_account(ours.trust_domain(), self.namespace.name(), &server).unwrap();
        let source = IdentitySource::new(authority.trust_domain().clone());
        // What the peer trusts does not matter to who it is.
        let bundle =
            agentd_identity::Bundle::new(authority.trust_domain().clone(), ours.bundle().roots().to_vec());
        source.set_bundle(bundle.unwrap()).unwrap();
        let svid = authority
            .own_svid(id, &[], Duration::from_secs(3600), Timestamp::now())
            .unwrap();
        let _ = source.set_svid(svid);
        let connector = TlsConnector::from(Arc::new(tls::client_config(&source, server)));
        let stream = TcpStream::connect(address).await?;
        let name = rustls_pki_types::ServerName::try_from("reports.test").unwrap();
        let stream = connector.connect(name, stream).await?;
        let broken = |error: hyper::Error| std::io::Error::other(error);
        let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        tokio::spawn(connection);
        let body = serde_json::to_vec(report).unwrap();
        let request = http::Request::post(report::PATH)
            .header("host", "x")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let response = send.send_request(request).await.map_err(broken)?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(broken)?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if let Some((_drain, task)) = self.running.take() {
            task.abort();
        }
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

fn install_crds() {
    static CRDS: std::sync::Once = std::sync::Once::new();
    CRDS.call_once(|| {
        let folder = repository().join("crds/generated").into_os_string();
        let arguments = ["apply", "--server-side", "--force-conflicts", "-f"].map(OsString::from);
        cluster().kubectl(arguments.into_iter().chain([folder])).ok();
        let crds = ["crd/agents.agentd.io", "crd/mcpservers.agentd.io"];
        cluster()
            .kubectl(["wait", "--for=condition=Established"].into_iter().chain(crds))
            .ok();
    });
}

/// Waits, by a watch, until `find` gives something for the objects of a kind.
pub(crate) async fn until<K, T>(
    api: Api<K>,
    selector: &str,
    what: &str,
    limit: Duration,
    mut find: impl FnMut(&BTreeMap<String, K>) -> Option<T>,
) -> T
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let config = watcher::Config::default().labels(selector);
    let mut events = Box::pin(watcher(api, config));
    let mut objects = BTreeMap::new();
    let mut filled = false;
    let waited = tokio::time::timeout(limit, async {
        while let Some(event) = events.try_next().await.unwrap() {
            match event {
                Event::Init => objects.clear(),
                Event::InitApply(object) | Event::Apply(object) => {
                    objects.insert(object.name_any(), object);
                }
                Event::InitDone => filled = true,
                Event::Delete(object) => {
                    objects.remove(&object.name_any());
                }
            }
            if filled && let Some(found) = find(&objects) {
                return Some(found);
            }
        }
        None
    })
    .await;
    match waited {
        Ok(Some(found)) => found,
        _ => panic!("not {what} in {limit:?}: {objects:#?}"),
    }
}

/// The pod of the newest revision of a workload: the one that is not going.
pub(crate) async fn pod_of(client: &Client, namespace: &str, label: &str, other_than: Option<&str>) -> Pod {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    until(pods, label, "a pod", LIMIT, |pods| {
        let newest = pods
            .values()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let newest = newest.filter(|pod| pod.uid().as_deref() != other_than);
        newest
            .max_by_key(|pod| (pod.creation_timestamp(), pod.name_any()))
            .cloned()
    })
    .await
}

/// Says what a kubelet would say of a pod whose containers run and are ready.
pub(crate) async fn serve(client: &Client, pod: &Pod) {
    set_status(
        client,
        pod,
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
    )
    .await;
}

/// Says what a kubelet would say of a pod.
pub(crate) async fn set_status(client: &Client, pod: &Pod, status: serde_json::Value) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap());
    let patch = Patch::Strategic(json!({ "status": status }));
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// An Agent that was brought up.
pub(crate) struct Up {
    pub(crate) pod: Pod,
    pub(crate) digest: String,
}

impl Operator {
    /// The digest that the status names, for the current generation.
    pub(crate) async fn digest(&self, namespace: &str, agent: &str, other_than: &str) -> String {
        let agents = resources(&self.client, namespace, "Agent");
        until(agents, "", "a digest", LIMIT, |agents| {
            let agent = agents.get(agent)?;
            let status = agent.data.get("status")?;
            let current = status.get("observedGeneration")?.as_i64() == agent.metadata.generation;
            let digest = status.get("configDigest")?.as_str()?;
            (current && digest != other_than).then(|| digest.to_owned())
        })
        .await
    }

    /// Lets the pod of an Agent serve and report, and waits for Ready.
    pub(crate) async fn bring_up(&self, namespace: &str, agent: &str, servers: Vec<report::Server>) -> Up {
        self.digest(namespace, agent, "").await;
        let agents = resources(&self.client, namespace, "Agent");
        let label = format!("agentd.io/agent={agent}");
        let pod = self
            .live(
                namespace,
                &label,
                &format!("{agent}-agent"),
                servers,
                &agents,
                agent,
            )
            .await;
        let digest = self.digest(namespace, agent, "").await;
        Up { pod, digest }
    }

    /// Lets the bridge of an McpServer serve and report, and waits for Ready.
    pub(crate) async fn bring_up_server(&self, namespace: &str, name: &str) -> Pod {
        let all = resources(&self.client, namespace, "McpServer");
        let label = format!("agentd.io/mcp-server={name}");
        let servers = vec![objects::server(name, report::ServerState::Connected)];
        self.live(namespace, &label, &format!("{name}-mcp"), servers, &all, name)
            .await
    }

    /// Does what a pod does, until `name` is Ready: it serves, and reports each document that it mounts.
    async fn live(
        &self,
        namespace: &str,
        label: &str,
        account: &str,
        servers: Vec<report::Server>,
        all: &Api<DynamicObject>,
        name: &str,
    ) -> Pod {
        let pod = pod_of(&self.client, namespace, label, None).await;
        serve(&self.client, &pod).await;
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={}", live_name(&pod)));
        let mut contents = Box::pin(watcher(maps, config).applied_objects());
        let mut ready = Box::pin(for_condition(all, name, "Ready", "True", "Serving", LIMIT));
        loop {
            // A report that was begun is said to its end: the operator drops a half-written one with its connection.
            tokio::select! {
                _ = &mut ready => return pod,
                map = contents.try_next() => {
                    let digest = agentd_base::digest::of_files(&map.unwrap().unwrap().data.unwrap());
                    let report = objects::report(&pod, &digest, servers.clone());
                    self.say(namespace, account, &report).await;
                }
            }
        }
    }

    /// Reports, again while the operator does not know the pod yet.
    pub(crate) async fn say(&self, namespace: &str, account: &str, report: &Report) {
        let said = tokio::time::timeout(LIMIT, async {
            loop {
                match self.report_as(namespace, account, report).await {
                    (200, _) => return,
                    (503, _) => tokio::task::yield_now().await,
                    other => panic!("{other:?}"),
                }
            }
        });
        said.await.expect("the report is taken");
    }
}

/// The digest of the live folder that a pod mounts.
pub(crate) async fn live_digest(client: &Client, namespace: &str, pod: &Pod) -> String {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = maps.get(&live_name(pod)).await.unwrap();
    agentd_base::digest::of_files(&map.data.unwrap())
}

/// The name of the live ConfigMap that a pod mounts.
pub(crate) fn live_name(pod: &Pod) -> String {
    let volumes = pod.spec.as_ref().unwrap().volumes.as_ref().unwrap();
    let maps = volumes.iter().filter_map(|volume| volume.config_map.as_ref());
    maps.map(|map| map.name.clone())
        .find(|name| name.ends_with("-live"))
        .expect("a live folder")
}
