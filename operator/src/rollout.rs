//! What a Deployment, its ReplicaSets and its pods say together: which pods are of the current revision, which of them
//! serve, and why not. Pure.
//!
//! Guarantees: ownership is followed by UID, labels prove nothing; texts hold no counters and no generated names that
//! change while the cause is the same, so that a crash loop is one status write and not one for each restart.

use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::text::clip;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ContainerStatus, PersistentVolumeClaim, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt as _;

use crate::conditions::reason;

/// The annotation by which the Deployment controller numbers revisions.
pub const REVISION: &str = "deployment.kubernetes.io/revision";

/// The state of one workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rollout {
    /// The Deployment controller has seen the spec that stands now.
    pub observed: bool,
    /// Replicas that are wanted, by whoever sets them.
    pub wanted: i32,
    /// Pods of any revision that exist.
    pub total: i32,
    /// A pod of any revision is on its way out.
    pub stopping: bool,
    /// Pods of the current revision, newest first; none is terminating.
    pub current: Vec<CurrentPod>,
    /// Why the current revision does not come up.
    pub trouble: Option<Trouble>,
    /// The claims of the newest pod of the current revision, while no node has it.
    pub claims: Vec<String>,
}

/// A pod of the current revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentPod {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its condition `Ready` is True.
    pub ready: bool,
}

/// Why a revision does not come up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// A reason of the condition `Ready`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

impl Rollout {
    /// The newest pod of the current revision that is ready.
    pub fn serving(&self) -> Option<&CurrentPod> {
        self.current.iter().find(|pod| pod.ready)
    }

    /// The newest pod may be held up by this claim of it: a volume that nobody provides is seen nowhere else, since the
    /// scheduler waits for it in silence.
    pub fn held_up_by(&mut self, claim: &PersistentVolumeClaim) {
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        if self.trouble.is_none() && phase == Some("Pending") {
            self.trouble = Some(Trouble {
                reason: reason::PROGRESSING,
                message: format!(
                    "the pod waits for its volume: PersistentVolumeClaim {} is Pending; its events name the cause",
                    claim.name_any()
                ),
            });
        }
    }

    /// Whether this pod is of the current revision.
    pub fn is_current(&self, uid: &str) -> bool {
        self.current.iter().any(|pod| pod.uid == uid)
    }
}

/// Reads the state of `deployment` from the ReplicaSets and pods of its namespace (more of them do no harm).
pub fn assess<'a>(
    deployment: &Deployment,
    replica_sets: impl IntoIterator<Item = &'a ReplicaSet>,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> Rollout {
    let owned: Vec<&ReplicaSet> = replica_sets
        .into_iter()
        .filter(|set| is_controlled_by(&set.metadata, &deployment.metadata))
        .collect();
    let pods: Vec<&Pod> = pods
        .into_iter()
        .filter(|pod| {
            owned
                .iter()
                .any(|set| is_controlled_by(&pod.metadata, &set.metadata))
        })
        .collect();
    let observed = deployment
        .status
        .as_ref()
        .and_then(|status| status.observed_generation)
        >= deployment.metadata.generation;
    let mut rollout = Rollout {
        observed,
        wanted: deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or(1),
        total: i32::try_from(pods.iter().filter(|pod| !is_terminating(pod)).count()).unwrap_or(i32::MAX),
        stopping: pods.iter().any(|pod| is_terminating(pod)),
        ..Rollout::default()
    };
    let revision = deployment.annotations().get(REVISION);
    let Some(set) = owned
        .iter()
        .find(|set| revision.is_some() && set.annotations().get(REVISION) == revision)
    else {
        return rollout;
    };
    if !observed {
        return rollout;
    }
    let mut current: Vec<&Pod> = pods
        .into_iter()
        .filter(|pod| is_controlled_by(&pod.metadata, &set.metadata) && !is_terminating(pod))
        .collect();
    current.sort_by_key(|pod| (pod.creation_timestamp(), pod.name_any()));
    current.reverse();
    rollout.trouble = refusal(set).or_else(|| current.iter().find_map(|pod| pod_trouble(pod)));
    rollout.claims = current.first().map(|pod| awaited_claims(pod)).unwrap_or_default();
    rollout.current = current
        .into_iter()
        .map(|pod| CurrentPod {
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            ready: has_condition(pod, "Ready"),
        })
        .collect();
    rollout
}

/// Whether `owner` is the controller of `child`, by UID.
pub fn is_controlled_by(child: &ObjectMeta, owner: &ObjectMeta) -> bool {
    controller(child).is_some_and(|reference| owner.uid.as_ref() == Some(&reference.uid))
}

/// The controller owner reference.
pub fn controller(child: &ObjectMeta) -> Option<&OwnerReference> {
    child
        .owner_references
        .as_ref()?
        .iter()
        .find(|reference| reference.controller == Some(true))
}

