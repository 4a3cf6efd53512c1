//! The tool catalogue: pure. From the tools of all servers to the names a model sees and back.

use agentd_config::document::McpServer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A tool as its server describes it; description and schema are untrusted text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// The name at the server.
    pub name: String,
    /// For the model.
    pub description: Option<String>,
    /// JSON Schema of the arguments.
    pub input_schema: Map<String, Value>,
    /// `sha256:…` over name, description, schemas and annotations.
    pub digest: String,
}

/// A tool that the agent may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The name in logs, filters and prompts: `ns.tool`, the bare name, or `<server>.<tool>`.
    pub qualified: String,
    /// The name sent to the model: `^[a-zA-Z0-9_-]{1,64}$`.
    pub provider: String,
    /// The server's name in the document.
    pub server: String,
    /// What the server offers.
    pub tool: Tool,
}

/// All tools of an agent, by qualified name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Catalogue {
    entries: Vec<Entry>,
}

impl Catalogue {
    /// Applies allow and exclude, and names what is left. The same input gives the same names in any order of servers.
    pub fn build<'a>(servers: impl IntoIterator<Item = (&'a McpServer, &'a [Tool])>) -> Self {
        let _ = servers.into_iter().count();
        todo!()
    }

    /// By qualified name, sorted.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Finds what a model called.
    pub fn by_provider_name(&self, name: &str) -> Option<&Entry> {
        let _ = name;
        todo!()
    }

    /// Finds by qualified name.
    pub fn by_qualified_name(&self, name: &str) -> Option<&Entry> {
        let _ = name;
        todo!()
    }

    /// Over names and tool digests; `None` when empty.
    pub fn digest(&self) -> Option<String> {
        todo!()
    }
}
