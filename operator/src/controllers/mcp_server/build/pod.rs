//! The pod of a server that the operator runs: the person's container, and the bridge. Pure.
//!
//! Guarantee: token, key and bundle are mounted in the bridge alone.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, SecurityContext};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::controllers::mcp_server::validate::RunPlan;
use crate::controllers::subject::Subject;
use crate::controllers::workload::{self, GRACE_SECONDS, Pair};
use crate::install::Install;

/// The person's container.
pub const SERVER: &str = "server";
/// Ours.
pub const BRIDGE: &str = "bridge";
/// `kubectl logs` and `exec` go there when nothing is said.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

pub(super) fn template(
    subject: &Subject,
    run: &RunPlan,
    install: &Install,
    pair: Pair<'_>,
) -> PodTemplateSpec {
    let mut volumes = workload::volumes(pair, install);
    volumes.push(workload::empty_dir("server-tmp"));
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(subject.labels()),
            annotations: Some(BTreeMap::from([(
                DEFAULT_CONTAINER.to_owned(),
                SERVER.to_owned(),
            )])),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            service_account_name: Some(subject.made.clone()),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            image_pull_secrets: workload::pull_secrets(&[], install),
            termination_grace_period_seconds: Some(GRACE_SECONDS),
            security_context: Some(workload::pod_security()),
            containers: vec![server(run), bridge(install)],
            volumes: Some(volumes),
            ..PodSpec::default()
        }),
    }
}

fn server(run: &RunPlan) -> Container {
    let given = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
    Container {
        name: SERVER.to_owned(),
        image: Some(run.image.clone()),
        command: given(&run.command),
        args: given(&run.args),
        env: (!run.env.is_empty()).then(|| run.env.clone()),
        resources: run.resources.clone(),
        security_context: Some(SecurityContext {
            run_as_user: run.run_as_user,
            ..workload::container_security()
        }),
        volume_mounts: Some(vec![workload::mount("server-tmp", "/tmp")]),
        ..Container::default()
    }
}

fn bridge(install: &Install) -> Container {
    let arguments = ["bridge", "--config", "/etc/agentd/config/bridge.json"];
    let mut container = workload::container(BRIDGE, &install.agent_image, install, arguments);
    container.ports = Some(workload::container_ports("mcp"));
    container.volume_mounts = Some(workload::volume_mounts());
    container.resources = Some(workload::resources("20m", "32Mi", "256Mi"));
    container
}
