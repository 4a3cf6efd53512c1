//! Rules of NetworkPolicies. Pure. A policy is the second fence: names are enforced by the runtime's own guard, callers
//! by their certificates.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::{issuance, report};
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use url::{Host, Url};

use super::subject::Subject;
use super::workload::{ADMIN_PORT, SERVE_PORT};
use crate::install::Install;
use crate::labels;

/// The label that every namespace has, with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Never dialled, so not let out either: metadata services listen there.
const LINK_LOCAL: [(&str, &str); 2] = [("0.0.0.0/0", "169.254.0.0/16"), ("::/0", "fe80::/10")];
const DNS_PORT: u16 = 53;

/// Where a URL leads, as far as a policy can say it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// A Service of this namespace: a policy sees the pods' ports, which may be any.
    Namespace(String),
    /// Any address on this port.
    Port(u16),
}

/// The ways to the host of `url` from a pod in `namespace`. A name of two labels may be a Service or a public name.
pub fn ways(url: &Url, namespace: &str, cluster_domain: &str) -> Vec<Way> {
    let port = Way::Port(url.port_or_known_default().unwrap_or(443));
    let Some(Host::Domain(host)) = url.host() else {
        return vec![port];
    };
    let host = host.trim_end_matches('.');
    let service = host
        .strip_suffix(cluster_domain)
        .and_then(|rest| rest.strip_suffix('.'))
        .unwrap_or(host);
    if let Some(service) = service.strip_suffix(".svc") {
        return match service.rsplit_once('.') {
            Some((_, target)) => vec![Way::Namespace(target.to_owned())],
            None => vec![port],
        };
    }
    match host.split('.').collect::<Vec<_>>().as_slice() {
        [_] => vec![Way::Namespace(namespace.to_owned())],
        [_, target] => vec![Way::Namespace((*target).to_owned()), port],
        _ => vec![port],
    }
}

/// A policy over the subject's pods.
pub fn policy(
    subject: &Subject,
    ingress: Vec<NetworkPolicyIngressRule>,
    egress: Vec<NetworkPolicyEgressRule>,
) -> NetworkPolicy {
    NetworkPolicy {
        metadata: subject.metadata(&subject.made),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(subject.selector()),
            policy_types: Some(vec!["Ingress".into(), "Egress".into()]),
            ingress: Some(ingress),
            egress: Some(egress),
        }),
    }
}

/// What every pod of ours must reach: names, the issuer, the report port.
pub fn egress_of_every_pod(install: &Install) -> Vec<NetworkPolicyEgressRule> {
    vec![
        NetworkPolicyEgressRule {
            ports: Some(vec![port("UDP", DNS_PORT), port("TCP", DNS_PORT)]),
            to: None,
        },
        NetworkPolicyEgressRule {
            ports: Some(vec![port("TCP", issuance::PORT), port("TCP", report::PORT)]),
            to: Some(vec![pods_of_namespace(&install.namespace)]),
        },
    ]
}

/// To the bridges of these McpServers of the pod's namespace.
pub fn egress_to_servers(servers: &BTreeSet<String>) -> Option<NetworkPolicyEgressRule> {
    let peers: Vec<NetworkPolicyPeer> = servers
        .iter()
        .map(|name| NetworkPolicyPeer {
            pod_selector: Some(selector(labels::MCP_SERVER, name)),
            ..NetworkPolicyPeer::default()
        })
        .collect();
    (!peers.is_empty()).then(|| NetworkPolicyEgressRule {
        ports: Some(vec![port("TCP", SERVE_PORT)]),
        to: Some(peers),
    })
}

/// To what the spec declares.
pub fn egress_to_ways(ways: &BTreeSet<Way>) -> Vec<NetworkPolicyEgressRule> {
    ways.iter()
        .map(|way| match way {
            Way::Namespace(namespace) => NetworkPolicyEgressRule {
                ports: None,
                to: Some(vec![pods_of_namespace(namespace)]),
            },
            Way::Port(number) => NetworkPolicyEgressRule {
                ports: Some(vec![port("TCP", *number)]),
                to: Some(LINK_LOCAL.map(|(cidr, except)| everywhere(cidr, except)).to_vec()),
            },
        })
        .collect()
}

/// To the A2A port, from these namespaces; nobody when there is none.
pub fn ingress_from(namespaces: &BTreeSet<String>) -> Option<NetworkPolicyIngressRule> {
    let peers: Vec<NetworkPolicyPeer> = namespaces
        .iter()
        .map(|namespace| pods_of_namespace(namespace))
        .collect();
    (!peers.is_empty()).then(|| NetworkPolicyIngressRule {
        ports: Some(vec![port("TCP", SERVE_PORT)]),
        from: Some(peers),
    })
}

/// To the port that is served, from anywhere: callers are known by what they prove.
pub fn ingress_from_anywhere() -> NetworkPolicyIngressRule {
    NetworkPolicyIngressRule {
        ports: Some(vec![port("TCP", SERVE_PORT)]),
        from: None,
    }
}

/// To the metrics, from anywhere.
pub fn ingress_to_metrics() -> NetworkPolicyIngressRule {
    NetworkPolicyIngressRule {
        ports: Some(vec![port("TCP", ADMIN_PORT)]),
        from: None,
    }
}

fn port(protocol: &str, number: u16) -> NetworkPolicyPort {
    NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(IntOrString::Int(i32::from(number))),
        end_port: None,
    }
}

fn pods_of_namespace(name: &str) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        namespace_selector: Some(selector(NAMESPACE_NAME, name)),
        ..NetworkPolicyPeer::default()
    }
}

fn selector(label: &str, value: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some(BTreeMap::from([(label.to_owned(), value.to_owned())])),
        match_expressions: None,
    }
}

fn everywhere(cidr: &str, except: &str) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        ip_block: Some(IPBlock {
            cidr: cidr.to_owned(),
            except: Some(vec![except.to_owned()]),
        }),
        ..NetworkPolicyPeer::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_name_services() {
        let ways = |text: &str| ways(&Url::parse(text).unwrap(), "own", "cluster.local");
        let namespace = |name: &str| Way::Namespace(name.to_owned());
        assert_eq!(ways("https://gw/v1"), [namespace("own")]);
        assert_eq!(ways("https://gw.models.svc:8443/v1"), [namespace("models")]);
        assert_eq!(
            ways("https://gw.models.svc.cluster.local./v1"),
            [namespace("models")]
        );
        assert_eq!(
            ways("https://gw-0.gw.models.svc.cluster.local"),
            [namespace("models")]
        );
        assert_eq!(
            ways("http://gw.models:8080"),
            [namespace("models"), Way::Port(8080)]
        );
        assert_eq!(ways("https://api.example.com"), [Way::Port(443)]);
        assert_eq!(ways("https://10.1.2.3:9"), [Way::Port(9)]);
        assert_eq!(ways("https://[fd00::1]"), [Way::Port(443)]);
        assert_eq!(ways("https://svc.example.org:444"), [Way::Port(444)]);
    }
}
