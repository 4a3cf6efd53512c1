//! The shape of a document, read from its JSON schema: what keys there are, of which kind, and whether a value fits.
//! It is why an unknown or mistyped key is refused with its path and the allowed keys, inside lists too, where serde
//! would name neither. Never shows a text value: it could be a credential.

mod fit;

use agentd_base::duration::{self, Duration};
use agentd_base::rate::{self, Rate};
use agentd_base::time_of_day::{self, TimeOfDay};
use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::fault::Fault;

/// A schema node nests this deep at most; ours does so half as deep.
const DEPTH: usize = 32;

/// The schema's word for an object that variables and flags hold whole.
pub(crate) const WHOLE: &str = "x-written-whole";

/// A form that a text may have to have.
#[derive(Debug)]
pub(crate) struct Form {
    /// Its pattern in the schema.
    pattern: &'static str,
    /// What it is.
    what: &'static str,
    /// How it is written.
    example: &'static str,
    /// Whether a text has it.
    holds: fn(&str) -> bool,
}

const FORMS: [Form; 2] = [
    Form {
        pattern: rate::PATTERN,
        what: "a rate",
        example: "write how many in which time, such as 8/2s",
        holds: |text| text.parse::<Rate>().is_ok(),
    },
    Form {
        pattern: time_of_day::PATTERN,
        what: "a time of the day",
        example: "write hours and minutes of UTC, such as 06:30Z",
        holds: |text| text.parse::<TimeOfDay>().is_ok(),
    },
];

/// How strictly a value is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// One layer: keys may be missing at the top, to come from another layer; null removes one.
    Layer,
    /// The merged document.
    Whole,
}

