//! References of a schema put in their place, and words of older drafts in those of 2020-12. Pure; bounded whatever
//! refers to what.

use serde_json::{Map, Value, json};

/// References within references; a schema that refers to itself ends here.
const DEPTH: usize = 8;
/// Nodes of a schema after its references were put in; the rest of one that grows without end is left open.
const NODES: usize = 4096;

/// Words whose value is a schema, a list of them, or a map of them.
const OF_ONE: [&str; 9] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
];
const OF_MANY: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
const OF_NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

/// The schemas in a schema.
fn children<'a>(word: &str, value: &'a mut Value) -> Vec<&'a mut Map<String, Value>> {
    let values: Vec<&mut Value> = if OF_ONE.contains(&word) {
        vec![value]
    } else {
        match value {
            Value::Object(named) if OF_NAMED.contains(&word) => named.values_mut().collect(),
            Value::Array(many) if OF_MANY.contains(&word) => many.iter_mut().collect(),
            _ => Vec::new(),
        }
    };
    values.into_iter().filter_map(Value::as_object_mut).collect()
}

/// Words of older drafts in those of 2020-12, which providers check schemas against.
pub(super) fn modern(schema: &mut Map<String, Value>) {
    for word in ["exclusiveMinimum", "exclusiveMaximum"] {
        if schema.get(word).is_some_and(Value::is_boolean) {
            schema.shift_remove(word);
        }
    }
    if schema
        .get("required")
        .is_some_and(|required| !required.is_array())
    {
        schema.shift_remove("required");
    }
    if let Some(Value::Array(_)) = schema.get("items")
        && let Some(tuple) = schema.shift_remove("items")
    {
        schema.insert("prefixItems".into(), tuple);
    }
    for (word, value) in schema.iter_mut() {
        children(word, value).into_iter().for_each(modern);
    }
}

/// Whether something in it is to be read elsewhere, which nobody does.
pub(super) fn refers_away(schema: &Map<String, Value>) -> bool {
    let mut schema = schema.clone();
    let is_away = |reference: &str| !reference.starts_with('#');
    schema.get("$ref").and_then(Value::as_str).is_some_and(is_away)
        || schema
            .iter_mut()
            .any(|(word, value)| children(word, value).into_iter().any(|child| refers_away(child)))
}

/// The schema with what its references refer to in their place, and no definitions.
pub(super) fn inlined(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut bare = schema.clone();
    bare.shift_remove("$defs");
    bare.shift_remove("definitions");
    let mut inline = Inline {
        root: &Value::Object(schema.clone()),
        bare: &Value::Object(bare),
        nodes: 0,
    };
    match inline.value(inline.bare, 0) {
        Value::Object(inlined) => inlined,
        _ => Map::new(),
    }
}

/// Puts in what `$ref` refers to.
struct Inline<'a> {
    root: &'a Value,
    /// Without definitions.
    bare: &'a Value,
    nodes: usize,
}

impl Inline<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Value {
        self.nodes += 1;
        if self.nodes > NODES {
            return json!({});
        }
        match value {
            Value::Object(object) => self.object(object, depth),
            Value::Array(items) => items.iter().map(|item| self.value(item, depth)).collect(),
            other => other.clone(),
        }
    }

    fn object(&mut self, object: &Map<String, Value>, depth: usize) -> Value {
        // A property may be called so; a reference is a text.
        let reference = object.get("$ref").and_then(Value::as_str);
        let mut inlined = match reference {
            None => json!({}),
            Some("#") if depth < DEPTH => self.value(self.bare, depth + 1),
            Some(reference) => {
                let target = reference
                    .strip_prefix('#')
                    .and_then(|pointer| self.root.pointer(pointer));
                match target {
                    Some(target) if depth < DEPTH => self.value(target, depth + 1),
                    _ => json!({}),
                }
            }
        };
        if let Value::Object(inlined) = &mut inlined {
            // What stands beside a reference holds as well; its words are nearer to the matter.
            let beside = object
                .iter()
                .filter(|(word, _)| reference.is_none() || *word != "$ref");
            for (word, value) in beside {
                inlined.insert(word.clone(), self.value(value, depth));
            }
        }
        inlined
    }
}