/// The ConfigMaps that a pod spec mounts.
pub fn mounted_config_maps(spec: Option<&PodSpec>) -> Vec<&str> {
    spec.and_then(|spec| spec.volumes.as_ref())
        .into_iter()
        .flatten()
        .filter_map(|volume| volume.config_map.as_ref())
        .map(|source| source.name.as_str())
        .collect()
}

/// The claims of a pod that no node has.
fn awaited_claims(pod: &Pod) -> Vec<String> {
    let spec = pod.spec.as_ref();
    let spec = spec.filter(|spec| spec.node_name.is_none() && !has_condition(pod, "Ready"));
    spec.and_then(|spec| spec.volumes.as_ref())
        .into_iter()
        .flatten()
        .filter_map(|volume| volume.persistent_volume_claim.as_ref())
        .map(|source| source.claim_name.clone())
        .collect()
}

fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn has_condition(pod: &Pod, kind: &str) -> bool {
    pod.status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .any(|condition| condition.type_ == kind && condition.status == "True")
}

/// What stopped the ReplicaSet from creating its pod.
fn refusal(set: &ReplicaSet) -> Option<Trouble> {
    let conditions = set.status.as_ref()?.conditions.as_ref()?;
    let failure = conditions
        .iter()
        .find(|c| c.type_ == "ReplicaFailure" && c.status == "True")?;
    let text = failure.message.as_deref().unwrap_or_default();
    // The text begins with the pod's generated name, which differs at each try.
    let (_, cause) = text.split_once("is forbidden: ").unwrap_or(("", text));
    let cause = clip(cause, FOREIGN_CHARS);
    Some(if text.contains("exceeded quota") {
        Trouble {
            reason: reason::QUOTA_EXCEEDED,
            message: format!("the pod was refused: {cause}; raise the ResourceQuota or free some of it"),
        }
    } else {
        Trouble {
            reason: reason::POD_FAILED,
            message: format!("the pod was refused: {cause}; change the spec or the namespace's policy"),
        }
    })
}

/// The first failing container's cause, else why the pod is not placed.
fn pod_trouble(pod: &Pod) -> Option<Trouble> {
    let status = pod.status.as_ref()?;
    let containers = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses)
        .flatten();
    if let Some(message) = containers.filter_map(container_trouble).next() {
        return Some(Trouble {
            reason: reason::POD_FAILED,
            message,
        });
    }
    if status.phase.as_deref() == Some("Failed") {
        let why = status
            .message
            .as_deref()
            .or(status.reason.as_deref())
            .unwrap_or("no cause is given");
        let message = format!("pod {} failed: {}", pod.name_any(), clip(why, FOREIGN_CHARS));
        return Some(Trouble {
            reason: reason::POD_FAILED,
            message,
        });
    }
    let unplaced = status.conditions.iter().flatten().find(|c| {
        c.type_ == "PodScheduled" && c.status == "False" && c.reason.as_deref() == Some("Unschedulable")
    })?;
    let why = clip(
        unplaced.message.as_deref().unwrap_or("no node fits"),
        FOREIGN_CHARS,
    );
    Some(Trouble {
        reason: reason::PROGRESSING,
        message: format!("the pod waits for a node: {why}"),
    })
}

fn container_trouble(container: &ContainerStatus) -> Option<String> {
    let name = &container.name;
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        match waiting.reason.as_deref().unwrap_or_default() {
            "" | "ContainerCreating" | "PodInitializing" => {}
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
                return Some(format!(
                    "container {name}: image `{}` cannot be pulled; check its name, the registry and imagePullSecrets",
                    clip(&container.image, FOREIGN_CHARS)
                ));
            }
            "CrashLoopBackOff" => {}
            other => {
                let detail = clip(waiting.message.as_deref().unwrap_or_default(), FOREIGN_CHARS);
                return Some(format!("container {name}: {}: {detail}", clip(other, 64)));
            }
        }
    }
    // A container that ended well (an init container) or that serves again is no trouble.
    if container.ready || state.terminated.as_ref().is_some_and(|end| end.exit_code == 0) {
        return None;
    }
    let last = container
        .last_state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    let end = state.terminated.as_ref().or(last)?;
    let mut text = format!("container {name} ended with exit code {}", end.exit_code);
    if let Some(why) = end.reason.as_deref().filter(|why| *why != "Error") {
        text.push_str(&format!(" ({})", clip(why, 64)));
    }
    if let Some(said) = end
        .message
        .as_deref()
        .map(str::trim)
        .filter(|said| !said.is_empty())
    {
        text.push_str(&format!(": {}", clip(said, FOREIGN_CHARS)));
    } else {
        text.push_str("; see its log");
    }
    Some(text)
}

#[cfg(test)]
mod tests;
