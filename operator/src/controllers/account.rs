//! ServiceAccount and Service of an object. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServiceAccount, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::subject::Subject;
use super::workload::{ADMIN_PORT, SERVE_PORT};

/// The ServiceAccount, which is the identity. It mounts no token of the API server.
pub fn service_account(
    subject: &Subject,
    annotations: &BTreeMap<String, String>,
    labels: &BTreeMap<String, String>,
) -> ServiceAccount {
    let mut metadata = subject.metadata(&subject.made);
    let ours = metadata.labels.take().unwrap_or_default();
    metadata.labels = Some(labels.clone().into_iter().chain(ours).collect());
    metadata.annotations = (!annotations.is_empty()).then(|| annotations.clone());
    ServiceAccount {
        metadata,
        automount_service_account_token: Some(false),
        image_pull_secrets: None,
        secrets: None,
    }
}

/// The Service, with the ports of the container. `sticky`: a client stays with one pod.
pub fn service(subject: &Subject, serve: &str, sticky: bool) -> Service {
    let port = |name: &str, number: u16, protocol: &str| ServicePort {
        name: Some(name.to_owned()),
        port: i32::from(number),
        target_port: Some(IntOrString::Int(i32::from(number))),
        protocol: Some("TCP".to_owned()),
        app_protocol: Some(protocol.to_owned()),
        node_port: None,
    };
    Service {
        metadata: subject.metadata(&subject.made),
        spec: Some(ServiceSpec {
            selector: subject.selector().match_labels,
            ports: Some(vec![
                port(serve, SERVE_PORT, "https"),
                port("admin", ADMIN_PORT, "http"),
            ]),
            session_affinity: sticky.then(|| "ClientIP".to_owned()),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}
