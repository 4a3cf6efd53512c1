//! Labels, annotations and field managers.

/// The field manager of everything the controllers apply, status included.
pub const FIELD_MANAGER: &str = "agentd";
/// The field manager of facts that pods reported.
pub const REPORT_MANAGER: &str = "agentd-report";

/// Label of everything the operator makes, pods included.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Its value.
pub const MANAGED_BY_VALUE: &str = "agentd";
/// Label of what belongs to an Agent: its name.
pub const AGENT: &str = "agentd.io/agent";
/// Label of what belongs to an McpServer: its name.
pub const MCP_SERVER: &str = "agentd.io/mcp-server";
/// Label of the leader's pod, by which the report Service finds it.
pub const LEADER: &str = "agentd.io/leader";
/// Label of a ServiceAccount that may get an SVID to call with.
pub const CALLER: &str = "agentd.io/caller";
/// Annotation of a pod (the digest that its live folder should have, and since when) and of a pod template (the digest
/// that a pod did not take up in time, which rolls it).
pub const LIVE_DIGEST: &str = "agentd.io/live-digest";
/// Annotation of an applied object: the hash of what was applied.
pub const APPLIED: &str = "agentd.io/applied";
/// Annotation of a live ConfigMap: the UIDs of the McpServers that its entries were made of, by the entry's name; JSON.
pub const SERVERS: &str = "agentd.io/mcp-servers";
/// Label of a claim that outlives its Agent: the Agent's UID.
pub const AGENT_UID: &str = "agentd.io/agent-uid";
/// Label of the two ConfigMaps of a revision: its hash.
pub const REVISION: &str = "agentd.io/revision";
/// Labels and annotations that begin so are ours; nobody sets them through a spec.
pub const OURS: &str = "agentd.io/";
