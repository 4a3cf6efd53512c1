//! Who of several controllers processes works. The only module that knows the lease library.
//!
//! Guarantees: the lease is released when the process drains; a process that lost the lease, or whose lease task
//! ended, must end too ([`Election::lost`]); the leader's pod, and no other pod of the Deployment, carries the label
//! by which the report Service finds it.

use std::time::Duration;

use agentd_base::class::{Class, Classified};
use futures::TryStreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Client, Resource as _, ResourceExt as _};
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use kube_runtime::WatchStreamExt as _;
use kube_runtime::watcher::{self, watcher};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::labels::{FIELD_MANAGER, LEADER};

/// How long a lease lasts without renewal, in seconds: how long nobody works after a leader was killed.
const DURATION_SECONDS: u64 = 15;
/// How long before its end it is renewed: clocks of nodes may differ by this.
const GRACE_SECONDS: u64 = 5;
/// How long the release may take when the process ends.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);

/// Why this process may not work.
#[derive(Debug, thiserror::Error)]
pub enum LeadershipError {
    /// The API server does not answer, or not as it should.
    #[error("the lease: {0}")]
    Api(#[from] Box<kube::Error>),
    /// The lease library gave up.
    #[error("the lease: {0}")]
    Lease(#[from] Box<LeaseManagerError>),
    /// Another process has it.
    #[error("the lease was lost to another process")]
    Lost,
    /// Nobody renews it any more.
    #[error("the task that renews the lease ended: {0}")]
    Ended(String),
}

impl Classified for LeadershipError {
    fn class(&self) -> Class {
        match self {
            Self::Api(_) | Self::Lease(_) => Class::Unavailable,
            Self::Lost => Class::Conflict,
            Self::Ended(_) => Class::Internal,
        }
    }
}

/// Who takes part.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The namespace of the lease and of the pods.
    pub namespace: String,
    /// The lease.
    pub lease: String,
    /// The own name; differs between processes.
    pub identity: String,
    /// Who owns the lease, so that it goes with the release.
    pub owner: Option<OwnerReference>,
}

/// A process that takes part in the election.
#[derive(Debug)]
pub struct Election {
    leads: watch::Receiver<bool>,
    task: JoinHandle<Result<LeaseManager, LeaseManagerError>>,
}

impl Election {
    /// Begins to ask for the lease.
    ///
    /// # Errors
    /// When the lease cannot be made or read.
    pub async fn start(client: Client, candidate: &Candidate) -> Result<Self, LeadershipError> {
        let leases: Api<Lease> = Api::namespaced(client.clone(), &candidate.namespace);
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(candidate.lease.clone()),
                namespace: Some(candidate.namespace.clone()),
                owner_references: candidate.owner.clone().map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            spec: None,
        };
        leases
            .patch(
                &candidate.lease,
                &PatchParams::apply(FIELD_MANAGER).force(),
                &Patch::Apply(&lease),
            )
            .await
            .map_err(Box::new)?;
        let manager = LeaseManagerBuilder::new(client, &candidate.lease)
            .with_namespace(&candidate.namespace)
            .with_identity(&candidate.identity)
            .with_duration(DURATION_SECONDS)
            .with_grace(GRACE_SECONDS)
            .build()
            .await
            .map_err(Box::new)?;
        let (leads, task) = manager.watch().await;
        Ok(Self { leads, task })
    }

    /// Resolves when this process leads.
    ///
    /// # Errors
    /// When the lease task ended.
    pub async fn won(&mut self) -> Result<(), LeadershipError> {
        if self.leads.wait_for(|leads| *leads).await.is_ok() {
            return Ok(());
        }
        Err(self.end().await)
    }

    /// Resolves when this process, which led, may not work any more, with the reason.
    pub async fn lost(&mut self) -> LeadershipError {
        if self.leads.wait_for(|leads| !*leads).await.is_ok() {
            return LeadershipError::Lost;
        }
        self.end().await
    }

    /// Gives the lease back, so that the next process need not wait for its end.
    pub async fn release(self) {
        drop(self.leads);
        if !matches!(
            tokio::time::timeout(RELEASE_LIMIT, self.task).await,
            Ok(Ok(Ok(_)))
        ) {
            tracing::warn!(event = "lease.release.fail");
        }
    }

    async fn end(&mut self) -> LeadershipError {
        match (&mut self.task).await {
            Ok(Ok(_)) => LeadershipError::Ended("without a word".to_owned()),
            Ok(Err(error)) => LeadershipError::Lease(Box::new(error)),
            Err(error) => LeadershipError::Ended(error.to_string()),
        }
    }
}

/// A reference to the ClusterRole of this install: what has no Agent or McpServer to own it is owned by this, so that
/// uninstalling takes it. `None`, with a warning, where it cannot be read.
pub async fn cluster_role_owner(client: &Client, name: &str) -> Option<OwnerReference> {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    match roles.get_metadata(name).await {
        Ok(role) => Some(OwnerReference {
            api_version: ClusterRole::api_version(&()).into_owned(),
            kind: ClusterRole::kind(&()).into_owned(),
            name: name.to_owned(),
            uid: role.metadata.uid?,
            ..OwnerReference::default()
        }),
        Err(error) => {
            tracing::warn!(event = "owner.missing", cluster_role = name, error = %error);
            None
        }
    }
}

/// Keeps the leader label where it belongs: on `own_pod`, and on no other pod that `selector` selects. Runs until it is
/// dropped; what it cannot write it tries again when a pod changes or the watch restarts.
pub async fn label_own_pod(client: Client, namespace: String, own_pod: String, selector: String) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let metadata: Api<PartialObjectMeta<Pod>> = Api::namespaced(client, &namespace);
    let config = watcher::Config::default().labels(&selector);
    let mut events = Box::pin(watcher(metadata, config).default_backoff().applied_objects());
    loop {
        let pod = match events.try_next().await {
            Ok(Some(pod)) => pod,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(event = "leader.watch.fail", error = %error);
                continue;
            }
        };
        let name = pod.name_any();
        let labelled = pod.labels().get(LEADER).is_some_and(|value| value == "true");
        let value = match (name == own_pod, labelled) {
            (true, false) => json!("true"),
            (false, true) => json!(null),
            _ => continue,
        };
        let patch = json!({"metadata": {"labels": {LEADER: value}}});
        match pods
            .patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
        {
            Ok(_) => tracing::info!(event = "leader.label", object.name = %name, leads = name == own_pod),
            Err(error) => tracing::warn!(event = "leader.label.fail", object.name = %name, error = %error),
        }
    }
}
