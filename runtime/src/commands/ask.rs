//! What can be asked of a configuration without running it. Answers go to stdout, faults to stderr; nothing is touched.

use std::collections::BTreeMap;

use agentd_a2a::operation::Operation;
use agentd_agent::grants;
use agentd_base::class::exit;
use agentd_config::Document;
use agentd_config::document::{Dialect, LogLevel, StoreKind};
use agentd_config::load::{Explained, Layers, explain, merged};
use serde_json::{Value, json};

use super::{answered, checked, invalid};
use crate::cli::Ask;
use crate::logging;

/// Carries it out; the exit code.
pub fn run(ask: Ask, layers: Layers) -> u8 {
    logging::install("cli", LogLevel::Info);
    let layers = layers.hold();
    match ask {
        Ask::ConfigSchema => shown(&Document::schema()),
        Ask::ValidateConfig => match checked(&layers) {
            Ok(_) => {
                tracing::info!(event = "config.valid");
                exit::DONE
            }
            Err(errors) => invalid(&errors),
        },
        Ask::Capabilities => match merged(&layers) {
            Ok(document) => {
                let instance = document.instance(|name| std::env::var(name).ok());
                shown(&capabilities(&document, &instance))
            }
            Err(errors) => invalid(&errors),
        },
        Ask::EffectiveConfig => shown(&effective(&explain(&layers))),
    }
}

/// Prints a text of ours; the exit code.
pub fn print(text: &str) -> u8 {
    logging::install("cli", LogLevel::Info);
    answered(text, exit::DONE)
}

fn shown(value: &Value) -> u8 {
    // Values of ours can be written.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    answered(&text, exit::DONE)
}

fn effective(explained: &Explained) -> Value {
    let Explained {
        document,
        origins,
        faults,
    } = explained;
    let faults = faults
        .iter()
        .map(|fault| json!({"key": fault.key, "problem": fault.problem, "remedy": fault.remedy}));
    json!({"document": document, "origins": origins, "faults": faults.collect::<Vec<_>>()})
}

/// What the agent of a document has (contract/runtime.md section 15): never a secret, never a URL.
fn capabilities(document: &Document, instance: &str) -> Value {
    let Document {
        intelligence,
        tools,
        knowledge,
        search,
        mcp,
        a2a,
        lifecycle,
        ..
    } = document;
    let is_there = |name: &str| {
        let family = name.split_once('.').map_or(name, |(family, _)| family);
        let served = match family {
            "knowledge" => knowledge.server.is_some(),
            "search" => search.server.is_some(),
            _ => false,
        };
        !tools.disabled.iter().any(|disabled| disabled == name)
            && (!grants::is_contract(name) || served || tools.overrides.contains_key(name))
    };
    let internal: Vec<&str> = grants::names().filter(|name| is_there(name)).collect();
    let servers: Vec<&str> = mcp.servers.iter().map(|server| server.name.as_str()).collect();
    let mut roles: BTreeMap<&str, u32> = BTreeMap::new();
    for principal in &a2a.principals {
        *roles.entry(role(principal.role)).or_default() += 1;
    }
    let served = Operation::ALL.iter().filter(|_| a2a.listen.is_some());
    let methods: Vec<&str> = served.map(|operation| operation.name()).collect();
    json!({
        "agent": {"name": instance, "version": env!("CARGO_PKG_VERSION")},
        "intelligence": {
            "model": intelligence.model,
            "endpoints": intelligence.endpoints.len(),
            "dialect": match intelligence.dialect {
                Dialect::Openai => "openai",
                Dialect::OpenaiResponses => "openai-responses",
                Dialect::Anthropic => "anthropic",
                Dialect::Bedrock => "bedrock",
            },
        },
        "mcp_servers": servers,
        "internal_tools": internal,
        "workflows": [],
        "a2a": {"methods": methods, "principals": roles},
        "store": match document.store_kind() {
            StoreKind::File => "file",
            StoreKind::Memory => "memory",
            StoreKind::Mcp => "mcp",
            StoreKind::Http => "http",
        },
        "lifecycle": {
            "daemon": document.is_service(),
            "drain_timeout": agentd_base::duration::Duration(lifecycle.drain_timeout()).to_string(),
        },
    })
}

const fn role(role: agentd_config::document::Role) -> &'static str {
    use agentd_config::document::Role;
    match role {
        Role::Agent => "agent",
        Role::User => "user",
        Role::Operator => "operator",
    }
}
