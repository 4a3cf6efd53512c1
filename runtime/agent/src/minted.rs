//! What a turn holds. A subagent holds what was minted for it when it began, by name: what a server offers later it was
//! never given. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The tools that a turn may see and call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// Whatever there is and its kind of turn may have.
    #[default]
    All,
    /// These and no others.
    Minted {
        /// The names at the server, by the server's name in the document.
        servers: BTreeMap<String, BTreeSet<String>>,
        /// Ours, as the contract names them.
        internal: BTreeSet<String>,
    },
}

impl Held {
    /// Whether it has this tool of a server.
    pub fn has_tool(&self, server: &str, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Minted { servers, .. } => servers.get(server).is_some_and(|tools| tools.contains(tool)),
        }
    }

    /// Whether it has this server, if only to read from it.
    pub fn has_server(&self, server: &str) -> bool {
        match self {
            Self::All => true,
            Self::Minted { servers, .. } => servers.contains_key(server),
        }
    }

    /// Whether it has this tool of ours.
    pub fn has_internal(&self, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Minted { internal, .. } => internal.contains(tool),
        }
    }
}
