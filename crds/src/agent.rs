//! `Agent`: one AI agent, its instruction, model, MCP servers, callers and store. The parts of its spec and its status
//! have files of their own.

mod a2a;
mod intelligence;
mod run;
mod server;
mod status;
mod store;

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::{LocalReference, NetworkPolicy, Opaque, Resources, TextSource, is_default};

pub use a2a::{A2a, External, ExternalTls, NamespaceKind, NamespacePrincipal, Peer, Principal, Role, Skill};
pub use intelligence::{
    Budget, BudgetPeriod, BudgetWindow, Degrade, Dialect, Intelligence, ModelEndpoint, OnExhausted,
};
pub use run::{ConcurrencyPolicy, Limits, Run, RunMode, SubagentLimits};
pub use server::{McpServerUse, ToolChoice};
pub use status::{AgentStatus, LastRun, ProtocolVersions, ToolsSummary};
pub use store::{DEFAULT_STORE_SIZE, FileStore, HttpStore, McpStore, MemoryStore, Retain, Store};

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