/// What a node of the schema is.
#[derive(Debug, Clone)]
pub(crate) enum Node<'a> {
    /// Known keys, some of them required.
    Object {
        properties: &'a Map<String, Value>,
        required: Vec<&'a str>,
    },
    /// Exactly one of some keys.
    OneOf(Vec<(&'a str, &'a Value)>),
    /// Free keys, values of one kind.
    Map(&'a Value),
    /// Items of one kind.
    List(&'a Value),
    /// One of some words.
    Choice(Vec<&'a str>),
    /// Text of a duration, or seconds.
    Duration,
    /// Text of a form of its own.
    Form(&'static Form),
    /// Text.
    Text,
    /// A whole number in a range.
    Integer { minimum: u64, maximum: u64 },
    /// A number in a range.
    Number { minimum: f64, maximum: f64 },
    /// `true` or `false`.
    Boolean,
    /// Any JSON.
    Any,
}

/// The schema of a document type.
#[derive(Debug, Clone)]
pub(crate) struct Shape(Value);

impl Shape {
    /// Of a type.
    pub(crate) fn of<T: JsonSchema>() -> Self {
        Self(schemars::schema_for!(T).to_value())
    }

    /// The top.
    pub(crate) fn root(&self) -> &Value {
        &self.0
    }

    /// The node behind references and "or null".
    fn resolve<'a>(&'a self, mut node: &'a Value) -> &'a Value {
        for _ in 0..DEPTH {
            if let Some(name) = node.get("$ref").and_then(Value::as_str) {
                let found = name.strip_prefix('#').and_then(|pointer| self.0.pointer(pointer));
                node = found.unwrap_or(&Value::Null);
            } else if let Some(inner) = nullable(node) {
                node = inner;
            } else {
                break;
            }
        }
        node
    }

    /// What a node is; none for a form that our types do not have (a test walks them all).
    pub(crate) fn node<'a>(&'a self, node: &'a Value) -> Option<Node<'a>> {
        let node = self.resolve(node);
        if let Some(variants) = node.get("oneOf").and_then(Value::as_array) {
            return tagged(variants).or_else(|| choice(variants));
        }
        if let Some(words) = node.get("enum").and_then(Value::as_array) {
            return Some(Node::Choice(words.iter().filter_map(Value::as_str).collect()));
        }
        if node == &Value::Bool(true) || node.as_object().is_some_and(is_free) {
            return Some(Node::Any);
        }
        let number = |key| node.get(key).and_then(Value::as_u64);
        let fraction = |key| node.get(key).and_then(Value::as_f64);
        match type_of(node)? {
            "object" => match node.get("properties").and_then(Value::as_object) {
                Some(properties) => Some(Node::Object {
                    properties,
                    required: required(node),
                }),
                None => node.get("additionalProperties").map(Node::Map),
            },
            "array" => node.get("items").map(Node::List),
            "string" => {
                let pattern = node.get("pattern").and_then(Value::as_str);
                let form = FORMS.iter().find(|form| pattern == Some(form.pattern));
                Some(match form {
                    _ if pattern == Some(duration::PATTERN) => Node::Duration,
                    Some(form) => Node::Form(form),
                    None => Node::Text,
                })
            }
            "integer" => Some(Node::Integer {
                minimum: number("minimum").unwrap_or(0),
                maximum: number("maximum").unwrap_or(match node.get("format").and_then(Value::as_str) {
                    Some("uint16") => u64::from(u16::MAX),
                    Some("uint32") => u64::from(u32::MAX),
                    _ => u64::MAX,
                }),
            }),
            "number" => Some(Node::Number {
                minimum: fraction("minimum").unwrap_or(f64::MIN),
                maximum: fraction("maximum").unwrap_or(f64::MAX),
            }),
            "boolean" => Some(Node::Boolean),
            _ => None,
        }
    }

    /// Whether an object is written whole in a variable or flag, and not key by key: the type says so.
    pub(crate) fn is_written_whole(&self, node: &Value) -> bool {
        self.resolve(node).get(WHOLE).is_some()
    }

    /// Every fault of a value, with `source` (such as `file agentd.yaml`) where it was written.
    pub(crate) fn check(&self, value: &Value, strictness: Strictness, source: &str) -> Vec<Fault> {
        let mut check = Check {
            shape: self,
            source,
            faults: Vec::new(),
        };
        check.value(value, &self.0, "", strictness, 0);
        check.faults
    }
}

struct Check<'a> {
    shape: &'a Shape,
    source: &'a str,
    faults: Vec<Fault>,
}

impl Check<'_> {
    fn fault(&mut self, path: &str, problem: impl Into<String>, remedy: impl Into<String>) {
        let key = if path.is_empty() { self.source } else { path };
        self.faults.push(Fault::new(key, problem, remedy));
    }

    fn value(&mut self, value: &Value, schema: &Value, path: &str, strictness: Strictness, depth: usize) {
        let shape = self.shape;
        let Some(node) = shape.node(schema).filter(|_| depth < DEPTH) else {
            return;
        };
        if value.is_null() && (strictness == Strictness::Layer || is_nullable(schema)) {
            return;
        }
        match (node, value) {
            (Node::Object { properties, required }, Value::Object(object)) => {
                self.object(object, properties, &required, path, strictness, depth);
            }
            (Node::OneOf(variants), Value::Object(object)) => {
                self.one_of(object, &variants, path, strictness, depth);
            }
            (Node::Map(inner), Value::Object(object)) => {
                for (key, value) in object {
                    self.value(value, inner, &join(path, key), strictness, depth + 1);
                }
            }
            (Node::List(inner), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    // A list is replaced whole, so its entries are whole in any layer.
                    self.value(
                        item,
                        inner,
                        &entry(path, index, item),
                        Strictness::Whole,
                        depth + 1,
                    );
                }
            }
            (Node::Any, _) => {}
            (node, value) => self.scalar(&node, value, path),
        }
    }

    fn object(
        &mut self,
        object: &Map<String, Value>,
        properties: &Map<String, Value>,
        required: &[&str],
        path: &str,
        strictness: Strictness,
        depth: usize,
    ) {
        for (key, value) in object {
            match properties.get(key) {
                Some(schema) => self.value(value, schema, &join(path, key), strictness, depth + 1),
                None => self.unknown(&join(path, key), properties.keys().map(String::as_str)),
            }
        }
        if strictness == Strictness::Whole {
            for key in required.iter().filter(|key| !object.contains_key(**key)) {
                self.fault(&join(path, key), "is missing", "set it");
            }
        }
    }

    fn one_of(
        &mut self,
        object: &Map<String, Value>,
        variants: &[(&str, &Value)],
        path: &str,
        strictness: Strictness,
        depth: usize,
    ) {
        for (key, value) in object {
            match variants.iter().find(|(name, _)| name == key) {
                Some((_, schema)) => self.value(value, schema, &join(path, key), strictness, depth + 1),
                None => self.unknown(&join(path, key), variants.iter().map(|(name, _)| *name)),
            }
        }
        if object.len() != 1 && strictness == Strictness::Whole {
            let names: Vec<_> = variants.iter().map(|(name, _)| *name).collect();
            self.fault(
                path,
                "does not hold exactly one key",
                format!("set one of: {}", names.join(", ")),
            );
        }
    }

    fn unknown<'b>(&mut self, path: &str, allowed: impl Iterator<Item = &'b str>) {
        let allowed: Vec<_> = allowed.collect();
        let problem = format!("unknown key in {}", self.source);
        self.fault(path, problem, format!("allowed here: {}", allowed.join(", ")));
    }

    fn scalar(&mut self, node: &Node<'_>, value: &Value, path: &str) {
        let (what, example) = match node {
            Node::Object { .. } | Node::OneOf(_) | Node::Map(_) => {
                ("a set of keys", "write `key: value` pairs".into())
            }
            Node::List(_) => ("a list", "write a list".to_owned()),
            Node::Text if value.is_string() => return,
            Node::Text => ("text", "write it in quotes".to_owned()),
            Node::Form(form) if value.as_str().is_some_and(form.holds) => return,
            Node::Form(form) => (form.what, form.example.to_owned()),
            Node::Any => return,
            Node::Boolean if value.is_boolean() => return,
            Node::Boolean => ("true or false", "write true or false".to_owned()),
            Node::Duration if serde_json::from_value::<Duration>(value.clone()).is_ok() => return,
            Node::Duration => ("a duration", "write such as 250ms, 30s, 5m, 8h".to_owned()),
            Node::Choice(words) if value.as_str().is_some_and(|word| words.contains(&word)) => return,
            Node::Choice(words) => (
                "one of the words it may be",
                format!("write one of: {}", words.join(", ")),
            ),
            Node::Integer { minimum, maximum } => {
                if value
                    .as_u64()
                    .is_some_and(|number| (*minimum..=*maximum).contains(&number))
                {
                    return;
                }
                let range = if *maximum >= u64::from(u32::MAX) {
                    format!("write a whole number from {minimum} up")
                } else {
                    format!("write a whole number from {minimum} to {maximum}")
                };
                ("such a number", range)
            }
            Node::Number { minimum, maximum } => {
                if value
                    .as_f64()
                    .is_some_and(|number| (*minimum..=*maximum).contains(&number))
                {
                    return;
                }
                (
                    "such a number",
                    format!("write a number from {minimum} to {maximum}"),
                )
            }
        };
        let problem = format!("is not {what} in {}", self.source);
        self.fault(path, problem, example);
    }
}

