//! Our own tools: what each is called, what it takes and gives, what carries it out. A model's arguments are checked
//! against the schema before a handler sees them, and results before the model does. Nothing here acts on the world
//! (contract/mcp.md 1.1).

use std::sync::{LazyLock, OnceLock};

use agentd_llm::ToolSpec;
use async_trait::async_trait;
use jsonschema::Validator;
use serde_json::{Map, Value};

use crate::desk::Desk;
use crate::grants;
use crate::observation::Observation;
use crate::tools;

/// A fault of arguments or of a result, for the model.
const FAULT_CHARS: usize = 300;

/// One of our tools.
pub(crate) struct Internal {
    /// With dots, as people write it.
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// JSON Schema of the arguments, an object. Schemas are kept as they are written, not as values, which are twenty
    /// times as large: a worker holds all of them for as long as it waits, and reads them once a turn.
    parameters: Box<str>,
    /// JSON Schema of the result; none where it is words.
    result: Option<Box<str>>,
    /// Whether there is something that it could do now.
    pub(crate) is_useful: fn(&Desk) -> bool,
    pub(crate) handler: &'static dyn Handler,
    /// Made when they are first needed: a worker starts often and calls few of them.
    checks: Checks,
}

#[derive(Default)]
struct Checks {
    parameters: OnceLock<Option<Validator>>,
    result: OnceLock<Option<Validator>>,
}

/// A call that fits the schema.
pub(crate) struct Call<'a> {
    /// The tool's name.
    pub(crate) tool: &'static str,
    pub(crate) arguments: Map<String, Value>,
    /// Counts the calls of the run.
    pub(crate) ordinal: u32,
    pub(crate) desk: &'a Desk,
}

/// What came of a call.
pub(crate) enum Came {
    /// A value of the form that the tool promises.
    Value(Value),
    /// Words, a failure, or a result with an effect on the turn.
    Seen(Observation),
}

impl Came {
    /// A failure.
    pub(crate) fn error(text: impl AsRef<str>) -> Self {
        Self::Seen(Observation::error(text))
    }
}

/// Carries a tool out.
#[async_trait]
pub(crate) trait Handler: Send + Sync {
    async fn call(&self, call: Call<'_>) -> Came;
}

/// All of them.
static TOOLS: LazyLock<Vec<Internal>> = LazyLock::new(tools::all);

/// Those that this turn may call now.
pub(crate) fn offered(desk: &Desk) -> impl Iterator<Item = &'static Internal> {
    TOOLS.iter().filter(|tool| tool.is_offered(desk))
}

/// The one that a model means, if the turn may call it.
pub(crate) fn find(name: &str, desk: &Desk) -> Option<&'static Internal> {
    // No two of them have one name, and who may have it is the longer question.
    let meant = TOOLS.iter().find(|tool| tool.is_called(name));
    meant.filter(|tool| tool.is_offered(desk))
}

/// The name of the tool of ours that is called so, whoever may call it.
pub(crate) fn named(name: &str) -> Option<&'static str> {
    let called = TOOLS.iter().find(|tool| tool.is_called(name));
    called.map(|tool| tool.name)
}

impl Internal {
    /// One whose handler gives a value of the form `result`.
    pub(crate) fn new(
        name: &'static str,
        description: &'static str,
        parameters: Value,
        result: Value,
        handler: &'static dyn Handler,
    ) -> Self {
        Self {
            name,
            description,
            parameters: parameters.to_string().into(),
            result: (!result.is_null()).then(|| result.to_string().into()),
            is_useful: |_| true,
            handler,
            checks: Checks::default(),
        }
    }

    /// The same, where it is useful sometimes only.
    pub(crate) fn when(mut self, is_useful: fn(&Desk) -> bool) -> Self {
        self.is_useful = is_useful;
        self
    }

    /// JSON Schema of the arguments.
    pub(crate) fn parameters(&self) -> Map<String, Value> {
        serde_json::from_str(&self.parameters).unwrap_or_default()
    }

    fn is_offered(&self, desk: &Desk) -> bool {
        let context = &desk.context;
        grants::may(context.holder, &context.held, self.name)
            && context.choice.takes_internal(self.name)
            && (self.is_useful)(desk)
    }

    /// Whether this is its name, with dots or as a model writes it.
    fn is_called(&self, name: &str) -> bool {
        self.name == name || (self.name.len() == name.len() && self.wire().eq(name.chars()))
    }

    /// Its name as a model writes it.
    fn wire(&self) -> impl Iterator<Item = char> {
        self.name.chars().map(|c| if c == '.' { '_' } else { c })
    }

    fn wire_name(&self) -> String {
        self.wire().collect()
    }

    /// As a model is offered it.
    pub(crate) fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.wire_name(),
            description: self.description.to_owned(),
            input_schema: self.parameters(),
        }
    }

    /// Checks the arguments, carries it out, and checks the result.
    pub(crate) async fn call(&self, arguments: Map<String, Value>, ordinal: u32, desk: &Desk) -> Observation {
        let given = Value::Object(arguments);
        let schema = self.checks.parameters.get_or_init(|| validator(&self.parameters));
        if let Some(fault) = fault(schema.as_ref(), &given) {
            return Observation::error(format!(
                "the arguments of {} do not fit: {fault}",
                self.wire_name()
            ));
        }
        let Value::Object(arguments) = given else {
            return Observation::error("the arguments are not a JSON object");
        };
        let call = Call {
            tool: self.name,
            arguments,
            ordinal,
            desk,
        };
        match self.handler.call(call).await {
            Came::Seen(seen) => seen,
            Came::Value(value) => self.told(value),
        }
    }

    /// A result that is not of the promised form is a fault of ours, or of the server that a tool is mapped onto.
    fn told(&self, value: Value) -> Observation {
        if let Some(result) = &self.result {
            let schema = self.checks.result.get_or_init(|| validator(result));
            if fault(schema.as_ref(), &value).is_some() {
                // What is wrong quotes the value, which is content.
                tracing::warn!(event = "tool.result.schema", gen_ai.tool.name = self.name);
                return Observation::error(format!(
                    "{} gave a result that is not of its form; it was carried out",
                    self.name
                ));
            }
        }
        Observation::result(match value {
            Value::String(text) => text,
            other => other.to_string(),
        })
    }
}

fn validator(schema: &str) -> Option<Validator> {
    jsonschema::validator_for(&serde_json::from_str(schema).ok()?).ok()
}

/// What is wrong with a value.
fn fault(schema: Option<&Validator>, value: &Value) -> Option<String> {
    let fault = match schema {
        Some(schema) => schema.validate(value).err()?.to_string(),
        None => "its schema is none".to_owned(),
    };
    Some(agentd_base::text::clip(&fault, FAULT_CHARS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_schemas_that_can_be_checked_and_a_name_that_providers_take() {
        for tool in TOOLS.iter() {
            let name = tool.name;
            assert!(grants::is_ours(name), "{name}");
            assert_eq!(tool.parameters()["additionalProperties"], false, "{name}");
            assert!(validator(&tool.parameters).is_some(), "{name}");
            if let Some(result) = &tool.result {
                assert!(validator(result).is_some(), "{name}");
            }
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            let wire = tool.wire_name();
            assert!(wire.bytes().all(plain), "{name}");
            for called in [name, &wire] {
                let meant = |other: &&Internal| other.is_called(called);
                assert_eq!(TOOLS.iter().filter(meant).count(), 1, "{called}");
                assert_eq!(named(called), Some(name));
            }
            assert_eq!(named(&wire.to_uppercase()), None);
        }
    }
}
