//! Our tools by family (contract/runtime.md section 5): names, schemas, handlers.

mod artifact;
mod control;
mod human;
mod mapped;
mod memory;
mod message;
mod plan;
mod resource;
mod skills;
mod subagent;
mod supervised;
mod thinking;
mod waiting;
mod workflow;

#[cfg(test)]
mod tests;

use agentd_base::duration;
use serde_json::{Map, Value, json};

pub(crate) use self::human::ASK;
use crate::internal::Internal;

/// All of them, family by family.
pub(crate) fn all() -> Vec<Internal> {
    let families = [
        memory::tools(),
        artifact::tools(),
        plan::tools(),
        skills::tools(),
        subagent::tools(),
        workflow::tools(),
        message::tools(),
        human::tools(),
        thinking::tools(),
        waiting::tools(),
        control::tools(),
        resource::tools(),
        mapped::tools(),
    ];
    families.into_iter().flatten().collect()
}

/// The schema of an object with these properties and no others; those whose name ends in `*` are required.
fn object<const N: usize>(properties: [(&str, Value); N]) -> Value {
    let mut required = Vec::new();
    let mut all = Map::new();
    for (name, schema) in properties {
        let plain = name.trim_end_matches('*');
        if plain != name {
            required.push(plain.to_owned());
        }
        all.insert(plain.to_owned(), schema);
    }
    let mut schema = json!({"type": "object", "properties": all, "additionalProperties": false});
    if !required.is_empty()
        && let Some(schema) = schema.as_object_mut()
    {
        schema.insert("required".to_owned(), required.into());
    }
    schema
}

/// The schema of a text of at most so many characters.
fn text(max: usize, description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": max, "description": description})
}

/// The schema of a duration.
fn duration(description: &str) -> Value {
    json!({
        "description": format!("{description} Such as 30s, 5m, 2h, or a number of seconds."),
        "anyOf": [{"type": "string", "pattern": duration::PATTERN}, {"type": "integer", "minimum": 0}],
    })
}
