//! What a person and a model would say: the defaults of a form, and a value of the right type for each argument that a
//! tool needs.

use agentd_mcp::{Answer, Elicitor, Question, Tool};
use serde_json::{Map, Value, json};

/// Accepts every form as it stands: the defaults are filled in by the layer under test.
pub(crate) struct Defaults;

#[async_trait::async_trait]
impl Elicitor for Defaults {
    async fn ask(&self, _: Question) -> Answer {
        Answer::Accept(Map::new())
    }
}

/// Arguments for a tool: what its schema requires, of the right types. A tool that wants a schema gets the one with
/// definitions, as it was read.
pub(crate) fn arguments(schema: &Map<String, Value>, tools: &[Tool]) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    names
        .map(|name| {
            let property = properties.and_then(|properties| properties.get(name)?.get("type")?.as_str());
            let kind = property.unwrap_or_default();
            let defined = tools.iter().find(|tool| tool.input_schema.contains_key("$defs"));
            let value = match (name, kind, defined) {
                ("schema", "object", Some(tool)) => Value::Object(tool.input_schema.clone()),
                _ => value(kind),
            };
            (name.to_owned(), value)
        })
        .collect()
}

fn value(kind: &str) -> Value {
    match kind {
        "number" => json!(1.5),
        "integer" => json!(1),
        "boolean" => json!(true),
        "array" => json!([]),
        "object" => json!({}),
        "null" => Value::Null,
        _ => json!("test"),
    }
}