/// `path.key`.
pub(crate) fn join(path: &str, key: &str) -> String {
    let key = agentd_base::text::clip(key, 80);
    if path.is_empty() {
        key
    } else {
        format!("{path}.{key}")
    }
}

/// The path of a list's entry: by its name where it has one, else by its index.
pub(crate) fn entry(path: &str, index: usize, item: &Value) -> String {
    let name = item
        .get("name")
        .and_then(Value::as_str)
        .filter(|name| is_plain(name));
    name.map_or_else(|| format!("{path}[{index}]"), |name| format!("{path}[{name}]"))
}

/// Whether `path` is at or below `above`.
pub(crate) fn covers(above: &str, path: &str) -> bool {
    path.strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Whether a name can stand in a path without quoting.
pub(crate) fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && name.len() <= 80 && name.bytes().all(plain)
}

/// A schema that says nothing of the value, whatever it says to people.
fn is_free(schema: &Map<String, Value>) -> bool {
    let speaks = |key: &String| matches!(key.as_str(), "description" | "default" | "title");
    schema.keys().all(speaks)
}

fn type_of(node: &Value) -> Option<&str> {
    match node.get("type")? {
        Value::String(name) => Some(name),
        Value::Array(names) => names
            .iter()
            .filter_map(Value::as_str)
            .find(|name| *name != "null"),
        _ => None,
    }
}

fn is_nullable(node: &Value) -> bool {
    let listed = node.get("type").and_then(Value::as_array);
    nullable(node).is_some() || listed.is_some_and(|names| names.iter().any(|name| name == "null"))
}

/// The other branch of `anyOf: [X, {type: null}]`.
fn nullable(node: &Value) -> Option<&Value> {
    let is_null = |branch: &Value| branch.get("type").and_then(Value::as_str) == Some("null");
    match node.get("anyOf").and_then(Value::as_array)?.as_slice() {
        [inner, null] if is_null(null) => Some(inner),
        _ => None,
    }
}

fn required(node: &Value) -> Vec<&str> {
    let names = node.get("required").and_then(Value::as_array);
    names
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

fn choice(variants: &[Value]) -> Option<Node<'_>> {
    variants
        .iter()
        .map(|variant| variant.get("const")?.as_str())
        .collect::<Option<_>>()
        .map(Node::Choice)
}

fn tagged(variants: &[Value]) -> Option<Node<'_>> {
    let of = |variant| {
        let properties = Value::get(variant, "properties")?.as_object()?;
        properties
            .iter()
            .next()
            .map(|(name, schema)| (name.as_str(), schema))
    };
    variants.iter().map(of).collect::<Option<_>>().map(Node::OneOf)
}
