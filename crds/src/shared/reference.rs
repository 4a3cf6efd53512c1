//! References. All stay in the namespace of the object that makes them, but for the two whose target opens itself:
//! [`McpServerReference::namespace`] and [`AgentReference::namespace`].

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An object of this namespace, by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct LocalReference {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// One key of a Secret or ConfigMap of this namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct KeyReference {
    /// The Secret's or ConfigMap's name.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,
    /// The key in its data.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[-_a-zA-Z0-9]([-._a-zA-Z0-9]*)$")
    )]
    pub key: String,
}

/// A text that stands elsewhere. Exactly one of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.configMapKeyRef) != has(self.secretKeyRef)")
    .message("exactly one of configMapKeyRef, secretKeyRef"))]
pub struct TextSource {
    /// From a ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyReference>,
    /// From a Secret: mounted as a file, read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyReference>,
}

/// An McpServer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpServerReference {
    /// Its name.
    #[schemars(length(min = 1, max = 46))]
    pub name: String,
    /// Its namespace, when it is another one; the McpServer must allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// An Agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentReference {
    /// Its name.
    #[schemars(length(min = 1, max = 46))]
    pub name: String,
    /// Its namespace, when it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}
