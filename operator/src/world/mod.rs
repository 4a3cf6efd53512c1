//! What the controllers know of the cluster: one watch per kind for the whole process, a store behind each, and the
//! routes from a change to the objects that it concerns.
//!
//! Guarantees: nothing of a Secret is watched; of what only needs to exist (ConfigMaps, Services, ServiceAccounts,
//! claims, NetworkPolicies, Deployments) only metadata is held, unfiltered, so that foreign objects with our names are
//! seen; pods and ReplicaSets are held trimmed, and only those that carry our label. A re-list without news wakes
//! nobody, and neither does a change of a status alone, but for the facts that another kind reads.

use std::sync::Arc;

use agentd_crds::{Agent, McpServer};
use futures::channel::mpsc;
use futures::{SinkExt as _, StreamExt as _};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::controllers::callers;
use crate::{labels, names};

mod change;
mod route;

use change::{Change, Tracker};
pub use route::Target;

/// Requests that may wait in a queue before the watches slow down. The queue is drained into a set at once, so this
/// only has to cover a burst.
const QUEUE: usize = 1024;

/// An Agent as it is watched: one that cannot be read stops nothing.
pub type GuardedAgent = DeserializeGuard<Agent>;
/// An McpServer as it is watched.
pub type GuardedServer = DeserializeGuard<McpServer>;
type Metadata<K> = Store<PartialObjectMeta<K>>;

/// The stores.
#[derive(Debug, Clone)]
pub struct World {
    /// All Agents.
    pub agents: Store<GuardedAgent>,
    /// All McpServers.
    pub servers: Store<GuardedServer>,
    /// ReplicaSets of ours.
    pub replica_sets: Store<ReplicaSet>,
    /// Pods of ours.
    pub pods: Store<Pod>,
    /// All ConfigMaps.
    pub config_maps: Metadata<ConfigMap>,
    /// All ServiceAccounts.
    pub accounts: Metadata<ServiceAccount>,
    /// All Services.
    pub services: Metadata<Service>,
    /// All claims.
    pub claims: Metadata<PersistentVolumeClaim>,
    /// All NetworkPolicies.
    pub policies: Metadata<NetworkPolicy>,
    /// All Deployments.
    pub deployments: Metadata<Deployment>,
    /// The issuer's Deployment, as (namespace, name).
    pub issuer: (String, String),
}

/// Where requests to reconcile go. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Requests {
    agents: mpsc::Sender<ObjectRef<GuardedAgent>>,
    servers: mpsc::Sender<ObjectRef<GuardedServer>>,
    bundles: mpsc::Sender<()>,
}

/// The other ends.
#[derive(Debug)]
pub struct Queues {
    /// Agents to reconcile.
    pub agents: mpsc::Receiver<ObjectRef<GuardedAgent>>,
    /// McpServers to reconcile.
    pub servers: mpsc::Receiver<ObjectRef<GuardedServer>>,
    /// The bundles have to be looked at.
    pub bundles: mpsc::Receiver<()>,
}

impl Requests {
    /// New queues.
    pub fn new() -> (Self, Queues) {
        let (agents, agent_queue) = mpsc::channel(QUEUE);
        let (servers, server_queue) = mpsc::channel(QUEUE);
        // One waiting request is enough: it is about all of them.
        let (bundles, bundle_queue) = mpsc::channel(0);
        let queues = Queues {
            agents: agent_queue,
            servers: server_queue,
            bundles: bundle_queue,
        };
        (
            Self {
                agents,
                servers,
                bundles,
            },
            queues,
        )
    }

    /// Asks for a reconcile. Waits while the queue is full; nobody listening is no error.
    pub async fn send(&mut self, target: Target) {
        match target {
            Target::Agent { namespace, name } => {
                let _ = self.agents.send(ObjectRef::new(&name).within(&namespace)).await;
            }
            Target::McpServer { namespace, name } => {
                let _ = self.servers.send(ObjectRef::new(&name).within(&namespace)).await;
            }
            Target::Bundles => {
                let _ = self.bundles.try_send(());
            }
        }
    }
}

/// The watches of a world.
#[derive(Debug)]
pub struct Watches(JoinSet<()>);

impl Watches {
    /// Resolves when a watch ended, which none does by itself.
    pub async fn ended(&mut self) {
        let _ = self.0.join_next().await;
    }
}

