//! `status`: how the instance is, in what a caller may know: no address, no secret, nobody else's conversation.

use agentd_mcp::ServersView;
use serde_json::{Value, json};

use super::Caller;
use crate::supervisor::settings::Settings;

/// The summary.
pub(super) fn told(instance: &str, settings: &Settings, servers: &ServersView, caller: &Caller) -> Value {
    let document = &settings.document;
    let limits = &document.limits.run;
    let has = |name: &str| caller.held.has_server(name);
    let servers: Vec<Value> = servers
        .servers
        .iter()
        .filter(|server| has(&server.server.name))
        .map(|server| json!({"name": server.server.name, "state": server.state, "tools": server.tools.len()}))
        .collect();
    json!({
        "instance": instance,
        "run": caller.run_id,
        "generation": settings.generation,
        "model": document.intelligence.model,
        "servers": servers,
        "limits": {
            "steps": limits.steps(),
            "tokens": limits.tokens(),
            "deadline": agentd_base::duration::Duration(limits.deadline()).to_string(),
        },
    })
}
