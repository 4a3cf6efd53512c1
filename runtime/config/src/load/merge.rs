//! Layers merged one after another: what they make, who set what, and what is wrong with them. A layer with a fault is
//! merged all the same, so that every fault is found in one pass.

use std::collections::BTreeMap;
use std::path::Path;

use agentd_base::limit::DOCUMENT_BYTES;
use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::file::{self, FileError};
use crate::parse;
use crate::paths::{self, Leaf};
use crate::reload::merge_patch;
use crate::shape::{Shape, Strictness, covers};

/// Layers merged so far.
pub(super) struct Merge<'a> {
    pub(super) shape: &'a Shape,
    pub(super) document: Value,
    /// By path, which layer set it.
    pub(super) origins: BTreeMap<String, String>,
    /// What is wrong with them.
    pub(super) faults: Vec<Fault>,
    /// Whether every layer could be read.
    pub(super) is_whole: bool,
}

impl<'a> Merge<'a> {
    pub(super) fn new(shape: &'a Shape) -> Self {
        Self {
            shape,
            document: Value::Object(Map::new()),
            origins: BTreeMap::new(),
            faults: Vec::new(),
            is_whole: true,
        }
    }

    pub(super) fn file(&mut self, path: &Path) {
        match file::read(path, DOCUMENT_BYTES) {
            Ok(content) => self.text(path, &content),
            Err(error) => self.unread(path, &error),
        }
    }

    /// A pipe has no name that would say what it holds.
    pub(super) fn pipe(&mut self, path: &Path, held: &Result<Vec<u8>, FileError>) {
        let name = path.display().to_string();
        match held.as_ref().map(|content| parse::piped(&name, content)) {
            Ok(Ok(layer)) => self.layer(layer, &format!("pipe {name}")),
            Ok(Err(fault)) => self.lost(fault),
            Err(error) => self.unread(path, error),
        }
    }

    fn unread(&mut self, path: &Path, error: &FileError) {
        let remedy = match error {
            FileError::NotFound | FileError::Unreadable(_) => "check path and permissions",
            FileError::NotAFile => "name a file, or a pipe such as <(command)",
            FileError::TooLarge(_) => "shorten it",
            FileError::Silent => "let its writer write all and close it",
        };
        let name = path.display().to_string();
        self.lost(Fault::new(name, error.to_string(), remedy));
    }

    /// A whole layer cannot be read.
    fn lost(&mut self, fault: Fault) {
        self.faults.push(fault);
        self.is_whole = false;
    }

    pub(super) fn text(&mut self, path: &Path, content: &[u8]) {
        match parse::text(&path.display().to_string(), content) {
            Ok(layer) => self.layer(layer, &format!("file {}", path.display())),
            Err(fault) => self.lost(fault),
        }
    }

    /// The leaf of a variable; none for one that is not ours or not a key.
    pub(super) fn variable<'b>(&mut self, leaves: &'b [Leaf], name: &str) -> Option<&'b Leaf> {
        let key = name.strip_prefix(paths::PREFIX)?;
        if paths::RESERVED.contains(&name) || is_service_link(key) {
            return None;
        }
        let leaf = paths::find(leaves, key);
        if leaf.is_none() {
            let remedy = format!(
                "unset it, or use the name of a key, such as {}",
                paths::nearest(leaves, key)
            );
            self.faults.push(Fault::new(name, "unknown variable", remedy));
        }
        leaf
    }

    pub(super) fn leaf(&mut self, leaf: &Leaf, text: &str, source: &str) {
        match leaf.document(text, source) {
            Ok(layer) => self.layer(layer, source),
            Err(fault) => self.faults.push(fault),
        }
    }

    /// `--mcp`: one more server.
    pub(super) fn server(&mut self, text: &str) {
        const SOURCE: &str = "flag --mcp";
        let entry = match parse::server(text) {
            Ok(entry) => entry,
            Err(fault) => {
                self.faults.push(Fault {
                    key: "--mcp".into(),
                    ..fault
                });
                return;
            }
        };
        let mut servers = self.document.pointer("/mcp/servers").cloned().unwrap_or_default();
        match servers.as_array_mut() {
            Some(list) => list.push(entry),
            None => servers = Value::Array(vec![entry]),
        }
        let origin = match self.origins.get("mcp.servers") {
            Some(before) if before.ends_with(SOURCE) => before.clone(),
            Some(before) => format!("{before}, {SOURCE}"),
            None => SOURCE.to_owned(),
        };
        merge_patch(
            &mut self.document,
            &serde_json::json!({ "mcp": { "servers": servers } }),
        );
        self.origins.insert("mcp.servers".to_owned(), origin);
    }

    /// Lays what another one has merged over this.
    pub(super) fn over(&mut self, layer: Self) {
        merge_patch(&mut self.document, &layer.document);
        set(&mut self.origins, &layer.document, "", &|path| {
            layer.origins.get(path).cloned()
        });
        self.faults.extend(layer.faults);
        self.is_whole &= layer.is_whole;
    }

    fn layer(&mut self, mut layer: Value, source: &str) {
        if let Err(fault) = parse::expand(&mut layer) {
            self.lost(fault);
            return;
        }
        self.faults
            .extend(self.shape.check(&layer, Strictness::Layer, source));
        merge_patch(&mut self.document, &layer);
        set(&mut self.origins, &layer, "", &|_| Some(source.to_owned()));
    }
}

/// Notes who set what. A list is set whole; null sets nothing and takes away what there was.
fn set(
    origins: &mut BTreeMap<String, String>,
    layer: &Value,
    path: &str,
    source: &dyn Fn(&str) -> Option<String>,
) {
    match layer {
        Value::Object(object) if path.is_empty() || !object.is_empty() => {
            origins.remove(path);
            for (key, inner) in object {
                set(origins, inner, &crate::shape::join(path, key), source);
            }
        }
        value => {
            origins.retain(|known, _| !covers(path, known));
            if let Some(source) = source(path).filter(|_| !value.is_null()) {
                origins.insert(path.to_owned(), source);
            }
        }
    }
}

/// A variable that a kubelet sets for a Service whose name begins with `agentd`: not ours, though it looks so.
fn is_service_link(key: &str) -> bool {
    let words: Vec<&str> = key.split('_').collect();
    let digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    words.last() == Some(&"PORT")
        || words.windows(2).any(|pair| match pair {
            ["SERVICE", "HOST" | "PORT"] => true,
            ["PORT", number] => digits(number),
            _ => false,
        })
}
