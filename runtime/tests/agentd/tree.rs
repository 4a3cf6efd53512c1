//! An agent with two servers that is told which tools to call, subagents' among them.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::a2a::Caller;
use crate::mcp_rich::Rich;
use crate::mcp_server::McpServer;
use crate::model::{Model, tool_results};
use crate::process::Agentd;

pub struct World {
    pub model: Model,
    pub fs: McpServer,
    pub rich: Rich,
    pub folder: TempDir,
}

impl World {
    pub async fn new() -> Self {
        Self {
            model: Model::start().await,
            fs: McpServer::start().await,
            rich: Rich::start().await,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub async fn start(&self, more: Value) -> (Agentd, Caller) {
        let mut document = json!({
            "intelligence": { "endpoints": self.model.url(), "model": "scripted" },
            "agent": { "instruction": "Be brief." },
            "mcp": { "servers": [
                { "name": "fs", "endpoint": self.fs.url() },
                { "name": "rich", "endpoint": self.rich.url() },
            ] },
            "a2a": { "listen": "http://127.0.0.1:0", "dev": true },
            "store": { "path": self.folder.path().join("state") },
        });
        for (key, value) in more.as_object().unwrap() {
            document[key] = value.clone();
        }
        let file = self.folder.path().join("agentd.json");
        std::fs::write(&file, document.to_string()).unwrap();
        let mut agentd = Agentd::start(&["-c", file.to_str().unwrap()], &[], self.folder.path());
        let a2a = agentd.address("a2a.listen").await;
        for _ in 0..2 {
            agentd.event("mcp.connect").await;
        }
        (agentd, Caller::new(&a2a))
    }

    /// The requests of subagents, by what the model was told of itself.
    pub fn of_subagents(&self) -> Vec<Value> {
        let requests = self.model.requests().into_iter();
        requests.filter(is_of_subagent).collect()
    }
}

pub fn is_of_subagent(request: &Value) -> bool {
    let system = request["messages"][0]["content"].as_str().unwrap_or_default();
    system.contains("You are a subagent")
}

pub fn calls(calls: Value) -> String {
    format!("calls {calls}")
}

/// What the last turn of a conversation was told by its tools.
pub fn results(world: &World) -> Vec<Value> {
    let requests = world.model.requests();
    let root = requests
        .iter()
        .rev()
        .find(|request| !is_of_subagent(request))
        .unwrap();
    let results = tool_results(root).into_iter();
    results
        .map(|text| serde_json::from_str(text).unwrap_or_else(|_| text.into()))
        .collect()
}
