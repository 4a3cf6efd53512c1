//! `Agent`: one AI agent, its instruction, model, MCP servers, callers and store.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::{
    AgentReference, Anything, Destination, Duration, LocalReference, McpServerReference, NetworkPolicy,
    Opaque, Quantity, Reported, Resources, Tag, TextSource, ToolTags, is_default,
};

/// The size of a claim when the spec names none.
pub const DEFAULT_STORE_SIZE: &str = "1Gi";

/// What the agent is, what it may use and who may call it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "agentd.io",
    version = "v1alpha1",
    kind = "Agent",
    plural = "agents",
    shortname = "agd",
    category = "agentd",
    namespaced,
    doc = "An AI agent: a pod that reasons with a language model, acts through the MCP servers declared here and answers A2A.",
    status = "AgentStatus",
    derive = "PartialEq",
    derive = "Default",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(
        name = "REASON",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1
    ),
    printcolumn(name = "MODEL", type_ = "string", json_path = ".spec.intelligence.model"),
    printcolumn(name = "TOOLS", type_ = "integer", json_path = ".status.tools.count"),
    printcolumn(name = "LAST-RUN", type_ = "string", json_path = ".status.lastRun.outcome"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url", priority = 1),
    printcolumn(name = "SUSPENDED", type_ = "boolean", json_path = ".spec.suspend"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,44}[a-z0-9])?$')").message(
        "the name is at most 46 characters of a-z, 0-9 and -, beginning with a letter: it becomes a Service and CronJob name"
    )
)]
#[x_kube(
    validation = Rule::new("has(self.instruction) != has(self.instructionFrom)")
        .message("exactly one of instruction, instructionFrom"),
    validation = Rule::new("!has(self.a2a) || self.run.mode == 'Service'")
        .message("a2a is for run.mode Service only: a Job or CronJob does not listen"),
    validation = Rule::new("self.run.mode == oldSelf.run.mode")
        .message("run.mode is immutable: make another Agent"),
    validation = Rule::new(STORE_KIND_RULE)
        .message("the store's kind, class and claim are immutable: make another Agent"),
    validation = Rule::new(STORE_SIZE_RULE)
        .message("store.file.size only grows"),
)]
pub struct AgentSpec {
    /// The standing instruction, at most 64 KiB. Exactly one of instruction, instructionFrom.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 65536))]
    pub instruction: Option<String>,
    /// The standing instruction, from a ConfigMap or Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction_from: Option<TextSource>,
    /// The language model.
    pub intelligence: Intelligence,
    /// The MCP servers: everything the agent can act with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub mcp_servers: Vec<McpServerUse>,
    /// Workflow documents, or references to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub workflows: Vec<Opaque>,
    /// Long-lived, once, or on a schedule.
    #[serde(default)]
    pub run: Run,
    /// Who may call the agent and whom it may call. Only for mode Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a2a: Option<A2a>,
    /// Where state lives. Absent: a file on a claim (Service), memory (Job, CronJob).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Store>,
    /// What one turn may use up.
    #[serde(default)]
    pub limits: Limits,
    /// What is otherwise refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<Security>,
    /// Other keys of the runtime document, from an allow-list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Opaque>,
    /// 0 or 1. Absent: not written, so that an autoscaler may own it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub replicas: Option<i32>,
    /// Stops the agent and takes its identity out of all lists.
    #[serde(default)]
    pub suspend: bool,
    /// The image of agentd, instead of the install's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Secrets that pull the image, instead of the install's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub image_pull_secrets: Vec<LocalReference>,
    /// Requests and limits of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The pod's ServiceAccount, which is its identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccount>,
    /// Merged into the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<Opaque>,
    /// The pod's NetworkPolicy.
    #[serde(default)]
    pub network_policy: NetworkPolicy,
    /// Always, or OnSpecChange: a new install default waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<UpdatePolicy>,
}

/// Kind, class and claim of the store, as one string, before and after.
const STORE_KIND_RULE: &str = "(has(self.store) ? (has(self.store.file) ? (has(self.store.file.ephemeral) && self.store.file.ephemeral ? 'ephemeral' : \
     has(self.store.file.claimName) ? 'claim/' + self.store.file.claimName : 'file/' + (has(self.store.file.storageClassName) ? self.store.file.storageClassName : '')) : \
     has(self.store.memory) ? 'memory' : has(self.store.mcp) ? 'mcp' : 'http') : (self.run.mode == 'Service' ? 'file/' : 'memory')) == \
     (has(oldSelf.store) ? (has(oldSelf.store.file) ? (has(oldSelf.store.file.ephemeral) && oldSelf.store.file.ephemeral ? 'ephemeral' : \
     has(oldSelf.store.file.claimName) ? 'claim/' + oldSelf.store.file.claimName : 'file/' + (has(oldSelf.store.file.storageClassName) ? oldSelf.store.file.storageClassName : '')) : \
     has(oldSelf.store.memory) ? 'memory' : has(oldSelf.store.mcp) ? 'mcp' : 'http') : (oldSelf.run.mode == 'Service' ? 'file/' : 'memory'))";

