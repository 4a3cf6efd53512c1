//! A form that a server asks a person to fill in: whether it is one, and an answer made to fit it. Pure.

use agentd_base::text::is_unseen;
use serde_json::{Map, Number, Value};

use crate::schema::Checker;

/// Fields of a form.
const FIELDS: usize = 64;
/// A form, as JSON.
const FORM_BYTES: usize = 64 * 1024;
/// The name of a field.
const NAME_CHARS: usize = 128;

/// Whether a person can be asked this: a flat object of the few kinds of values that the protocol has for it.
pub(crate) fn is_answerable(schema: &Value) -> bool {
    let Some(fields) = fields(schema) else {
        return false;
    };
    schema.get("type") == Some(&Value::from("object"))
        && fields.len() <= FIELDS
        && fields
            .iter()
            .all(|(name, field)| is_named(name) && is_flat(field))
        && schema.to_string().len() <= FORM_BYTES
        && rules(schema).is_some()
}

/// The answer with the form's defaults filled in (SEP-1034), and only if the form admits it. A value that was written
/// down in another way than the form wants it (`"5"` for 5) is read as it was meant; a field that the form does not have
/// is left out.
pub(crate) fn shape(schema: &Value, mut given: Map<String, Value>) -> Option<Map<String, Value>> {
    let mut content = Map::new();
    for (name, field) in fields(schema)? {
        let value = given.remove(name).filter(|value| !value.is_null());
        let value = value
            .map(|value| meant(field, value))
            .or_else(|| field.get("default").cloned());
        if let Some(value) = value {
            content.insert(name.clone(), value);
        }
    }
    let content = Value::Object(content);
    match (rules(schema)?.fault(&content), content) {
        (None, Value::Object(content)) => Some(content),
        _ => None,
    }
}

fn fields(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// The dialect that a form names is not asked for: it has only what all of them agree on.
fn rules(schema: &Value) -> Option<Checker> {
    let mut schema = schema.as_object()?.clone();
    schema.remove("$schema");
    Checker::of(&schema, true).ok()
}

fn is_named(name: &str) -> bool {
    let plain = |c: char| !c.is_control() && !is_unseen(c);
    !name.is_empty() && name.chars().count() <= NAME_CHARS && name.chars().all(plain)
}

fn is_flat(field: &Value) -> bool {
    let Some(field) = field.as_object() else {
        return false;
    };
    // What would make it more than one value, or another schema's.
    const NESTED: [&str; 7] = [
        "properties",
        "$ref",
        "allOf",
        "not",
        "if",
        "patternProperties",
        "additionalProperties",
    ];
    if NESTED.iter().any(|key| field.contains_key(*key)) {
        return false;
    }
    match field.get("type").and_then(Value::as_str) {
        Some("string" | "number" | "integer" | "boolean") => true,
        // Several of a choice.
        Some("array") => field
            .get("items")
            .and_then(Value::as_object)
            .is_some_and(|items| {
                ["enum", "anyOf", "oneOf"]
                    .iter()
                    .any(|key| items.contains_key(*key))
            }),
        _ => false,
    }
}

/// The value of the field's kind that a person meant.
fn meant(field: &Value, value: Value) -> Value {
    let kind = field.get("type").and_then(Value::as_str).unwrap_or_default();
    let read = match (kind, &value) {
        ("integer", Value::String(text)) => text.trim().parse::<i64>().ok().map(Value::from),
        ("number", Value::String(text)) => number(text.trim()).map(Value::Number),
        ("boolean", Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "y" => Some(Value::Bool(true)),
            "false" | "no" | "n" => Some(Value::Bool(false)),
            _ => None,
        },
        ("string", Value::Number(number)) => Some(Value::String(number.to_string())),
        ("string", Value::Bool(yes)) => Some(Value::String(yes.to_string())),
        ("array", Value::String(_)) => Some(Value::Array(vec![value.clone()])),
        _ => None,
    };
    read.unwrap_or(value)
}

fn number(text: &str) -> Option<Number> {
    match text.parse::<i64>() {
        Ok(whole) => Some(whole.into()),
        Err(_) => Number::from_f64(text.parse().ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form() -> Value {
        json!({"type": "object", "required": ["name", "age"], "properties": {
            "name": {"type": "string", "minLength": 2},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "score": {"type": "number", "default": 0.5},
            "mail": {"type": "string", "format": "email"},
            "news": {"type": "boolean", "default": true},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "many": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "maxItems": 2},
        }})
    }

    fn shaped(given: Value) -> Option<Value> {
        shape(&form(), given.as_object().unwrap().clone()).map(Value::Object)
    }

    #[test]
    fn m13_an_answer_is_made_to_fit_or_it_is_none() {
        let full = json!({"name": "Al", "age": 5, "score": 0.5, "news": true, "colour": "red"});
        assert_eq!(shaped(json!({"name": "Al", "age": 5})), Some(full.clone()));
        // As a person writes it, with a field too many and one that was left empty.
        assert_eq!(
            shaped(json!({"name": "Al", "age": " 5 ", "news": null, "extra": 1})),
            Some(full)
        );
        assert_eq!(
            shaped(
                json!({"name": 77, "age": 5, "score": "1.5", "news": "No", "colour": "blue", "many": "x", "mail": "a@b.c"})
            ),
            Some(
                json!({"name": "77", "age": 5, "score": 1.5, "mail": "a@b.c", "news": false, "colour": "blue", "many": ["x"]})
            )
        );
        for wrong in [
            json!({"name": "Al"}),
            json!({"name": "A", "age": 5}),
            json!({"name": "Al", "age": 151}),
            json!({"name": "Al", "age": "five"}),
            json!({"name": "Al", "age": 5.5}),
            json!({"name": "Al", "age": 5, "mail": "nobody"}),
            json!({"name": "Al", "age": 5, "colour": "green"}),
            json!({"name": "Al", "age": 5, "news": "perhaps"}),
            json!({"name": "Al", "age": 5, "many": ["x", "z"]}),
            json!({"name": {"first": "Al"}, "age": 5}),
        ] {
            assert_eq!(shaped(wrong.clone()), None, "{wrong}");
        }
    }

    #[test]
    fn m13_only_flat_forms_are_put_to_a_person() {
        assert!(is_answerable(&form()));
        assert!(is_answerable(&json!({"type": "object", "properties": {}})));
        let field = |field: Value| json!({"type": "object", "properties": {"a": field}});
        assert!(is_answerable(&field(
            json!({"type": "string", "oneOf": [{"const": "x", "title": "X"}]})
        )));
        assert!(is_answerable(&field(
            json!({"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}})
        )));
        let many: Map<String, Value> = (0..65)
            .map(|n| (format!("f{n}"), json!({"type": "string"})))
            .collect();
        for none in [
            json!("x"),
            json!({"type": "object"}),
            json!({"type": "array", "properties": {}}),
            field(json!({"type": "object", "properties": {}})),
            field(json!({"type": "array", "items": {"type": "object"}})),
            field(json!({"type": ["string", "null"]})),
            field(json!({"$ref": "#/x", "type": "string"})),
            field(json!({"type": "string", "pattern": "("})),
            field(json!({"type": "string", "description": "x".repeat(70_000)})),
            json!({"type": "object", "properties": {"a\nb": {"type": "string"}}}),
            json!({"type": "object", "properties": many}),
        ] {
            assert!(!is_answerable(&none), "{none}");
        }
    }
}
