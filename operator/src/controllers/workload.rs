//! What every pod of ours has: security contexts, ports, probes, the mounts of configuration, token and bundle. Pure.
//!
//! Guarantees: a pod made of these passes Pod Security `restricted`; nothing that is not written here or in the spec is
//! set, so that fields of others (an autoscaler's replicas) stay theirs.

use std::collections::BTreeMap;

use agentd_crds::shared::Resources;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource, EnvVar,
    EnvVarSource, HTTPGetAction, LocalObjectReference, ObjectFieldSelector, PodSecurityContext,
    PodTemplateSpec, Probe, ProjectedVolumeSource, ResourceRequirements, SeccompProfile, SecurityContext,
    ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::subject::Subject;
use crate::install::Install;
use crate::labels;

/// A2A listener and bridge.
pub const SERVE_PORT: u16 = 8443;
/// Probes and metrics, plain http.
pub const ADMIN_PORT: u16 = 9090;
/// The folder of the restart-only half.
pub const CONFIG_FOLDER: &str = "/etc/agentd/config";
/// The folder of the reloadable half and the bundle.
pub const LIVE_FOLDER: &str = "/etc/agentd/live";
/// The bundle in it.
pub const BUNDLE_FILE: &str = "bundle.pem";
/// The token for the issuer.
pub const TOKEN_FILE: &str = "/var/run/agentd/token/token";
const TOKEN_FOLDER: &str = "/var/run/agentd/token";
/// Seconds; the kubelet renews it in time, and the issuer reads it only at renewals.
const TOKEN_SECONDS: i64 = 3600;
/// The user of our image.
pub const USER: i64 = 65532;
/// Seconds from SIGTERM to SIGKILL: more than [`DRAIN_SECONDS`] and what a hard stop takes.
pub const GRACE_SECONDS: i64 = 30;
/// Seconds in which our processes end by themselves.
pub const DRAIN_SECONDS: u64 = 25;
/// Old ReplicaSets, each of which keeps a pair of ConfigMaps.
const REVISION_HISTORY: i32 = 2;

/// The two ConfigMaps that a pod template mounts.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// The restart-only half.
    pub config: &'a str,
    /// The reloadable half.
    pub live: &'a str,
}

/// Configuration, token and a folder for temporary files.
pub fn volumes(pair: Pair<'_>, install: &Install) -> Vec<Volume> {
    let config_map = |name: &str, source: &str| Volume {
        name: name.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: source.to_owned(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    let token = ServiceAccountTokenProjection {
        audience: Some(install.audience()),
        expiration_seconds: Some(TOKEN_SECONDS),
        path: "token".to_owned(),
    };
    vec![
        config_map("config", pair.config),
        config_map("live", pair.live),
        Volume {
            name: "token".to_owned(),
            projected: Some(ProjectedVolumeSource {
                sources: Some(vec![VolumeProjection {
                    service_account_token: Some(token),
                    ..VolumeProjection::default()
                }]),
                ..ProjectedVolumeSource::default()
            }),
            ..Volume::default()
        },
        empty_dir("tmp"),
    ]
}

/// Their mounts in our container.
pub fn volume_mounts() -> Vec<VolumeMount> {
    let read_only = |name: &str, path: &str| VolumeMount {
        read_only: Some(true),
        ..mount(name, path)
    };
    vec![
        read_only("config", CONFIG_FOLDER),
        read_only("live", LIVE_FOLDER),
        read_only("token", TOKEN_FOLDER),
        mount("tmp", "/tmp"),
    ]
}

/// A folder that goes with the pod.
pub fn empty_dir(name: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }
}

/// A mount that can be written.
pub fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        ..VolumeMount::default()
    }
}

