//! From layers to one checked document: files in order (RFC 7396), then the environment, then flags, then the live
//! folder. Reads files, has no other effect. Every fault is found in one pass.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agentd_base::limit::DOCUMENT_BYTES;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::bridge::BridgeDocument;
use crate::document::Document;
use crate::endpoint::Place;
use crate::fault::{ConfigErrors, Fault};
use crate::file::{self, FileError};
use crate::live::{self, Live};
use crate::paths::{self, Leaf};
use crate::reload::{is_reloadable, merge_patch};
use crate::shape::{Shape, Strictness};
use crate::{parse, validate};

/// What a process was given. Kept, so that a reload reads the same again.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// `--config`, in order; when there is none, `AGENTD_CONFIG` with `:` between them.
    pub files: Vec<PathBuf>,
    /// The environment. Names that do not begin with `AGENTD_` are not looked at.
    pub variables: Vec<(String, String)>,
    /// Flags by path (any spelling that [`paths::find`] knows) or alias ([`paths::ALIASES`]).
    pub flags: Vec<(String, String)>,
    /// `--mcp name=endpoint`: each adds a server.
    pub servers: Vec<String>,
    /// What the pipes among the files held ([`Layers::hold`]).
    pub held: BTreeMap<PathBuf, Result<Vec<u8>, FileError>>,
}

impl Layers {
    /// The files to read: those named by flag, else by `AGENTD_CONFIG`; pipes are not among them.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = named_files(self);
        files.retain(|file| !self.held.contains_key(file));
        files
    }

    /// Reads the pipes among the files (`-c <(...)`) once and for all: a reload cannot read them again.
    #[must_use]
    pub fn hold(mut self) -> Self {
        for path in named_files(&self) {
            if file::is_pipe(&path) && !self.held.contains_key(&path) {
                let content = file::drain(&path, DOCUMENT_BYTES, file::PIPE_WAIT);
                self.held.insert(path, content);
            }
        }
        self
    }
}

/// A checked document.
#[derive(Debug, Clone)]
pub struct Loaded<T = Document> {
    /// The document.
    pub document: T,
    /// The live folder it was made with, where it names one.
    pub live: Option<Live>,
}

/// Loads the agent's document.
pub fn load(layers: &Layers) -> Result<Loaded, ConfigErrors> {
    let base = base(layers)?;
    let live = live_of(&base)?;
    assemble(base, live)
}

/// The merged document, its shape checked and nothing else: for a command that needs a part of it and validates that.
pub fn merged(layers: &Layers) -> Result<Document, ConfigErrors> {
    let base = base(layers)?;
    let live = live_of(&base)?;
    overlaid(base, live.as_ref())
}

/// Loads it again, with a live folder that was read before: so that a refusal can name the folder's digest.
pub fn reload(layers: &Layers, live: Option<Live>) -> Result<Loaded, ConfigErrors> {
    assemble(base(layers)?, live)
}

/// Loads the document of a bridge.
pub fn load_bridge(files: &[PathBuf]) -> Result<Loaded<BridgeDocument>, ConfigErrors> {
    let base = bridge_base(files)?;
    let live = live_of(&base)?;
    assemble_bridge(base, live)
}

/// Loads it again, with a live folder that was read before.
pub fn reload_bridge(files: &[PathBuf], live: Option<Live>) -> Result<Loaded<BridgeDocument>, ConfigErrors> {
    assemble_bridge(bridge_base(files)?, live)
}

fn base(layers: &Layers) -> Result<Value, ConfigErrors> {
    let shape = Shape::of::<Document>();
    let leaves = paths::leaves();
    let mut merge = Merge::new(&shape);
    for file in named_files(layers) {
        match layers.held.get(&file) {
            Some(held) => merge.pipe(&file, held),
            None => merge.file(&file),
        }
    }
    for (name, value) in &layers.variables {
        if let Some(leaf) = merge.variable(&leaves, name) {
            merge.leaf(leaf, value, &format!("variable {name}"));
        }
    }
    for (name, value) in &layers.flags {
        let path = paths::ALIASES
            .iter()
            .find(|(alias, _)| alias == name)
            .map_or(name.as_str(), |(_, path)| *path);
        match paths::find(&leaves, path) {
            Some(leaf) => merge.leaf(leaf, value, &format!("flag --{name}")),
            None => merge
                .faults
                .push(Fault::new(format!("--{name}"), "unknown flag", "see --help")),
        }
    }
    for text in &layers.servers {
        merge.server(text);
    }
    merge.end()
}

fn bridge_base(files: &[PathBuf]) -> Result<Value, ConfigErrors> {
    let shape = Shape::of::<BridgeDocument>();
    let mut merge = Merge::new(&shape);
    for file in files {
        merge.file(file);
    }
    merge.end()
}

fn overlaid(mut document: Value, live: Option<&Live>) -> Result<Document, ConfigErrors> {
    let shape = Shape::of::<Document>();
    if let Some(live) = live {
        overlay(&mut document, live, &shape, is_reloadable)?;
    }
    typed(document, &shape)
}

fn assemble(document: Value, live: Option<Live>) -> Result<Loaded, ConfigErrors> {
    let document = overlaid(document, live.as_ref())?;
    let faults = validate::validate(&document, Place::Machine);
    if faults.is_empty() {
        Ok(Loaded { document, live })
    } else {
        Err(ConfigErrors(faults))
    }
}

fn assemble_bridge(mut document: Value, live: Option<Live>) -> Result<Loaded<BridgeDocument>, ConfigErrors> {
    let shape = Shape::of::<BridgeDocument>();
    if let Some(live) = &live {
        overlay(&mut document, live, &shape, |path| path == "allowed")?;
    }
    let document: BridgeDocument = typed(document, &shape)?;
    let faults = validate::validate_bridge(&document);
    if faults.is_empty() {
        Ok(Loaded { document, live })
    } else {
        Err(ConfigErrors(faults))
    }
}

