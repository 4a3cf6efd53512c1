//! `networkPolicy`: what the operator makes of the pod's connections, and what a person adds.

use k8s_openapi::api::networking::v1::{NetworkPolicyEgressRule, NetworkPolicyIngressRule};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The pod's NetworkPolicy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicy {
    /// Managed: made from what the spec declares. None: no policy is made.
    #[serde(default)]
    pub mode: NetworkPolicyMode,
    /// Ingress rules added to a managed policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub extra_ingress: Vec<NetworkPolicyIngressRule>,
    /// Egress rules added to a managed policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub extra_egress: Vec<NetworkPolicyEgressRule>,
}

/// Who makes the policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum NetworkPolicyMode {
    #[default]
    Managed,
    None,
}