impl World {
    /// Starts the watches. They end when [`Watches`] is dropped.
    pub fn watch(client: &Client, issuer: (String, String), requests: &Requests) -> (Arc<Self>, Watches) {
        let mut trackers = Trackers::default();
        let world = Arc::new(trackers.world(issuer));
        let ours = watcher::Config::default().labels(&format!(
            "{}={}",
            labels::MANAGED_BY,
            labels::MANAGED_BY_VALUE
        ));
        let all = watcher::Config::default();
        let mut watches = JoinSet::new();
        let mut start = Start {
            client,
            world: &world,
            requests,
            watches: &mut watches,
        };
        start.kind(trackers.agents, all.clone(), untouched, route::of_agent);
        start.kind(trackers.servers, all.clone(), untouched, route::of_server);
        start.kind(trackers.replica_sets, ours.clone(), untouched, route::of_labelled);
        start.kind(trackers.pods, ours, trim_pod, route::of_labelled);
        start.kind(trackers.config_maps, all.clone(), trim, route::of_config_map);
        start.kind(trackers.accounts, all.clone(), trim, route::of_account);
        start.kind(trackers.services, all.clone(), trim, route::of_named);
        start.kind(trackers.claims, all.clone(), trim, route::of_claim);
        start.kind(trackers.policies, all.clone(), trim, route::of_named);
        start.kind(trackers.deployments, all, trim, route::of_deployment);
        (world, Watches(watches))
    }

    /// Resolves when every store holds what the API server had when its watch began. False when a watch is gone.
    pub async fn ready(&self) -> bool {
        let Self {
            agents,
            servers,
            replica_sets,
            pods,
            config_maps,
            accounts,
            services,
            claims,
            policies,
            deployments,
            issuer: _,
        } = self;
        let stores = futures::join!(
            agents.wait_until_ready(),
            servers.wait_until_ready(),
            replica_sets.wait_until_ready(),
            pods.wait_until_ready(),
            config_maps.wait_until_ready(),
            accounts.wait_until_ready(),
            services.wait_until_ready(),
            claims.wait_until_ready(),
            policies.wait_until_ready(),
            deployments.wait_until_ready(),
        );
        let (a, b, c, d, e, f, g, h, i, j) = stores;
        [a, b, c, d, e, f, g, h, i, j].iter().all(Result::is_ok)
    }

    /// Whether an Agent or an operator-run McpServer uses this ServiceAccount. One that cannot be read may well use it.
    pub fn uses_account(&self, namespace: &str, account: &str) -> bool {
        let agent = |name: &str| self.agents.get(&ObjectRef::new(name).within(namespace));
        let server = |name: &str| self.servers.get(&ObjectRef::new(name).within(namespace));
        names::of_agent(account).and_then(agent).is_some()
            || names::of_mcp(account)
                .and_then(server)
                .is_some_and(|server| is_run_here(&server))
    }

    /// An Agent that can be read.
    pub fn agent(&self, namespace: &str, name: &str) -> Option<Arc<Agent>> {
        let guarded = self.agents.get(&ObjectRef::new(name).within(namespace))?;
        guarded.0.as_ref().ok().map(|agent| Arc::new(agent.clone()))
    }

    /// An McpServer that can be read.
    pub fn server(&self, namespace: &str, name: &str) -> Option<Arc<McpServer>> {
        let guarded = self.servers.get(&ObjectRef::new(name).within(namespace))?;
        guarded.0.as_ref().ok().map(|server| Arc::new(server.clone()))
    }

    /// The Agents of a namespace that can be read and that are asked for, by name.
    pub fn agents_that(&self, namespace: &str, asked: impl Fn(&Agent) -> bool) -> Vec<Arc<Agent>> {
        let found = self.agents.state_filter(|guarded| {
            guarded.meta().namespace.as_deref() == Some(namespace) && guarded.0.as_ref().is_ok_and(&asked)
        });
        let mut found: Vec<Arc<Agent>> = found
            .iter()
            .filter_map(|guarded| guarded.0.as_ref().ok())
            .map(|agent| Arc::new(agent.clone()))
            .collect();
        found.sort_by_key(|agent| agent.name_any());
        found
    }

