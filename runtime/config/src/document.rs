//! The document `agentd` runs. Unknown keys are refused. Every leaf is a file key, an environment variable
//! (`limits.run.steps` = `AGENTD_LIMITS_RUN_STEPS`) and a flag (`--limits.run.steps`).
//!
//! In a pod it comes in two files: a restart-only half and a reloadable half ([`Document::RELOADABLE`]); a JSON merge
//! patch (RFC 7396) of the second onto the first gives the whole.

mod budget;
mod card;
mod connection;
mod context;
mod intelligence;
mod principal;
mod store;
mod tools;

use std::collections::BTreeMap;
use std::path::PathBuf;

use agentd_base::duration::Duration;
use agentd_base::rate::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::budget::{Budget, Degrade, Exhausted, Per, Reserve, Slow, Window};
pub use self::card::{Extension, External, Skill};
pub use self::connection::{Auth, ClientTls, Connection, OAuth2Auth, StaticAuth};
pub use self::context::{Context, Plan};
pub use self::intelligence::{Dialect, Intelligence, ModelEndpoint, StructuredOutput};
pub use self::principal::{Oidc, Principal, Quotas, Role};
pub use self::store::{HttpOp, HttpStore, McpOp, McpStore, Retention, Store, StoreKind, TaskRetention};
pub use self::tools::{AgentTools, Discover, Mapped, Memory, Override, Skills, SkillsSource, Tools};

/// The whole document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Document {
    /// Who the agent is and what it is for.
    #[serde(skip_serializing_if = "is_default")]
    pub agent: Agent,
    /// The language model.
    #[serde(skip_serializing_if = "is_default")]
    pub intelligence: Intelligence,
    /// The MCP servers: the whole action space.
    #[serde(skip_serializing_if = "is_default")]
    pub mcp: Mcp,
    /// Which of our own tools there are, and which server's tool stands behind a contract.
    #[serde(skip_serializing_if = "is_default")]
    pub tools: Tools,
    /// The server of the `knowledge.*` contract.
    #[serde(skip_serializing_if = "is_default")]
    pub knowledge: Mapped,
    /// The server of the `search.*` contract.
    #[serde(skip_serializing_if = "is_default")]
    pub search: Mapped,
    /// What the agent remembers by itself.
    #[serde(skip_serializing_if = "is_default")]
    pub memory: Memory,
    /// Texts that the agent can take up when it needs them.
    #[serde(skip_serializing_if = "is_default")]
    pub skills: Skills,
    /// How much of a conversation the model is shown.
    #[serde(skip_serializing_if = "is_default")]
    pub context: Context,
    /// How others reach the agent.
    #[serde(skip_serializing_if = "is_default")]
    pub a2a: A2a,
    /// Where state lives.
    #[serde(skip_serializing_if = "is_default")]
    pub store: Store,
    /// What a turn may use up.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: Limits,
    /// Start and end of the process.
    #[serde(skip_serializing_if = "is_default")]
    pub lifecycle: Lifecycle,
    /// The pod's SPIFFE identity; absent outside a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Where the pod reports its state; absent outside a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// What holds for every connection.
    #[serde(skip_serializing_if = "is_default")]
    pub security: Security,
    /// Logs, probes, metrics.
    #[serde(skip_serializing_if = "is_default")]
    pub observability: Observability,
}

impl Document {
    /// The paths that a running process takes up without a restart. Everything else is restart-only.
    pub const RELOADABLE: [&str; 15] = [
        "agent.instruction",
        "agent.max_parallel_turns",
        "agent.tools",
        "intelligence",
        "mcp",
        "tools",
        "knowledge",
        "search",
        "memory",
        "skills",
        "context",
        "a2a.principals",
        "limits",
        "observability.log_level",
        "observability.log_content",
    ];

    /// JSON Schema of the whole. It knows the long forms only; files, variables and flags take the short ones too.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }
}

/// `agent`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Agent {
    /// The durable name of this instance. Absent: the pod's name, else the host's, else `agentd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The standing instruction; may be one `{{secret-file:PATH}}`, or the URI of a resource of an MCP server, which is
    /// read, subscribed to, and there before the first turn. At most 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// A task to do once; the answer goes to stdout and the process ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Turns that run at the same time; others wait. Absent: 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub max_parallel_turns: Option<u32>,
    /// What the model of a conversation is shown.
    #[serde(skip_serializing_if = "is_default")]
    pub tools: AgentTools,
}

/// `mcp`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mcp {
    /// For servers without a `timeout`. Absent: 60 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_timeout: Option<Duration>,
    /// By name. In env and flags a comma-separated list of `name=endpoint`; `--mcp name=endpoint` adds one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<McpServer>,
    /// When a changed list of tools counts. Absent: `reload`.
    #[serde(skip_serializing_if = "is_default")]
    pub tools_refresh: ToolsRefresh,
}

/// `mcp.tools_refresh`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolsRefresh {
    /// A change is logged and counts from the next reload on.
    #[default]
    Reload,
    /// A change counts at once.
    Live,
}

/// One entry of `mcp.servers`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServer {
    /// Unique; letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// `https://host[:port][/path]`, or loopback `http://`.
    pub endpoint: String,
    /// Prefix of its tools: they arrive as `ns.tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns: Option<String>,
    /// Globs of the tools that are let in. Absent: all. Empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Globs of the tools that are kept out; it wins over `allow`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// What its tools are, by glob of their names; a bare list is `{"*": [...]}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, Vec<Tag>>,
    /// One `tools/call`. Absent: 60 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_timeout: Option<Duration>,
    /// Headers, credentials, TLS, clocks.
    #[serde(flatten)]
    pub connection: Connection,
}

