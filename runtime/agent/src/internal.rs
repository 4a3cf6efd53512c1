//! Our own tools: what each is called, what it takes, who may call it, what carries it out. A model's arguments are
//! checked against the schema before a handler sees them. Nothing here acts on the world (contract/mcp.md 1.1).

use std::sync::LazyLock;

use agentd_llm::ToolSpec;
use async_trait::async_trait;
use jsonschema::Validator;
use serde_json::{Map, Value, json};

use crate::grants;
use crate::observation::Observation;
use crate::reading;
use crate::router::Desk;

/// A fault of arguments, for the model.
const FAULT_CHARS: usize = 300;

/// One of our tools.
pub(crate) struct Internal {
    /// With dots, as people write it.
    name: &'static str,
    description: &'static str,
    parameters: fn() -> Value,
    /// Whether there is something that it could do now.
    is_useful: fn(&Desk) -> bool,
    handler: &'static dyn Handler,
    checked: LazyLock<Option<Validator>>,
}

/// Carries a tool out.
#[async_trait]
pub(crate) trait Handler: Send + Sync {
    /// `arguments` fit the schema.
    async fn call(&self, arguments: Map<String, Value>, ordinal: u32, desk: &Desk) -> Observation;
}

/// All of them.
static TOOLS: [Internal; 1] = [Internal {
    name: "resource.read",
    description: "Reads a resource: one of those that the MCP servers list, or an agentd:// URI that a result named.",
    parameters: resource_read,
    is_useful: reading::is_useful,
    handler: &reading::Read,
    checked: LazyLock::new(|| jsonschema::validator_for(&resource_read()).ok()),
}];

fn resource_read() -> Value {
    json!({
        "type": "object",
        "properties": {"uri": {"type": "string", "minLength": 1, "maxLength": reading::URI_CHARS, "description": "The URI."}},
        "required": ["uri"],
        "additionalProperties": false,
    })
}

/// Those that this turn may call now.
pub(crate) fn offered(desk: &Desk) -> impl Iterator<Item = &'static Internal> {
    TOOLS.iter().filter(|tool| {
        grants::may(desk.context.holder, &desk.context.held, tool.name) && (tool.is_useful)(desk)
    })
}

/// The one that a model means, if the turn may call it.
pub(crate) fn find(name: &str, desk: &Desk) -> Option<&'static Internal> {
    offered(desk).find(|tool| tool.name == name || tool.wire_name() == name)
}

impl Internal {
    /// With dots, for logs.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    fn wire_name(&self) -> String {
        self.name.replace('.', "_")
    }

    /// As a model is offered it.
    pub(crate) fn spec(&self) -> ToolSpec {
        let parameters = match (self.parameters)() {
            Value::Object(parameters) => parameters,
            _ => Map::new(),
        };
        ToolSpec {
            name: self.wire_name(),
            description: self.description.to_owned(),
            input_schema: parameters,
        }
    }

    /// Checks the arguments, then carries it out.
    pub(crate) async fn call(&self, arguments: Map<String, Value>, ordinal: u32, desk: &Desk) -> Observation {
        let given = Value::Object(arguments);
        let fault = match self.checked.as_ref() {
            Some(schema) => schema.validate(&given).err().map(|fault| fault.to_string()),
            None => Some("its schema is none".to_owned()),
        };
        match (fault, given) {
            (None, Value::Object(arguments)) => self.handler.call(arguments, ordinal, desk).await,
            (fault, _) => {
                let fault = agentd_base::text::clip(&fault.unwrap_or_default(), FAULT_CHARS);
                Observation::error(format!(
                    "the arguments of {} do not fit: {fault}",
                    self.wire_name()
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_schema_that_can_be_checked_and_a_name_that_providers_take() {
        for tool in &TOOLS {
            assert!(tool.checked.is_some(), "{}", tool.name);
            assert!((tool.parameters)().is_object());
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(tool.wire_name().bytes().all(plain), "{}", tool.name);
            assert!(grants::is_ours(tool.name), "{}", tool.name);
        }
    }
}
