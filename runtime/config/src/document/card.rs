//! What the agent's card says beside what every agent's says: where callers from outside reach it, skills, extensions of
//! the protocol.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Role, ServerTls, is_default};

/// `a2a.external`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct External {
    /// The https URL that callers from outside use, beside `a2a.url`.
    pub url: String,
    /// The certificate that is served to whoever names the host of this URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServerTls>,
}

/// One entry of `a2a.skills`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Skill {
    /// Unique.
    pub id: String,
    /// For people.
    pub name: String,
    /// What it does, for those who choose an agent.
    pub description: String,
    /// Keywords.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Prompts that it answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// The least role that is told of it, by the extended card. Absent: everybody, by the public card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

/// One entry of `a2a.extensions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Extension {
    /// What callers name it by.
    pub uri: String,
    /// What it is for here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A call that does not name it is refused.
    #[serde(default, skip_serializing_if = "is_default")]
    pub required: bool,
    /// What the extension says that a card holds of it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
    /// The least role that it is there for. Absent: everybody, and the public card says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}
