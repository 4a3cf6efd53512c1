//! Whose report it is. Pure over the stores.

use std::sync::Arc;

use agentd_crds::{Agent, McpServer};
use agentd_identity::SpiffeId;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;

use crate::install::Install;
use crate::names;
use crate::rollout::{REVISION, controller, is_controlled_by};
use crate::world::World;

/// The object that a peer's ID belongs to.
#[derive(Debug, Clone)]
pub enum Subject {
    /// An Agent.
    Agent(Arc<Agent>),
    /// An McpServer that the operator runs.
    McpServer(Arc<McpServer>),
}

/// Why a report is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The ID belongs to nothing that reports.
    #[error("`{0}` is not the identity of an Agent or of an McpServer that the operator runs")]
    NobodysId(String),
    /// The pod exists and is not the object's.
    #[error("pod `{0}` does not belong to the object of this identity")]
    ForeignPod(String),
    /// The pod has not been seen yet, or no more.
    #[error("pod `{0}` with this UID is not known here yet; try again")]
    UnknownPod(String),
}

/// The order of an object's pods: by the Deployment, since one that is made again counts its revisions from 1 again; then
/// by revision, then by creation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age {
    deployed: Option<Timestamp>,
    revision: u64,
    created: Option<Timestamp>,
}

impl Age {
    #[cfg(test)]
    pub(super) fn new(deployed: i64, revision: u64, second: i64) -> Self {
        Self {
            deployed: Timestamp::from_second(deployed).ok(),
            revision,
            created: Timestamp::from_second(second).ok(),
        }
    }

    fn of(pod: &Pod, set: &ReplicaSet, deployment: &ObjectMeta) -> Self {
        Self {
            deployed: deployment.creation_timestamp.as_ref().map(|time| time.0),
            revision: set
                .annotations()
                .get(REVISION)
                .and_then(|number| number.parse().ok())
                .unwrap_or_default(),
            created: pod.creation_timestamp().map(|time| time.0),
        }
    }
}

impl Subject {
    /// The object of `peer`.
    ///
    /// # Errors
    /// [`NotTaken::NobodysId`].
    pub fn of(world: &World, install: &Install, peer: &SpiffeId) -> Result<Self, NotTaken> {
        let found = peer
            .service_account()
            .filter(|_| *peer.trust_domain() == install.trust_domain);
        let found = found.and_then(|(namespace, account)| {
            let agent = account
                .strip_suffix("-agent")
                .and_then(|name| world.agent(namespace, name));
            let server = account
                .strip_suffix("-mcp")
                .and_then(|name| world.server(namespace, name));
            agent.map(Self::Agent).or_else(|| {
                server
                    .filter(|server| server.spec.deployment.is_some())
                    .map(Self::McpServer)
            })
        });
        found.ok_or_else(|| NotTaken::NobodysId(peer.to_string()))
    }

    /// Its metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Agent(agent) => &agent.metadata,
            Self::McpServer(server) => &server.metadata,
        }
    }

    /// Where the pod that reports stands among this object's pods, when it is one of them: pod, ReplicaSet, Deployment,
    /// object, by UID at each step.
    ///
    /// # Errors
    /// [`NotTaken::ForeignPod`] and [`NotTaken::UnknownPod`].
    pub fn pod(&self, world: &World, name: &str, uid: &str) -> Result<Age, NotTaken> {
        let namespace = self.metadata().namespace.as_deref().unwrap_or_default();
        let unknown =
            || NotTaken::UnknownPod(agentd_base::text::clip(name, agentd_base::limit::FOREIGN_CHARS));
        let pod = world
            .pods
            .get(&ObjectRef::new(name).within(namespace))
            .ok_or_else(unknown)?;
        if pod.uid().as_deref() != Some(uid) {
            return Err(unknown());
        }
        let foreign = || NotTaken::ForeignPod(pod.name_any());
        let set = controller(&pod.metadata)
            .filter(|owner| owner.kind == "ReplicaSet")
            .ok_or_else(foreign)?;
        let set = world
            .replica_sets
            .get(&ObjectRef::new(&set.name).within(namespace))
            .ok_or_else(unknown)?;
        let made = match self {
            Self::Agent(agent) => names::agent(&agent.name_any()),
            Self::McpServer(server) => names::mcp(&server.name_any()),
        };
        let deployment = world
            .deployments
            .get(&ObjectRef::new(&made).within(namespace))
            .ok_or_else(unknown)?;
        let chain = is_controlled_by(&pod.metadata, &set.metadata)
            && is_controlled_by(&set.metadata, &deployment.metadata)
            && is_controlled_by(&deployment.metadata, self.metadata());
        if chain {
            Ok(Age::of(&pod, &set, &deployment.metadata))
        } else {
            Err(foreign())
        }
    }

    /// The McpServers that this Agent references, that run elsewhere and let it in, each with the name it has in the
    /// Agent's document. None for an McpServer.
    pub fn remote_servers(&self, world: &World) -> Vec<(String, Arc<McpServer>)> {
        let Self::Agent(agent) = self else {
            return Vec::new();
        };
        let namespace = agent.namespace().unwrap_or_default();
        let references = agent.spec.mcp_servers.iter().filter_map(|used| {
            let reference = used.reference.as_ref()?;
            let server = world.server(&namespace, &reference.name)?;
            Some((used.name.clone(), server))
        });
        references
            .filter(|(_, server)| server.spec.deployment.is_none())
            .filter(|(_, server)| crate::controllers::callers::references(agent, server))
            .filter(|(_, server)| crate::controllers::callers::admits(server, agent))
            .collect()
    }
}
