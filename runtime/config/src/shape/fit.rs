//! What of a value has the shape that it should have. The rest is left out, and named.

use serde_json::{Map, Value};

use super::{Check, DEPTH, Node, Shape, Strictness, entry, is_nullable, join};

impl Shape {
    /// The value without what does not fit; `gone` gets the paths of what was left out.
    pub(crate) fn fitting(&self, value: Value, strictness: Strictness, gone: &mut Vec<String>) -> Value {
        let fit = Fit {
            shape: self,
            strictness,
        };
        fit.value(value, &self.0, "", gone, 0)
            .unwrap_or_else(|| Value::Object(Map::new()))
    }
}

#[derive(Clone, Copy)]
struct Fit<'a> {
    shape: &'a Shape,
    strictness: Strictness,
}

impl Fit<'_> {
    fn value(
        self,
        value: Value,
        schema: &Value,
        path: &str,
        gone: &mut Vec<String>,
        depth: usize,
    ) -> Option<Value> {
        let Some(node) = self.shape.node(schema).filter(|_| depth < DEPTH) else {
            return Some(value);
        };
        if value.is_null() && (self.strictness == Strictness::Layer || is_nullable(schema)) {
            return Some(value);
        }
        let whole = self.strictness == Strictness::Whole;
        match (node, value) {
            (Node::Object { properties, required }, Value::Object(object)) => {
                let object = self.object(object, |key| properties.get(key), path, gone, depth);
                let lacks = required.iter().any(|key| !object.contains_key(*key));
                kept(object, !(whole && lacks), path, gone)
            }
            (Node::OneOf(variants), Value::Object(object)) => {
                let of = |key: &str| {
                    variants
                        .iter()
                        .find(|(name, _)| *name == key)
                        .map(|(_, schema)| *schema)
                };
                let object = self.object(object, of, path, gone, depth);
                let is_one = object.len() == 1;
                kept(object, !whole || is_one, path, gone)
            }
            (Node::Map(inner), Value::Object(object)) => Some(Value::Object(self.object(
                object,
                |_| Some(inner),
                path,
                gone,
                depth,
            ))),
            (Node::List(inner), Value::Array(items)) => {
                // A list is replaced whole, so its entries are whole in any layer.
                let whole = Fit {
                    strictness: Strictness::Whole,
                    ..self
                };
                let items = items.into_iter().enumerate();
                let items = items.filter_map(|(index, item)| {
                    let path = entry(path, index, &item);
                    whole.value(item, inner, &path, gone, depth + 1)
                });
                Some(Value::Array(items.collect()))
            }
            (Node::Any, value) => Some(value),
            (node, value) => {
                let mut check = Check {
                    shape: self.shape,
                    source: "",
                    faults: Vec::new(),
                };
                check.scalar(&node, &value, path);
                let fits = check.faults.is_empty();
                if !fits {
                    gone.push(path.to_owned());
                }
                fits.then_some(value)
            }
        }
    }

    fn object<'b>(
        self,
        object: Map<String, Value>,
        of: impl Fn(&str) -> Option<&'b Value>,
        path: &str,
        gone: &mut Vec<String>,
        depth: usize,
    ) -> Map<String, Value> {
        let mut kept = Map::new();
        for (key, value) in object {
            let path = join(path, &key);
            match of(&key) {
                Some(schema) => {
                    if let Some(value) = self.value(value, schema, &path, gone, depth + 1) {
                        kept.insert(key, value);
                    }
                }
                None => gone.push(path),
            }
        }
        kept
    }
}

/// The object, where it fits. The document itself always does: what it lacks is told by its parts.
fn kept(object: Map<String, Value>, fits: bool, path: &str, gone: &mut Vec<String>) -> Option<Value> {
    if !fits {
        gone.push(path.to_owned());
    }
    fits.then_some(Value::Object(object))
}