    /// Pods of ours in a namespace that carry this label.
    pub fn pods_of(&self, namespace: &str, label: &str, value: &str) -> Vec<Arc<Pod>> {
        self.pods
            .state_filter(|pod| is_labelled(pod, namespace, label, value))
    }

    /// ReplicaSets of ours in a namespace that carry this label.
    pub fn replica_sets_of(&self, namespace: &str, label: &str, value: &str) -> Vec<Arc<ReplicaSet>> {
        self.replica_sets
            .state_filter(|set| is_labelled(set, namespace, label, value))
    }
}

/// Whether the operator runs this server, or may well do: it cannot be read.
fn is_run_here(server: &GuardedServer) -> bool {
    let server = server.0.as_ref();
    server.map_or(true, |server| callers::account_of_server(server).is_some())
}

fn is_labelled<K: Resource>(object: &K, namespace: &str, label: &str, value: &str) -> bool {
    object.meta().namespace.as_deref() == Some(namespace)
        && object.labels().get(label).is_some_and(|found| found == value)
}

/// The writing halves, before they go to their watches.
#[derive(Default)]
struct Trackers {
    agents: Tracker<GuardedAgent>,
    servers: Tracker<GuardedServer>,
    replica_sets: Tracker<ReplicaSet>,
    pods: Tracker<Pod>,
    config_maps: Tracker<PartialObjectMeta<ConfigMap>>,
    accounts: Tracker<PartialObjectMeta<ServiceAccount>>,
    services: Tracker<PartialObjectMeta<Service>>,
    claims: Tracker<PartialObjectMeta<PersistentVolumeClaim>>,
    policies: Tracker<PartialObjectMeta<NetworkPolicy>>,
    deployments: Tracker<PartialObjectMeta<Deployment>>,
}

impl Trackers {
    fn world(&mut self, issuer: (String, String)) -> World {
        World {
            agents: self.agents.store(),
            servers: self.servers.store(),
            replica_sets: self.replica_sets.store(),
            pods: self.pods.store(),
            config_maps: self.config_maps.store(),
            accounts: self.accounts.store(),
            services: self.services.store(),
            claims: self.claims.store(),
            policies: self.policies.store(),
            deployments: self.deployments.store(),
            issuer,
        }
    }
}

/// What every watch needs.
struct Start<'a> {
    client: &'a Client,
    world: &'a Arc<World>,
    requests: &'a Requests,
    watches: &'a mut JoinSet<()>,
}

impl Start<'_> {
    fn kind<K>(
        &mut self,
        mut tracker: Tracker<K>,
        config: watcher::Config,
        trim: fn(&mut K),
        route: fn(&World, &Change<K>) -> Vec<Target>,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    {
        let (world, mut requests) = (self.world.clone(), self.requests.clone());
        let mut events = Box::pin(watcher(Api::<K>::all(self.client.clone()), config).default_backoff());
        self.watches.spawn(async move {
            while let Some(event) = events.next().await {
                let event = match event {
                    Ok(event) => event.modify(trim),
                    Err(error) => {
                        tracing::warn!(event = "watch.fail", object.kind = %K::kind(&()), error = %error);
                        continue;
                    }
                };
                for change in tracker.take(&event) {
                    for target in route(&world, &change) {
                        requests.send(target).await;
                    }
                }
            }
        });
    }
}

fn untouched<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}

/// Keeps of an object's metadata what routes and controllers read.
fn trim<K: Resource>(object: &mut K) {
    let metadata = object.meta_mut();
    metadata.managed_fields = None;
    metadata.annotations = None;
    if let Some(labels) = &mut metadata.labels {
        labels.retain(|key, _| key.starts_with(labels::OURS) || key == labels::MANAGED_BY);
    }
}

/// Keeps of a pod its owner, labels, annotations of ours, volumes and status.
fn trim_pod(pod: &mut Pod) {
    pod.metadata.managed_fields = None;
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.retain(|key, _| key.starts_with(labels::OURS));
    }
    if let Some(spec) = &mut pod.spec {
        let volumes = spec.volumes.take();
        let service_account_name = spec.service_account_name.take();
        *spec = k8s_openapi::api::core::v1::PodSpec {
            volumes,
            service_account_name,
            ..Default::default()
        };
    }
}
