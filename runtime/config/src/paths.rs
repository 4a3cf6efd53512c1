//! Every leaf of the document by name: what the flags and variables are made of. `limits.run.steps` is
//! `AGENTD_LIMITS_RUN_STEPS` and `--limits.run.steps`; `.`, `-` and `_` are the same in names.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::document::Document;
use crate::fault::Fault;
use crate::shape::{Node, Shape};

/// Variables of this prefix are ours; one that is neither a leaf nor [`RESERVED`] is refused.
pub const PREFIX: &str = "AGENTD_";
/// Variables that are no keys of the document: who the pod is, and where configuration and state lie.
pub const RESERVED: [&str; 6] = [
    "AGENTD_CONFIG",
    "AGENTD_STATE_DIR",
    "AGENTD_POD_NAME",
    "AGENTD_POD_UID",
    "AGENTD_POD_NAMESPACE",
    "AGENTD_POD_IP",
];
/// Short flags and the paths they set.
pub const ALIASES: [(&str, &str); 13] = [
    ("instruction", "agent.instruction"),
    ("prompt", "agent.prompt"),
    ("intelligence", "intelligence.endpoints"),
    ("model", "intelligence.model"),
    ("max-steps", "limits.run.steps"),
    ("max-tokens", "limits.run.tokens"),
    ("deadline", "limits.run.deadline"),
    ("max-depth", "limits.subagents.depth"),
    ("budget-tokens-lifetime", "intelligence.budget.lifetime_tokens"),
    ("listen", "a2a.listen"),
    ("log-level", "observability.log_level"),
    ("log-content", "observability.log_content"),
    ("watch-config", "lifecycle.watch_config"),
];

/// What a leaf's text is read as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// As it is.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`; a flag without a value is `true`.
    Boolean,
    /// A duration.
    Duration,
    /// One of these words.
    Choice(Vec<String>),
    /// JSON or YAML (`[…]`, or `- …` lines), or entries with commas between them.
    List,
    /// JSON or YAML (`{…}`).
    Map,
    /// Any JSON or YAML.
    Any,
}

/// One leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Such as `limits.run.steps`; the flag is `--` and this.
    pub path: String,
    /// The first paragraph of its documentation.
    pub help: String,
    /// What its text is read as.
    pub kind: Kind,
}

impl Leaf {
    /// Its variable.
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", folded(&self.path).to_ascii_uppercase())
    }

    /// A document with nothing but this leaf, read from the text of a variable or flag; `source` says which.
    pub fn document(&self, text: &str, source: &str) -> Result<Value, Fault> {
        let value = self.value(text, source)?;
        let keys = self.path.rsplit('.').map(str::to_owned);
        let mut document = keys.fold(value, |inner, key| {
            Value::Object([(key, inner)].into_iter().collect())
        });
        crate::parse::expand(&mut document)?;
        Ok(document)
    }

    fn value(&self, text: &str, source: &str) -> Result<Value, Fault> {
        let fault = |what: &str, remedy: &str| {
            Fault::new(self.path.clone(), format!("is not {what} in {source}"), remedy)
        };
        match &self.kind {
            Kind::Text | Kind::Duration | Kind::Choice(_) => Ok(Value::String(text.to_owned())),
            Kind::Integer => text
                .trim()
                .parse::<u64>()
                .map(Value::from)
                .map_err(|_| fault("a whole number", "write a whole number")),
            Kind::Number => text
                .trim()
                .parse::<f64>()
                .ok()
                .and_then(|number| serde_json::Number::from_f64(number).map(Value::Number))
                .ok_or_else(|| fault("a number", "write a number, such as 0.7")),
            Kind::Boolean => text
                .trim()
                .parse::<bool>()
                .map(Value::from)
                .map_err(|_| fault("true or false", "write true or false")),
            Kind::List if !text.trim_start().starts_with(['[', '-']) => Ok(Value::String(text.to_owned())),
            Kind::List | Kind::Map | Kind::Any => crate::parse::inline(text).map_err(|problem| {
                let problem = format!("cannot be read in {source} ({problem})");
                Fault::new(self.path.clone(), problem, "write JSON or YAML, or use a file")
            }),
        }
    }
}

/// Every leaf, in the order of the document.
pub fn leaves() -> Vec<Leaf> {
    let shape = Shape::of::<Document>();
    let mut found = Vec::new();
    collect(&shape, shape.root(), "", &mut found);
    found
}

/// The leaf of a name in any spelling: `limits.run.steps`, `limits-run-steps`, `LIMITS_RUN_STEPS`.
pub fn find<'a>(leaves: &'a [Leaf], name: &str) -> Option<&'a Leaf> {
    let name = folded(name);
    leaves.iter().find(|leaf| folded(&leaf.path) == name)
}

/// The names nearest to a mistyped one.
pub(crate) fn nearest(leaves: &[Leaf], name: &str) -> String {
    let name = folded(name);
    let best = leaves
        .iter()
        .min_by_key(|leaf| distance(&folded(&leaf.path), &name));
    best.map(Leaf::variable).unwrap_or_default()
}

fn folded(name: &str) -> String {
    name.to_ascii_lowercase().replace(['.', '-'], "_")
}

fn collect(shape: &Shape, schema: &Value, path: &str, found: &mut Vec<Leaf>) {
    let kind = match shape.node(schema) {
        Some(Node::Object { .. }) if shape.is_written_whole(schema) => Kind::Map,
        Some(Node::Object { properties, .. }) => {
            for (key, inner) in properties {
                collect(shape, inner, &crate::shape::join(path, key), found);
            }
            return;
        }
        Some(Node::Text | Node::Form(_)) => Kind::Text,
        Some(Node::Integer { .. }) => Kind::Integer,
        Some(Node::Number { .. }) => Kind::Number,
        Some(Node::Boolean) => Kind::Boolean,
        Some(Node::Any) => Kind::Any,
        Some(Node::Duration) => Kind::Duration,
        Some(Node::Choice(words)) => Kind::Choice(words.into_iter().map(str::to_owned).collect()),
        Some(Node::List(_)) => Kind::List,
        Some(Node::Map(_) | Node::OneOf(_)) => Kind::Map,
        None => return,
    };
    let help = schema
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let help = help.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    found.push(Leaf {
        path: path.to_owned(),
        help,
        kind,
    });
}

/// How many pairs of neighbouring letters only one of the two has.
fn distance(left: &str, right: &str) -> usize {
    let pairs = |text: &str| -> BTreeSet<(char, char)> { text.chars().zip(text.chars().skip(1)).collect() };
    pairs(left).symmetric_difference(&pairs(right)).count()
}