/// The size of the claim, absent meaning the default.
const STORE_SIZE_RULE: &str = "!quantity(has(self.store) && has(self.store.file) && has(self.store.file.size) ? self.store.file.size : '1Gi')\
     .isLessThan(quantity(has(oldSelf.store) && has(oldSelf.store.file) && has(oldSelf.store.file.size) ? oldSelf.store.file.size : '1Gi'))";

/// The language model. Exactly one of endpoints, ref.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.endpoints) != has(self.ref)").message("exactly one of endpoints, ref"))]
pub struct Intelligence {
    /// In order of preference: the next is used when one is away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub endpoints: Vec<ModelEndpoint>,
    /// Reserved.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<Opaque>,
    /// The model's name, as the endpoints know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub model: Option<String>,
    /// The wire family of the endpoints.
    #[serde(default)]
    pub dialect: Dialect,
    /// Tokens over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

/// Wire families.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum Dialect {
    #[default]
    Openai,
    OpenaiResponses,
    Anthropic,
    Bedrock,
}

/// One model endpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelEndpoint {
    /// A name for logs and messages.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The base of the API over https, such as https://gw.example/v1.
    #[schemars(length(max = 2048))]
    pub url: String,
    /// Lets url be http:// for a model server inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_plaintext: Option<bool>,
    /// Headers, credentials, TLS, clocks.
    #[serde(flatten)]
    pub destination: Destination,
}

/// Tokens over time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Every window holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub windows: Vec<BudgetWindow>,
    /// For the life of the Agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub lifetime_tokens: Option<i64>,
    /// What happens when a budget is spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exhausted: Option<OnExhausted>,
}

/// One window of a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetWindow {
    /// second, minute, hour, day or week.
    pub per: BudgetPeriod,
    /// Tokens in it, both ways.
    #[schemars(range(min = 1))]
    pub tokens: i64,
}

/// The length of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum BudgetPeriod {
    Second,
    Minute,
    Hour,
    Day,
    Week,
}

/// What happens when a budget is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum OnExhausted {
    Wait,
    Slow,
    Degrade,
    Refuse,
    Fail,
}

/// One MCP server of the agent: a reference or an inline destination.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.ref) != has(self.url)").message("exactly one of ref, url"),
    validation = Rule::new("!has(self.ref) || !(has(self.headers) || has(self.auth) || has(self.tls) || has(self.timeout) || has(self.connectTimeout) || has(self.callTimeout) || has(self.namespacePrefix) || has(self.tags) || has(self.toolTags))")
        .message("with ref, these stand in the McpServer: headers, auth, tls, timeout, connectTimeout, callTimeout, namespacePrefix, tags, toolTags"),
)]
pub struct McpServerUse {
    /// The name in the agent's catalogue.
    #[schemars(length(max = 63))]
    pub name: String,
    /// An McpServer.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<McpServerReference>,
    /// The endpoint of a server that has no McpServer, over https.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub url: Option<String>,
    /// Headers, credentials, TLS, clocks.
    #[serde(flatten)]
    pub destination: Destination,
    /// One tools/call. Absent: 60s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_timeout: Option<Duration>,
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
    /// Absent or true: the first Ready of a generation waits for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Which of its tools the agent gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolChoice>,
}

/// Which tools of a server the agent gets; globs over their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolChoice {
    /// Absent: all. Empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub allow: Option<Vec<String>>,
    /// Taken out of what is allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub deny: Vec<String>,
    /// Called only after a person approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub require_approval: Vec<String>,
}

/// How the agent runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.mode != 'Service' || !has(self.prompt)").message("prompt is for Job and CronJob"),
    validation = Rule::new("self.mode == 'Service' || has(self.prompt)").message("a Job or CronJob needs a prompt"),
    validation = Rule::new("self.mode == 'Job' || !(has(self.rerun) || has(self.backoffLimit) || has(self.ttlAfterFinished))")
        .message("rerun, backoffLimit and ttlAfterFinished are for mode Job"),
    validation = Rule::new("self.mode == 'CronJob' ? has(self.schedule) : !(has(self.schedule) || has(self.timeZone) || has(self.concurrencyPolicy) || has(self.startingDeadline) || has(self.historyLimit))")
        .message("a CronJob needs a schedule; schedule, timeZone, concurrencyPolicy, startingDeadline and historyLimit are for mode CronJob"),
)]
pub struct Run {
    /// Service: long-lived. Job: once. CronJob: on a schedule. Immutable.
    #[serde(default)]
    pub mode: RunMode,
    /// The task of a Job or CronJob.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 65536))]
    pub prompt: Option<String>,
    /// Job: change it to run again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub rerun: Option<String>,
    /// Job: tries after the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub backoff_limit: Option<i32>,
    /// Job: how long it stays after its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_after_finished: Option<Duration>,
    /// CronJob: five fields, as cron has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub schedule: Option<String>,
    /// CronJob: a name such as Europe/Berlin.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// CronJob: what happens when the last run is not over. Absent: Forbid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_policy: Option<ConcurrencyPolicy>,
    /// CronJob: a run that could not start for this long is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starting_deadline: Option<Duration>,
    /// CronJob: finished runs that are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub history_limit: Option<i32>,
}

