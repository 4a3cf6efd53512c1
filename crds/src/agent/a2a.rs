//! `spec.a2a`: who may call the agent, whom it may call.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::{AgentReference, Anything, Bearer, Destination, LocalReference, Opaque};

/// Agent-to-agent: who may call, whom this agent may call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct A2a {
    /// What the card advertises.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub skills: Vec<Skill>,
    /// Who may call. Nobody by default; a caller gets the union of what matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub principals: Vec<Principal>,
    /// Whom this agent may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub peers: Vec<Peer>,
    /// How callers outside the cluster reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
}

/// Something that the agent can do, as its card tells of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// Unique.
    #[schemars(length(min = 1, max = 128))]
    pub id: String,
    /// For people.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// What it does, for those who choose an agent.
    #[schemars(length(min = 1, max = 4096))]
    pub description: String,
    /// Keywords.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub tags: Vec<String>,
    /// Prompts that it answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 4096)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub examples: Vec<String>,
    /// The least role that is told of it. Absent: everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

/// A caller or a set of callers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.agentRef), has(self.serviceAccountRef), has(self.namespace), has(self.spiffeID), has(self.oidc), has(self.bearer)].exists_one(x, x)")
    .message("exactly one of agentRef, serviceAccountRef, namespace, spiffeID, oidc, bearer"))]
pub struct Principal {
    /// A name for logs.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// An Agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_ref: Option<AgentReference>,
    /// A ServiceAccount of this namespace with the label agentd.io/caller: "true".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_ref: Option<LocalReference>,
    /// All Agents, or all labelled ServiceAccounts, of a namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<NamespacePrincipal>,
    /// Exactly this SPIFFE ID.
    #[serde(rename = "spiffeID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub spiffe_id: Option<String>,
    /// A person, by an OpenID Connect token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc: Option<Opaque>,
    /// Whoever shows this token in `Authorization: Bearer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer: Option<Bearer>,
    /// operator, user or agent.
    pub role: Role,
    /// What it may do beyond its role.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub grants: Vec<Anything>,
}

/// All callers of one kind in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespacePrincipal {
    /// The namespace.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Agents, or Callers: ServiceAccounts with the label agentd.io/caller: "true".
    pub kind: NamespaceKind,
}

/// Callers of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum NamespaceKind {
    Agents,
    Callers,
}

/// What a caller is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum Role {
    Operator,
    User,
    #[default]
    Agent,
}

/// Whom this agent may call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.agentRef) != has(self.url)").message("exactly one of agentRef, url"))]
pub struct Peer {
    /// The name the agent calls it by.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// An Agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_ref: Option<AgentReference>,
    /// An agent elsewhere, over https.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub url: Option<String>,
    /// Headers, credentials, TLS, clocks.
    #[serde(flatten)]
    pub destination: Destination,
}

/// How callers outside the cluster reach the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct External {
    /// The URL that the card promises them.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// The certificate that is served for its host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ExternalTls>,
}

/// A served certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalTls {
    /// A Secret of type kubernetes.io/tls.
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: String,
}