/// A container of ours: `arguments` of the agentd image.
pub fn container(name: &str, image: &str, install: &Install, arguments: [&str; 3]) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(image.to_owned()),
        image_pull_policy: install.image_pull_policy.clone(),
        args: Some(arguments.map(str::to_owned).to_vec()),
        env: Some(vec![
            field("AGENTD_POD_NAME", "metadata.name"),
            field("AGENTD_POD_NAMESPACE", "metadata.namespace"),
            field("AGENTD_POD_UID", "metadata.uid"),
            field("AGENTD_POD_IP", "status.podIP"),
        ]),
        startup_probe: Some(probe("/healthz", 1, 60)),
        readiness_probe: Some(probe("/readyz", 5, 2)),
        liveness_probe: Some(probe("/healthz", 10, 3)),
        security_context: Some(SecurityContext {
            read_only_root_filesystem: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            ..container_security()
        }),
        ..Container::default()
    }
}

/// The two ports of our container; `serve` names the first.
pub fn container_ports(serve: &str) -> Vec<ContainerPort> {
    [(serve, SERVE_PORT), ("admin", ADMIN_PORT)]
        .map(|(name, port)| ContainerPort {
            name: Some(name.to_owned()),
            container_port: i32::from(port),
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        })
        .to_vec()
}

/// What every container has, a person's too.
pub fn container_security() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add: None,
        }),
        ..SecurityContext::default()
    }
}

/// What every pod has.
pub fn pod_security() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        ..PodSecurityContext::default()
    }
}

/// Requests and a memory limit of a container of ours.
pub fn resources(cpu: &str, memory: &str, memory_limit: &str) -> ResourceRequirements {
    let quantities = |pairs: &[(&str, &str)]| {
        Some(
            pairs
                .iter()
                .map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned())))
                .collect(),
        )
    };
    ResourceRequirements {
        requests: quantities(&[("cpu", cpu), ("memory", memory)]),
        limits: quantities(&[("memory", memory_limit)]),
        claims: None,
    }
}

/// What a spec asks for.
pub fn resources_of(resources: &Resources) -> ResourceRequirements {
    let Resources { limits, requests } = resources;
    let given = |map: &BTreeMap<String, Quantity>| (!map.is_empty()).then(|| map.clone());
    ResourceRequirements {
        limits: given(limits),
        requests: given(requests),
        claims: None,
    }
}

/// Pull secrets: the spec's, else the install's.
pub fn pull_secrets(own: &[String], install: &Install) -> Option<Vec<LocalObjectReference>> {
    let names = if own.is_empty() {
        &install.image_pull_secrets
    } else {
        own
    };
    (!names.is_empty()).then(|| {
        names
            .iter()
            .map(|name| LocalObjectReference { name: name.clone() })
            .collect()
    })
}

/// A Deployment of the subject. `replicas` absent is not written. `rolled` is the digest that a pod did not take up.
pub fn deployment(
    subject: &Subject,
    replicas: Option<i32>,
    strategy: &str,
    rolled: Option<&str>,
    mut template: PodTemplateSpec,
) -> Deployment {
    if let Some(digest) = rolled {
        let annotations = template
            .metadata
            .get_or_insert_default()
            .annotations
            .get_or_insert_default();
        annotations.insert(labels::LIVE_DIGEST.to_owned(), digest.to_owned());
    }
    Deployment {
        metadata: subject.metadata(&subject.made),
        spec: Some(DeploymentSpec {
            replicas,
            revision_history_limit: Some(REVISION_HISTORY),
            selector: subject.selector(),
            strategy: Some(DeploymentStrategy {
                type_: Some(strategy.to_owned()),
                rolling_update: None,
            }),
            template,
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

fn field(name: &str, path: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: path.to_owned(),
                api_version: None,
            }),
            ..EnvVarSource::default()
        }),
    }
}

fn probe(path: &str, period_seconds: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::Int(i32::from(ADMIN_PORT)),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period_seconds),
        failure_threshold: Some(failures),
        timeout_seconds: Some(2),
        ..Probe::default()
    }
}