/// What a tool does with data, as the person who declares its server sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tag {
    /// It brings in text that strangers write.
    UntrustedInput,
    /// It reads what is not for everybody.
    Sensitive,
    /// It carries data out.
    Egress,
}

/// `a2a`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct A2a {
    /// `https://ADDRESS:PORT`, or loopback `http://` together with `dev`. Absent: no listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// The URL that the card promises. Absent: the listener's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How callers from outside reach it, where that is another way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    /// What the card says that the agent can do. Absent: that it takes messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<Skill>,
    /// Extensions of the protocol that callers may name, or must.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Extension>,
    /// Whether the card is signed, with the key of `identity`.
    #[serde(skip_serializing_if = "is_default")]
    pub sign_card: bool,
    /// Whether callers may be told of their tasks at a URL of theirs.
    #[serde(skip_serializing_if = "is_default")]
    pub push: Push,
    /// Given certificates; absent where `identity` provides the SVID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServerTls>,
    /// Who may call. Nobody by default; a caller gets the union of what matches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub principals: Vec<Principal>,
    /// Loopback only: every caller is an operator. For development.
    #[serde(skip_serializing_if = "is_default")]
    pub dev: bool,
}

/// `a2a.push`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Push {
    /// Callers may give an https URL at a public address, to which the agent sends their task each time its state changes.
    #[serde(skip_serializing_if = "is_default")]
    pub enabled: bool,
    /// Also at private and loopback addresses, and http on loopback; never at link-local and metadata addresses.
    #[serde(skip_serializing_if = "is_default")]
    pub allow_private: bool,
}

/// `a2a.tls`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerTls {
    /// Chain, PEM, leaf first.
    pub cert: PathBuf,
    /// Key, PEM.
    pub key: PathBuf,
}

/// `limits`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Of one turn.
    #[serde(skip_serializing_if = "is_default")]
    pub run: RunLimits,
    /// Of the subagents that turns start.
    #[serde(skip_serializing_if = "is_default")]
    pub subagents: SubagentLimits,
}

/// `limits.subagents`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SubagentLimits {
    /// How many generations below a conversation. Absent: 3. None at 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 16))]
    pub depth: Option<u32>,
    /// Live ones of one parent. Absent: 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 256))]
    pub breadth: Option<u32>,
    /// Live ones of the whole agent. Absent: 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub total: Option<u32>,
    /// How fast they may be started: `<burst>/<seconds>s`. Absent: `8/2s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// `limits.run`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunLimits {
    /// Tool calls and model calls. Absent: 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub steps: Option<u32>,
    /// Tokens, both ways. Absent: 2 000 000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens: Option<u64>,
    /// Wall clock. Absent: 1 h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
}

/// `lifecycle`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Lifecycle {
    /// From SIGTERM to the end. Absent: 25 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_timeout: Option<Duration>,
    /// A folder whose JSON and YAML files are layered last and read again, whole or not at all, when it changes: the
    /// live ConfigMap of a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_folder: Option<PathBuf>,
    /// Reads the configuration files again when they change, as SIGHUP does.
    #[serde(skip_serializing_if = "is_default")]
    pub watch_config: bool,
}

/// `identity`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The trust domain.
    pub trust_domain: String,
    /// The ID that this process has.
    pub spiffe_id: String,
    /// `https://<issuer Service>.<namespace>.svc:8443`.
    pub issuer_url: String,
    /// The SPIFFE ID of the issuer.
    pub issuer_id: String,
    /// The projected ServiceAccount token, with the issuer's audience.
    pub token_file: PathBuf,
    /// The trust bundle, PEM; read again when it changes.
    pub bundle_file: PathBuf,
}

/// `report`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// `https://<report Service>.<namespace>.svc:8444`.
    pub url: String,
    /// The SPIFFE ID of the operator.
    pub server_id: String,
}

/// `security`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Security {
    /// PEM roots added to the bundled ones, for every outbound connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<PathBuf>,
    /// Lets one turn hold tools of all three kinds: untrusted input, sensitive, egress. Each such start is audited.
    #[serde(skip_serializing_if = "is_default")]
    pub allow_trifecta: bool,
    /// The contract `exec`.
    #[serde(skip_serializing_if = "is_default")]
    pub exec: Exec,
}

/// `security.exec`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Exec {
    /// Lets a server's tool stand behind `exec` (`tools.overrides`), in builds with the feature `exec`. Nothing is run
    /// here.
    #[serde(skip_serializing_if = "is_default")]
    pub enabled: bool,
}

/// The contract that runs commands.
pub const EXEC: &str = "exec";

impl Document {
    /// Whether `exec` can be there at all: this build has it, and the operator enabled it.
    pub fn may_exec(&self) -> bool {
        cfg!(feature = "exec") && self.security.exec.enabled
    }
}

/// `observability`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Observability {
    /// Absent: `info`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    /// `ADDRESS:PORT` of `/healthz`, `/readyz`, `/metrics`. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_addr: Option<std::net::SocketAddr>,
    /// Logs what was said: prompts, answers, arguments, results. For development.
    #[serde(skip_serializing_if = "is_default")]
    pub log_content: bool,
    /// Traces by OTLP, in builds with the feature `otel`. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otel: Option<Otel>,
}

/// `observability.otel`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Otel {
    /// The collector's base URL, such as `http://collector.example:4318`; `/v1/traces` is appended. Plain `http` only to a
    /// private address.
    pub endpoint: String,
}

/// `observability.log_level`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Faults that need a person.
    Error,
    /// What went wrong and was survived.
    Warn,
    /// What happens.
    #[default]
    Info,
    /// Why it happens.
    Debug,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
