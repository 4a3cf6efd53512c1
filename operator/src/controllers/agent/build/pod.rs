//! The pod of an Agent: one container of our image. Pure.

use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, PodSpec, PodTemplateSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::document::STATE_FOLDER;
use crate::controllers::agent::validate::{StorePlan, Validated};
use crate::controllers::workload::{self, GRACE_SECONDS, Pair, USER};
use crate::install::Install;

/// The container.
pub const CONTAINER: &str = "agentd";

pub(super) fn template(validated: &Validated, install: &Install, pair: Pair<'_>) -> PodTemplateSpec {
    let mut volumes = workload::volumes(pair, install);
    let mut mounts = workload::volume_mounts();
    if let Some(state) = state(&validated.store, &validated.subject.made) {
        volumes.push(state);
        mounts.push(workload::mount("state", STATE_FOLDER));
    }
    volumes.extend(validated.mounts.volumes());
    mounts.extend(validated.mounts.volume_mounts());
    let mut container = workload::container(
        CONTAINER,
        &validated.image,
        install,
        ["run", "--config", "/etc/agentd/config/agentd.json"],
    );
    container.ports = Some(workload::container_ports("a2a"));
    container.volume_mounts = Some(mounts);
    container.resources = Some(validated.resources.clone());
    let mut security = workload::pod_security();
    if validated.store.has_claim() && install.fs_group {
        security.fs_group = Some(USER);
        security.fs_group_change_policy = Some("OnRootMismatch".to_owned());
    }
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(validated.subject.labels()),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            service_account_name: Some(validated.subject.made.clone()),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            image_pull_secrets: workload::pull_secrets(&validated.pull_secrets, install),
            termination_grace_period_seconds: Some(GRACE_SECONDS),
            security_context: Some(security),
            containers: vec![container],
            volumes: Some(volumes),
            ..PodSpec::default()
        }),
    }
}

fn state(store: &StorePlan, made: &str) -> Option<Volume> {
    let claim = |name: &str| {
        let source = PersistentVolumeClaimVolumeSource {
            claim_name: name.to_owned(),
            ..PersistentVolumeClaimVolumeSource::default()
        };
        Some(Volume {
            name: "state".to_owned(),
            persistent_volume_claim: Some(source),
            ..Volume::default()
        })
    };
    match store {
        StorePlan::Claim { .. } => claim(made),
        StorePlan::Existing { claim_name } => claim(claim_name),
        StorePlan::Ephemeral => Some(workload::empty_dir("state")),
        StorePlan::Memory | StorePlan::Outside => None,
    }
}
