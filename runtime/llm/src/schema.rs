//! Schemas of tools in what each provider takes of JSON Schema. Servers write any draft; what a provider does not take
//! is put in other words where there are any, and else left out: the schema is advice to the model, and arguments are
//! checked against the whole one elsewhere. Pure; bounded whatever the schema is.

mod gemini;
mod inline;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use self::gemini::gemini;
use self::inline::{inlined, modern, refers_away};
use crate::dialect::Dialect;

/// Property names that Anthropic takes: `^[a-zA-Z0-9_.-]{1,64}$`.
const PROPERTY_CHARS: usize = 64;

/// What a provider takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Any schema whose top is an object.
    Openai,
    /// A small part: no references, no `additionalProperties`, no constants, formats of its own.
    Gemini,
    /// Any schema without a choice at the top, with plain property names.
    Anthropic,
    /// `type`, `properties` and `required` at the top, no references.
    Bedrock,
}

impl Profile {
    /// Chat Completions is spoken by Gemini too, whose models say so.
    pub(crate) fn of(dialect: Dialect, model: &str) -> Self {
        match dialect {
            Dialect::Openai if model.to_ascii_lowercase().contains("gemini") => Self::Gemini,
            Dialect::Openai | Dialect::OpenaiResponses => Self::Openai,
            Dialect::Anthropic => Self::Anthropic,
            Dialect::Bedrock => Self::Bedrock,
        }
    }
}

/// A tool's schema as the provider takes it: always one of an object.
pub(crate) fn fit(schema: &Map<String, Value>, profile: Profile) -> Value {
    let mut schema = schema.clone();
    for word in ["$schema", "$id", "id"] {
        schema.shift_remove(word);
    }
    modern(&mut schema);
    let has_choice = ["oneOf", "anyOf", "allOf", "$ref"]
        .iter()
        .any(|word| schema.contains_key(*word));
    if matches!(profile, Profile::Gemini | Profile::Bedrock) || has_choice || refers_away(&schema) {
        schema = inlined(&schema);
    }
    merge_choices(&mut schema);
    schema.insert("type".into(), "object".into());
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if !properties.is_object() {
        *properties = json!({});
    }
    match profile {
        Profile::Openai => Value::Object(schema),
        Profile::Gemini => gemini(&Value::Object(schema)),
        Profile::Anthropic => {
            plain_properties(&mut schema);
            Value::Object(schema)
        }
        Profile::Bedrock => {
            schema.retain(|word, _| matches!(word.as_str(), "type" | "properties" | "required"));
            Value::Object(schema)
        }
    }
}

/// A choice at the top becomes one object: every property of every branch, required where all branches require it
/// (`allOf`: where one does).
fn merge_choices(schema: &mut Map<String, Value>) {
    for word in ["allOf", "oneOf", "anyOf"] {
        let Some(Value::Array(branches)) = schema.shift_remove(word) else {
            continue;
        };
        let objects: Vec<&Map<String, Value>> = branches.iter().filter_map(Value::as_object).collect();
        let mut properties = match schema.shift_remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Map::new(),
        };
        for branch in &objects {
            let more = branch.get("properties").and_then(Value::as_object);
            for (name, property) in more.into_iter().flatten() {
                match properties.get_mut(name) {
                    Some(known) if known != property && word != "allOf" => either(known, property),
                    Some(_) => {}
                    None => {
                        properties.insert(name.clone(), property.clone());
                    }
                }
            }
        }
        schema.insert("properties".into(), Value::Object(properties));
        let own = required(schema);
        let mut sets = objects.iter().map(|branch| required(branch));
        let of_branches: BTreeSet<String> = if word == "allOf" {
            sets.flatten().collect()
        } else {
            let first = sets.next().unwrap_or_default();
            sets.fold(first, |common, set| common.intersection(&set).cloned().collect())
        };
        let all: BTreeSet<String> = own.union(&of_branches).cloned().collect();
        schema.shift_remove("required");
        if !all.is_empty() {
            schema.insert("required".into(), all.into_iter().collect());
        }
        // The branches differ in what they take beside their own.
        schema.shift_remove("additionalProperties");
        schema.shift_remove("unevaluatedProperties");
    }
}

/// One property of two branches: as the one has it, or the other.
fn either(known: &mut Value, other: &Value) {
    match known {
        Value::Object(choice) if choice.len() == 1 && choice.get("anyOf").is_some_and(Value::is_array) => {
            if let Some(Value::Array(branches)) = choice.get_mut("anyOf")
                && !branches.contains(other)
            {
                branches.push(other.clone());
            }
        }
        known => *known = json!({"anyOf": [known.take(), other]}),
    }
}

fn required(schema: &Map<String, Value>) -> BTreeSet<String> {
    let names = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Leaves out properties whose names are refused: a request without them is better than none.
fn plain_properties(schema: &mut Map<String, Value>) {
    let is_plain = |name: &str| {
        (1..=PROPERTY_CHARS).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    };
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|name, _| is_plain(name));
    }
    if let Some(Value::Array(names)) = schema.get_mut("required") {
        names.retain(|name| name.as_str().is_some_and(is_plain));
    }
}

/// Whether OpenAI's strict mode takes a schema: every object closed, every property required, nothing that it refuses.
pub(crate) fn is_strict(schema: &Value) -> bool {
    let Value::Object(object) = schema else {
        return false;
    };
    let words = [
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "anyOf",
        "description",
        "title",
        "$ref",
        "$defs",
    ];
    if !object.keys().all(|word| words.contains(&word.as_str())) {
        return false;
    }
    let all = |word: &str| object.get(word).and_then(Value::as_object).into_iter().flatten();
    let is_object = object.get("type").and_then(Value::as_str) == Some("object");
    let names: BTreeSet<String> = all("properties").map(|(name, _)| name.clone()).collect();
    let is_closed =
        object.get("additionalProperties") == Some(&Value::Bool(false)) && names == required(object);
    (!is_object || is_closed)
        && (object.contains_key("type")
            || object.contains_key("anyOf")
            || object.contains_key("$ref")
            || object.contains_key("enum"))
        && all("properties").all(|(_, property)| is_strict(property))
        && all("$defs").all(|(_, definition)| is_strict(definition))
        && object.get("items").is_none_or(is_strict)
        && object
            .get("anyOf")
            .is_none_or(|branches| branches.as_array().is_some_and(|all| all.iter().all(is_strict)))
}
