//! What of a document can change in a running process, and the two halves in which it travels. Pure; used by the
//! operator to split and by the pod to merge, so that they agree.

use serde_json::{Map, Value};

use crate::document::Document;
use crate::shape::covers;

/// The two halves of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Halves {
    /// What needs a new process; every key that [`Document::RELOADABLE`] does not name.
    pub restart_only: Value,
    /// What a running process takes up.
    pub reloadable: Value,
}

/// Splits a document. [`merge_patch`] of the second half onto the first gives it back.
pub fn split(document: &Document) -> Result<Halves, serde_json::Error> {
    let mut restart_only = serde_json::to_value(document)?;
    let mut reloadable = Value::Object(Map::new());
    for path in Document::RELOADABLE {
        if let Some(value) = take(&mut restart_only, path) {
            put(&mut reloadable, path, value);
        }
    }
    Ok(Halves {
        restart_only,
        reloadable,
    })
}

/// The document that two halves make.
pub fn merge(halves: &Halves) -> Result<Document, serde_json::Error> {
    let mut whole = halves.restart_only.clone();
    merge_patch(&mut whole, &halves.reloadable);
    serde_json::from_value(whole)
}

/// A JSON merge patch (RFC 7396): objects are merged key by key, everything else is replaced, null removes.
pub fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.shift_remove(key);
        } else {
            merge_patch(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// The paths at which two documents differ, in the order of the document; a list or a map is one path.
pub fn changed(old: &Document, new: &Document) -> Result<Vec<String>, serde_json::Error> {
    let (old, new) = (serde_json::to_value(old)?, serde_json::to_value(new)?);
    let mut paths = Vec::new();
    differences(&old, &new, "", &mut paths);
    Ok(paths)
}

/// What differs between two documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// What a running process takes up.
    pub reloadable: Vec<String>,
    /// What needs a new process.
    pub restart_only: Vec<String>,
}

impl Changes {
    /// Between two documents, by [`changed`].
    pub fn between(old: &Document, new: &Document) -> Result<Self, serde_json::Error> {
        let (reloadable, restart_only) = changed(old, new)?
            .into_iter()
            .partition(|path| is_reloadable(path));
        Ok(Self {
            reloadable,
            restart_only,
        })
    }
}

/// Whether a running process takes up a change of this path.
pub fn is_reloadable(path: &str) -> bool {
    Document::RELOADABLE.iter().any(|open| covers(open, path))
}

fn differences(old: &Value, new: &Value, path: &str, found: &mut Vec<String>) {
    static ABSENT: Value = Value::Null;
    let (Some(left), Some(right)) = (as_map(old), as_map(new)) else {
        if old != new {
            found.push(path.to_owned());
        }
        return;
    };
    let keys = left
        .keys()
        .chain(right.keys().filter(|key| !left.contains_key(*key)));
    for key in keys {
        let inner = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        let (before, after) = (
            left.get(key).unwrap_or(&ABSENT),
            right.get(key).unwrap_or(&ABSENT),
        );
        differences(before, after, &inner, found);
    }
}

/// An object, also where it is absent: so that a difference is named by its leaves.
fn as_map(value: &Value) -> Option<&Map<String, Value>> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    match value {
        Value::Object(map) => Some(map),
        Value::Null => Some(&NONE),
        _ => None,
    }
}

fn take(value: &mut Value, path: &str) -> Option<Value> {
    let object = value.as_object_mut()?;
    match path.split_once('.') {
        None => object.shift_remove(path),
        Some((head, rest)) => take(object.get_mut(head)?, rest),
    }
}

fn put(value: &mut Value, path: &str, content: Value) {
    let Value::Object(object) = value else { return };
    match path.split_once('.') {
        None => {
            object.insert(path.to_owned(), content);
        }
        Some((head, rest)) => {
            put(
                object
                    .entry(head.to_owned())
                    .or_insert_with(|| Value::Object(Map::new())),
                rest,
                content,
            );
        }
    }
}
