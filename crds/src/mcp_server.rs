//! `McpServer`: tools for agents, at an endpoint or run by the operator behind a bridge.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::{
    Auth, ClientTls, Duration, Header, NetworkPolicy, Opaque, Reported, Resources, Tag, TextSource, ToolTags,
};

/// The port of an operator-run server when the spec names none.
pub const DEFAULT_PORT: i32 = 8080;
/// Its path when the spec names none.
pub const DEFAULT_PATH: &str = "/mcp";

/// Where the server is and who may use it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "agentd.io",
    version = "v1alpha1",
    kind = "McpServer",
    plural = "mcpservers",
    shortname = "mcps",
    category = "agentd",
    namespaced,
    doc = "An MCP server: one that is reached at an endpoint, or one that the operator runs behind a bridge with an identity.",
    status = "McpServerStatus",
    derive = "PartialEq",
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(
        name = "REASON",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1
    ),
    printcolumn(name = "SERVER", type_ = "string", json_path = ".status.serverInfo.name"),
    printcolumn(name = "TOOLS", type_ = "integer", json_path = ".status.toolCount"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.address.url", priority = 1),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,44}[a-z0-9])?$')").message(
        "the name is at most 46 characters of a-z, 0-9 and -, beginning with a letter: it becomes a Service and CronJob name"
    )
)]
#[x_kube(
    validation = Rule::new("has(self.endpoint) != has(self.deployment)").message("exactly one of endpoint, deployment"),
    validation = Rule::new("!has(self.deployment) || !(has(self.headers) || has(self.auth) || has(self.tls))")
        .message("headers, auth and tls are for an endpoint: towards a deployment agents use their own identity"),
)]
pub struct McpServerSpec {
    /// The URL of a server that runs elsewhere, over https. Exactly one of endpoint, deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub endpoint: Option<String>,
    /// Sent with each request. What carries a credential must use valueFrom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub headers: Vec<Header>,
    /// How requests are authenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Roots, client certificate and name for TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
    /// A server that the operator runs. Exactly one of endpoint, deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<ServerDeployment>,
    /// Handshake and each list page.
    #[serde(default = "one_minute")]
    pub timeout: Duration,
    /// TCP and TLS.
    #[serde(default = "ten_seconds")]
    pub connect_timeout: Duration,
    /// One tools/call.
    #[serde(default = "one_minute")]
    pub call_timeout: Duration,
    /// Tools arrive as prefix.tool. Absent: no prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub namespace_prefix: Option<String>,
    /// What all its tools may do to trust.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub tags: Vec<Tag>,
    /// The same for some of its tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub tool_tags: Vec<ToolTags>,
    /// How changed tools are taken up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolPolicy>,
    /// Who may use it. Absent: the Agents of this namespace that reference it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_agents: Option<AllowedAgents>,
    /// The NetworkPolicy of the pods that the operator runs.
    #[serde(default)]
    pub network_policy: NetworkPolicy,
}

fn one_minute() -> Duration {
    Duration("60s".into())
}

fn ten_seconds() -> Duration {
    Duration("10s".into())
}

/// A server that the operator runs: this container, and beside it a bridge that lets in agents only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.transport != 'stdio' || (has(self.command) && size(self.command) > 0)")
        .message("stdio needs a command"),
    validation = Rule::new("self.transport != 'stdio' || !(has(self.port) || has(self.path))")
        .message("port and path are for transport http"),
    validation = Rule::new("!has(self.port) || !(self.port in [8443, 9090])")
        .message("8443 and 9090 are the bridge's: let the server listen on another port"),
)]
pub struct ServerDeployment {
    /// The server's image.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// Instead of the image's entrypoint. Required for stdio.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 4096)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub command: Vec<String>,
    /// Instead of the image's arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 4096)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub args: Vec<String>,
    /// http: it listens on port and path. stdio: it is wrapped.
    #[serde(default)]
    pub transport: Transport,
    /// Where it listens, on 127.0.0.1; not 8443 or 9090. Absent: 8080.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// Its MCP path. Absent: /mcp.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub path: Option<String>,
    /// Its environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// Requests and limits of its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Pods. Absent: not written, so that an autoscaler may own it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub replicas: Option<i32>,
    /// Merged into the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<Opaque>,
    /// The user to run as, where the image's is not a number; never root.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub run_as_user: Option<i64>,
}

/// How the bridge reaches the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum Transport {
    #[default]
    Http,
    Stdio,
}

/// One environment variable. At most one of value, valueFrom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.value) && has(self.valueFrom))").message("one of value, valueFrom"))]
pub struct EnvVar {
    /// Its name.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"))]
    pub name: String,
    /// A value that is no secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub value: Option<String>,
    /// A value from a Secret or ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<TextSource>,
}

/// How changed tools are taken up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolPolicy {
    /// true: a changed tool schema is held back until it is approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<bool>,
}

/// Who may use a server. An empty object is refused.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.namespaces) || has(self.agents) || has(self.spiffeIDs)")
    .message("say at least one of namespaces, agents, spiffeIDs; leave allowedAgents out to allow the Agents of this namespace that reference the server"))]
pub struct AllowedAgents {
    /// Whose Agents. Absent: of this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<AllowedNamespaces>,
    /// Of those, only these. Absent: all. Empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["namespace".into(), "name".into()]))]
    pub agents: Option<Vec<AllowedAgent>>,
    /// Exact SPIFFE IDs of callers that are not Agents.
    #[serde(rename = "spiffeIDs", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 2048)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub spiffe_ids: Option<Vec<String>>,
}

/// Whose Agents may use a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.from == 'Selector') == has(self.selector)").message("selector goes with from: Selector"))]
pub struct AllowedNamespaces {
    /// Same, Selector or All.
    pub from: NamespacesFrom,
    /// With Selector: a label selector over Namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Opaque>,
}

/// Which namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum NamespacesFrom {
    Same,
    Selector,
    All,
}

/// One Agent that may use a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedAgent {
    /// Its namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = 46))]
    pub name: String,
}

/// What is, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatus {
    /// The generation that conditions and the rest are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Accepted, ResolvedRefs, IdentityReady, Available, Verified, Isolated, Ready, and Reconciling, Stalled while they hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Where agents reach it, once it is verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
    /// What the server says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_info: Option<ServerInfo>,
    /// The server's tools, at most 256 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub tools: Vec<ToolDigest>,
    /// All of its tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_count: Option<i32>,
    /// All of its resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_count: Option<i32>,
    /// What pods reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<Reported>,
}

/// Where agents reach a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Address {
    /// Its URL.
    pub url: String,
}

/// What a server says of itself, cut and cleaned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The MCP revision spoken with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// Names of what it can do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub capabilities: Vec<String>,
}

/// A tool and the digest of its definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolDigest {
    /// Its name at the server.
    pub name: String,
    /// Over its definition.
    pub digest: String,
}
