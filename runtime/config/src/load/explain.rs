//! The document as it stands, with faults and all, and which layer set each key: for a person who asks why. Shows
//! references to secrets, never what may be one: a literal under the name of a credential, the value of a key that is
//! not known, the user or the query of a URL.

use std::collections::BTreeMap;

use serde_json::Value;
use url::Url;

use super::{Layers, agent, examined, whole};
use crate::document::Document;
use crate::fault::Fault;
use crate::header;
use crate::shape::{Shape, Strictness, covers, join};

/// Stands for what is not shown.
const WITHHELD: &str = "(withheld)";
/// Keys whose value is a credential, beside those whose name says so ([`header::is_credential`]).
const CREDENTIALS: [&str; 2] = ["bearer", "client_key"];
/// Keys that name where a credential is.
const PLACES: [&str; 2] = ["token_file", "token_endpoint"];
/// What may stand before a reference in a header.
const SCHEMES: [&str; 4] = ["bearer", "basic", "token", "apikey"];

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// The merged document; short forms are written out.
    pub document: Value,
    /// By path, which layer set it last. A list is one path.
    pub origins: BTreeMap<String, String>,
    /// What is wrong with it.
    pub faults: Vec<Fault>,
}

/// Explains the agent's document.
pub fn explain(layers: &Layers) -> Explained {
    let shape = Shape::of::<Document>();
    let (merge, _) = whole(layers, &shape);
    let mut unknown = Vec::new();
    let _ = shape.fitting(merge.document.clone(), Strictness::Layer, &mut unknown);
    let mut faults = merge.faults;
    if merge.is_whole {
        let _ = examined(merge.document.clone(), &shape, agent, &mut faults);
    }
    let mut document = merge.document;
    withhold(&mut document, "", "", &unknown);
    Explained {
        document,
        origins: merge.origins,
        faults,
    }
}

fn withhold(value: &mut Value, path: &str, name: &str, unknown: &[String]) {
    if !path.is_empty() && unknown.iter().any(|gone| covers(gone, path)) {
        *value = WITHHELD.into();
        return;
    }
    match value {
        Value::Object(object) => {
            for (key, inner) in object {
                withhold(inner, &join(path, key), key, unknown);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let path = crate::shape::entry(path, index, item);
                withhold(item, &path, name, unknown);
            }
        }
        Value::String(text) => {
            if is_credential(name) {
                *text = references(text);
            } else if let Some(shown) = address(text) {
                *text = shown;
            }
        }
        // A number or a switch under such a name: `max_tokens`.
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_credential(name: &str) -> bool {
    !PLACES.contains(&name) && (CREDENTIALS.contains(&name) || header::is_credential(name))
}

/// A credential with what it refers to, and nothing that it holds itself.
fn references(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    loop {
        let (literal, reference, tail) = match rest.split_once("{{") {
            None => (rest, None, ""),
            Some((before, after)) => match after.split_once("}}") {
                Some((inside, tail)) => (before, Some(inside), tail),
                None => (rest, None, ""),
            },
        };
        let word = literal.trim();
        if word.is_empty() || SCHEMES.contains(&word.to_ascii_lowercase().as_str()) {
            shown.push_str(literal);
        } else {
            shown.push_str(WITHHELD);
        }
        match reference {
            Some(inside) if inside.starts_with("secret:") || inside.starts_with("secret-file:") => {
                shown.push_str(&format!("{{{{{inside}}}}}"));
            }
            Some(_) => shown.push_str(WITHHELD),
            None => return shown,
        }
        rest = tail;
    }
}

/// A URL without what it should not hold; none where there is nothing to leave out.
fn address(text: &str) -> Option<String> {
    let mut url = Url::parse(text).ok().filter(Url::has_host)?;
    if url.username().is_empty() && url.password().is_none() && url.query().is_none() {
        return None;
    }
    url.set_query(url.query().map(|_| WITHHELD));
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Some(url.into())
}