/// The files to read: those named by flag, else by `AGENTD_CONFIG`.
fn named_files(layers: &Layers) -> Vec<PathBuf> {
    if !layers.files.is_empty() {
        return layers.files.clone();
    }
    let listed = layers.variables.iter().find(|(name, _)| name == "AGENTD_CONFIG");
    let listed = listed.map(|(_, value)| value.as_str()).unwrap_or_default();
    listed
        .split(':')
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .collect()
}

fn live_of(document: &Value) -> Result<Option<Live>, ConfigErrors> {
    let Some(folder) = document.pointer("/lifecycle/live_folder").and_then(Value::as_str) else {
        return Ok(None);
    };
    let live = live::read(Path::new(folder)).map_err(|error| {
        Fault::new(
            "lifecycle.live_folder",
            error.to_string(),
            "create it, or take the key out",
        )
    })?;
    Ok(Some(live))
}

/// Lays the documents of a live folder over the rest. It may hold only what a running process takes up: a new folder
/// must never need another process.
fn overlay(
    document: &mut Value,
    live: &Live,
    shape: &Shape,
    reloadable: fn(&str) -> bool,
) -> Result<(), ConfigErrors> {
    let mut merge = Merge::new(shape);
    for (name, content) in &live.files {
        if [".json", ".yaml", ".yml"]
            .iter()
            .any(|extension| name.ends_with(extension))
        {
            merge.text(&live.folder.join(name), content);
        }
    }
    let layer = merge.end()?;
    let mut faults = Vec::new();
    restart_only(&layer, "", reloadable, &mut faults);
    if !faults.is_empty() {
        return Err(ConfigErrors(faults));
    }
    merge_patch(document, &layer);
    Ok(())
}

fn restart_only(layer: &Value, path: &str, reloadable: fn(&str) -> bool, faults: &mut Vec<Fault>) {
    match layer {
        _ if !path.is_empty() && reloadable(path) => {}
        Value::Object(object) => {
            for (key, inner) in object {
                restart_only(inner, &crate::shape::join(path, key), reloadable, faults);
            }
        }
        _ => faults.push(Fault::new(
            path,
            "may not stand in the live folder: it needs a new process",
            "put it into the configuration file",
        )),
    }
}

fn typed<T: DeserializeOwned>(document: Value, shape: &Shape) -> Result<T, ConfigErrors> {
    let faults = shape.check(&document, Strictness::Whole, "the configuration");
    if !faults.is_empty() {
        return Err(ConfigErrors(faults));
    }
    // What the shape cannot know: addresses and the like. serde names the value's form, not its key.
    serde_json::from_value(document).map_err(|error| {
        let problem = agentd_base::text::clip(&error.to_string(), 160);
        Fault::new("configuration", problem, "mend that value").into()
    })
}

/// Layers merged so far, and what is wrong with them.
struct Merge<'a> {
    shape: &'a Shape,
    document: Value,
    faults: Vec<Fault>,
}

impl<'a> Merge<'a> {
    fn new(shape: &'a Shape) -> Self {
        Self {
            shape,
            document: Value::Object(Map::new()),
            faults: Vec::new(),
        }
    }

    fn file(&mut self, path: &Path) {
        match file::read(path, DOCUMENT_BYTES) {
            Ok(content) => self.text(path, &content),
            Err(error) => self.unread(path, &error),
        }
    }

    /// A pipe has no name that would say what it holds.
    fn pipe(&mut self, path: &Path, held: &Result<Vec<u8>, FileError>) {
        let name = path.display().to_string();
        match held.as_ref().map(|content| parse::piped(&name, content)) {
            Ok(Ok(layer)) => self.layer(layer, &format!("pipe {name}")),
            Ok(Err(fault)) => self.faults.push(fault),
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
        self.faults.push(Fault::new(name, error.to_string(), remedy));
    }

    fn text(&mut self, path: &Path, content: &[u8]) {
        match parse::text(&path.display().to_string(), content) {
            Ok(layer) => self.layer(layer, &format!("file {}", path.display())),
            Err(fault) => self.faults.push(fault),
        }
    }

    /// The leaf of a variable; none for one that is not ours or not a key.
    fn variable<'b>(&mut self, leaves: &'b [Leaf], name: &str) -> Option<&'b Leaf> {
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

    fn leaf(&mut self, leaf: &Leaf, text: &str, source: &str) {
        match leaf.document(text, source) {
            Ok(layer) => self.layer(layer, source),
            Err(fault) => self.faults.push(fault),
        }
    }

    fn server(&mut self, text: &str) {
        match parse::server(text) {
            Ok(entry) => {
                let mut servers = self.document.pointer("/mcp/servers").cloned().unwrap_or_default();
                match servers.as_array_mut() {
                    Some(list) => list.push(entry),
                    None => servers = Value::Array(vec![entry]),
                }
                let layer = serde_json::json!({ "mcp": { "servers": servers } });
                self.layer(layer, "flag --mcp");
            }
            Err(fault) => self.faults.push(Fault {
                key: "--mcp".into(),
                ..fault
            }),
        }
    }

    fn layer(&mut self, mut layer: Value, source: &str) {
        if let Err(fault) = parse::expand(&mut layer) {
            self.faults.push(fault);
            return;
        }
        self.faults
            .extend(self.shape.check(&layer, Strictness::Layer, source));
        merge_patch(&mut self.document, &layer);
    }

    fn end(self) -> Result<Value, ConfigErrors> {
        if self.faults.is_empty() {
            Ok(self.document)
        } else {
            Err(ConfigErrors(self.faults))
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