/// How long an agent lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum RunMode {
    #[default]
    Service,
    Job,
    CronJob,
}

/// What happens when the last run of a CronJob is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum ConcurrencyPolicy {
    Allow,
    Forbid,
    Replace,
}

/// Agent-to-agent: who may call, whom this agent may call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct A2a {
    /// What the card advertises.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub skills: Vec<Opaque>,
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
    /// A bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer: Option<Opaque>,
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

/// Where state lives. Exactly one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.file), has(self.memory), has(self.mcp), has(self.http)].exists_one(x, x)")
    .message("exactly one of file, memory, mcp, http"))]
pub struct Store {
    /// A database file on a volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileStore>,
    /// Gone with the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStore>,
    /// An MCP server keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpStore>,
    /// An HTTP service keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpStore>,
}

/// A store in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryStore {}

/// A store in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(has(self.ephemeral) && self.ephemeral) || !(has(self.size) || has(self.storageClassName) || has(self.retain) || has(self.claimName))")
        .message("ephemeral needs no size, storageClassName, retain or claimName"),
    validation = Rule::new("!has(self.claimName) || !(has(self.size) || has(self.storageClassName) || has(self.retain))")
        .message("a claim of yours has its own size and class, and is kept: no size, storageClassName or retain beside claimName"),
)]
pub struct FileStore {
    /// The size of the claim. It only grows. Absent: 1Gi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    /// The class of the claim. Absent: the cluster's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
    /// What happens to the claim when the Agent goes. Absent: Delete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retain: Option<Retain>,
    /// A claim that is there already, such as one that another Agent left behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub claim_name: Option<String>,
    /// The state goes with the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<bool>,
}

impl FileStore {
    /// Whether the state goes with the pod.
    pub fn is_ephemeral(&self) -> bool {
        self.ephemeral == Some(true)
    }
}

/// What happens to a claim when its Agent goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum Retain {
    Delete,
    Retain,
}

/// A store behind an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpStore {
    /// A name in mcpServers.
    #[schemars(length(min = 1, max = 63))]
    pub server: String,
}

/// A store behind HTTP.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpStore {
    /// The base over https.
    #[schemars(length(max = 2048))]
    pub url: String,
    /// Headers, credentials, TLS, clocks.
    #[serde(flatten)]
    pub destination: Destination,
}

/// What one turn may use up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Model and tool calls.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub steps: i32,
    /// Tokens, both ways.
    #[schemars(range(min = 1))]
    pub tokens: i64,
    /// Wall clock.
    pub deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 500,
            tokens: 2_000_000,
            deadline: Duration("1h".into()),
        }
    }
}

/// What is otherwise refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Security {
    /// Lets one agent have untrusted input, sensitive data and a way out at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_trifecta: Option<bool>,
}

/// The pod's ServiceAccount.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccount {
    /// One that is there already, with the label agentd.io/used-by. Absent: one is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// Annotations of the one that is made.
    #[serde(default, skip_serializing_if = "is_default")]
    pub annotations: BTreeMap<String, String>,
    /// Labels of the one that is made.
    #[serde(default, skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,
}

/// When a new install default arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "variants are described at their field")]
pub enum UpdatePolicy {
    Always,
    OnSpecChange,
}

/// What is, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// The generation that conditions and the rest are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Accepted, ResolvedRefs, IdentityReady, ToolsReady, Ready, and Reconciling, Stalled, Degraded while they hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Where callers in the cluster reach the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its identity.
    #[serde(rename = "spiffeID", skip_serializing_if = "Option::is_none")]
    pub spiffe_id: Option<String>,
    /// The digest of the live configuration that the pod should run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_digest: Option<String>,
    /// The digest that it reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_digest: Option<String>,
    /// What the pod reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<Reported>,
    /// Pods of the workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Those that serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// The label selector of the pods, for autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// What is spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_versions: Option<ProtocolVersions>,
    /// The agent's catalogue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsSummary>,
    /// The run that ended last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run: Option<LastRun>,
}

/// What is spoken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProtocolVersions {
    /// By the A2A listener.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub a2a: Vec<String>,
    /// With each MCP server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp: BTreeMap<String, String>,
}

/// The agent's catalogue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolsSummary {
    /// Tools after allow and deny.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
    /// Over names and definitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The run that ended last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastRun {
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Model and tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<i64>,
    /// Tokens, both ways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<i64>,
    /// One line for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The task it did: a finished digest is never run again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_digest: Option<String>,
}
