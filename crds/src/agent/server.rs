//! `spec.mcpServers`: what the agent can act with.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::shared::{Destination, Duration, McpServerReference, Tag, ToolTags};

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
