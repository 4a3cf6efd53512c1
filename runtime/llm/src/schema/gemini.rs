//! The part of JSON Schema that Gemini's function declarations have. Pure.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// The part of JSON Schema that Gemini's function declarations have.
pub(super) fn gemini(value: &Value) -> Value {
    let Value::Object(object) = value else {
        // `true` and `false` are schemas too.
        return json!({});
    };
    let mut fit = Map::new();
    for (word, value) in object {
        match word.as_str() {
            "type" => gemini_type(value, &mut fit),
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                let fitted = properties.map(|(name, property)| (name.clone(), gemini(property)));
                fit.insert(word.clone(), Value::Object(fitted.collect()));
            }
            "items" => {
                fit.insert(word.clone(), gemini(value));
            }
            "anyOf" | "oneOf" => {
                let branches = value.as_array().into_iter().flatten().map(gemini);
                fit.insert("anyOf".into(), branches.collect());
            }
            "const" if value.is_string() => {
                fit.insert("enum".into(), json!([value]));
            }
            // It takes an enumeration of texts alone.
            "enum"
                if value
                    .as_array()
                    .is_some_and(|all| all.iter().all(Value::is_string)) =>
            {
                fit.insert(word.clone(), value.clone());
            }
            "format" if matches!(value.as_str(), Some("enum" | "date-time")) => {
                fit.insert(word.clone(), value.clone());
            }
            "description" | "title" | "nullable" | "required" | "minimum" | "maximum" | "minItems"
            | "maxItems" | "minLength" | "maxLength" | "pattern" => {
                fit.insert(word.clone(), value.clone());
            }
            _ => {}
        }
    }
    let known: Option<BTreeSet<String>> = fit
        .get("properties")
        .and_then(Value::as_object)
        .map(|properties| properties.keys().cloned().collect());
    // It refuses a required property that it does not know.
    if let Some(Value::Array(names)) = fit.get_mut("required") {
        let is_known = |name: &Value| {
            name.as_str()
                .is_some_and(|name| known.as_ref().is_some_and(|known| known.contains(name)))
        };
        names.retain(is_known);
    }
    if fit.contains_key("enum") {
        fit.entry("type").or_insert_with(|| "string".into());
    }
    if fit.get("type").and_then(Value::as_str) == Some("array") {
        fit.entry("items").or_insert_with(|| json!({}));
    }
    Value::Object(fit)
}

/// `["string", "null"]` is a nullable string; more types are any.
fn gemini_type(value: &Value, fit: &mut Map<String, Value>) {
    match value {
        Value::Array(types) => {
            let mut named = types.iter().filter(|kind| kind.as_str() != Some("null"));
            if let (Some(kind), None) = (named.next(), named.next()) {
                fit.insert("type".into(), kind.clone());
            }
            if types.iter().any(|kind| kind.as_str() == Some("null")) {
                fit.insert("nullable".into(), true.into());
            }
        }
        kind => {
            fit.insert("type".into(), kind.clone());
        }
    }
}
