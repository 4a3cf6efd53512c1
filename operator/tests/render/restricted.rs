//! Pod Security `restricted`, as its documentation lists it, over the pods that are made.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde_json::{Value, json};

use crate::world::{install, render_agent, render_server};
use crate::{agent, mcp_server};

/// Every control of `restricted` (and of `baseline`, which it contains) that a pod of ours could break.
fn violations(pod: &PodSpec) -> Vec<String> {
    let mut found = Vec::new();
    for (name, set) in [
        ("hostNetwork", pod.host_network),
        ("hostPID", pod.host_pid),
        ("hostIPC", pod.host_ipc),
    ] {
        if set == Some(true) {
            found.push(name.to_owned());
        }
    }
    for volume in pod.volumes.iter().flatten() {
        let kinds = serde_json::to_value(volume).unwrap();
        for kind in kinds.as_object().unwrap().keys().filter(|kind| *kind != "name") {
            let allowed = [
                "configMap",
                "csi",
                "downwardAPI",
                "emptyDir",
                "ephemeral",
                "persistentVolumeClaim",
                "projected",
                "secret",
            ];
            if !allowed.contains(&kind.as_str()) {
                found.push(format!("volume {} is a {kind}", volume.name));
            }
        }
    }
    let security = pod.security_context.clone().unwrap_or_default();
    let seccomp = security.seccomp_profile.map(|profile| profile.type_);
    if seccomp.as_deref() != Some("RuntimeDefault") {
        found.push("seccompProfile".to_owned());
    }
    if security.run_as_non_root != Some(true) || security.run_as_user == Some(0) {
        found.push("runAsNonRoot".to_owned());
    }
    let containers: Vec<&Container> = pod
        .init_containers
        .iter()
        .flatten()
        .chain(&pod.containers)
        .collect();
    for container in containers {
        let security = container.security_context.clone().unwrap_or_default();
        let dropped = security.capabilities.clone().unwrap_or_default();
        let wrong = [
            (
                "allowPrivilegeEscalation",
                security.allow_privilege_escalation != Some(false),
            ),
            ("capabilities.drop", dropped.drop != Some(vec!["ALL".to_owned()])),
            ("capabilities.add", dropped.add.is_some()),
            ("privileged", security.privileged == Some(true)),
            ("runAsUser", security.run_as_user == Some(0)),
            ("runAsNonRoot", security.run_as_non_root == Some(false)),
            (
                "hostPort",
                container
                    .ports
                    .iter()
                    .flatten()
                    .any(|port| port.host_port.is_some()),
            ),
        ];
        found.extend(
            wrong
                .iter()
                .filter(|(_, bad)| *bad)
                .map(|(what, _)| format!("{}: {what}", container.name)),
        );
    }
    found
}

fn pod(objects: &Value) -> PodSpec {
    serde_json::from_value(objects["deployment"]["spec"]["template"]["spec"].clone()).unwrap()
}

#[test]
fn p01_pods_pass_restricted() {
    let agents = [
        json!({}),
        json!({ "store": { "memory": {} } }),
        json!({ "store": { "file": { "ephemeral": true } } }),
        json!({ "instruction": null, "instructionFrom": { "secretKeyRef": { "name": "a", "key": "b" } } }),
    ];
    for change in agents {
        let pod = pod(&render_agent(&agent::agent(change.clone()), &install()).unwrap());
        assert_eq!(violations(&pod), Vec::<String>::new(), "{change}");
        let security = pod.containers[0].security_context.clone().unwrap();
        assert_eq!(
            (security.run_as_user, security.read_only_root_filesystem),
            (Some(65532), Some(true))
        );
    }
    for change in [json!({}), json!({ "deployment": { "runAsUser": 1000 } })] {
        let pod = pod(&render_server(&mcp_server::server(change.clone()), &install()).unwrap());
        assert_eq!(violations(&pod), Vec::<String>::new(), "{change}");
    }
}

#[test]
fn every_container_that_we_add_has_requests_and_a_memory_limit() {
    let agent = pod(&render_agent(&agent::agent(json!({})), &install()).unwrap());
    let server = pod(&render_server(&mcp_server::server(json!({})), &install()).unwrap());
    for container in agent
        .containers
        .iter()
        .chain(&server.containers)
        .filter(|container| container.name != "server")
    {
        let resources = container.resources.clone().unwrap();
        assert!(
            resources.requests.unwrap().contains_key("memory")
                && resources.limits.unwrap().contains_key("memory")
        );
    }
}
