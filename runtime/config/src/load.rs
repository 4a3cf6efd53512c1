//! From layers to one checked document: files in order (RFC 7396), then the environment, then flags, then the live
//! folder. Reads files, has no other effect. Every fault is found in one pass.

mod explain;
mod merge;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agentd_base::limit::DOCUMENT_BYTES;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::explain::{Explained, explain};
use self::merge::Merge;
use crate::bridge::BridgeDocument;
use crate::document::Document;
use crate::endpoint::Place;
use crate::fault::{ConfigErrors, Fault};
use crate::file::{self, FileError};
use crate::live::{self, Live};
use crate::paths;
use crate::reload::is_reloadable;
use crate::shape::{Shape, Strictness, covers};
use crate::validate;

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
    let shape = Shape::of::<Document>();
    let (merge, live) = whole(layers, &shape);
    ended(live, merge, &shape, agent).map(settled)
}

/// The merged document, its shape checked and nothing else: for a command that needs a part of it and validates that.
pub fn merged(layers: &Layers) -> Result<Document, ConfigErrors> {
    let shape = Shape::of::<Document>();
    let (merge, live) = whole(layers, &shape);
    ended(live, merge, &shape, |_| Vec::new()).map(|loaded| loaded.document)
}

/// Loads it again, with a live folder that was read before: so that a refusal can name the folder's digest.
pub fn reload(layers: &Layers, live: Option<Live>) -> Result<Loaded, ConfigErrors> {
    let shape = Shape::of::<Document>();
    let mut merge = base(layers, &shape);
    overlay(&mut merge, live.as_ref(), is_reloadable);
    ended(live, merge, &shape, agent).map(settled)
}

/// Loads the document of a bridge.
pub fn load_bridge(files: &[PathBuf]) -> Result<Loaded<BridgeDocument>, ConfigErrors> {
    let shape = Shape::of::<BridgeDocument>();
    let mut merge = bridge_base(files, &shape);
    let live = live_of(&mut merge);
    overlay(&mut merge, live.as_ref(), is_reloadable_at_a_bridge);
    ended(live, merge, &shape, validate::validate_bridge)
}

/// Loads it again, with a live folder that was read before.
pub fn reload_bridge(files: &[PathBuf], live: Option<Live>) -> Result<Loaded<BridgeDocument>, ConfigErrors> {
    let shape = Shape::of::<BridgeDocument>();
    let mut merge = bridge_base(files, &shape);
    overlay(&mut merge, live.as_ref(), is_reloadable_at_a_bridge);
    ended(live, merge, &shape, validate::validate_bridge)
}

/// What a document means and does not say: the tools by which state is kept are the store's alone. A model that could call
/// them would write its own history.
fn settled(mut loaded: Loaded) -> Loaded {
    let Document { store, mcp, .. } = &mut loaded.document;
    let Some(state) = &store.mcp else {
        return loaded;
    };
    for server in mcp
        .servers
        .iter_mut()
        .filter(|server| server.name == state.server)
    {
        server.exclude.extend(state.tools().map(globset::escape));
    }
    loaded
}

fn agent(document: &Document) -> Vec<Fault> {
    validate::validate(document, Place::Machine)
}

fn is_reloadable_at_a_bridge(path: &str) -> bool {
    path == "allowed"
}

/// Every layer, and the live folder among them.
fn whole<'a>(layers: &Layers, shape: &'a Shape) -> (Merge<'a>, Option<Live>) {
    let mut merge = base(layers, shape);
    let live = live_of(&mut merge);
    overlay(&mut merge, live.as_ref(), is_reloadable);
    (merge, live)
}

fn base<'a>(layers: &Layers, shape: &'a Shape) -> Merge<'a> {
    let leaves = paths::leaves();
    let mut merge = Merge::new(shape);
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
    merge
}

fn bridge_base<'a>(files: &[PathBuf], shape: &'a Shape) -> Merge<'a> {
    let mut merge = Merge::new(shape);
    for file in files {
        merge.file(file);
    }
    merge
}

/// The document that the layers make, or everything that is wrong with it.
fn ended<T: DeserializeOwned>(
    live: Option<Live>,
    merge: Merge<'_>,
    shape: &Shape,
    validate: fn(&T) -> Vec<Fault>,
) -> Result<Loaded<T>, ConfigErrors> {
    let Merge {
        document,
        mut faults,
        is_whole,
        ..
    } = merge;
    let document = if is_whole {
        examined(document, shape, validate, &mut faults)
    } else {
        // A part is missing: what else is wrong cannot be known.
        None
    };
    match document {
        Some(document) if faults.is_empty() => Ok(Loaded { document, live }),
        _ => Err(ConfigErrors(faults)),
    }
}

/// Goes on after a fault, without what it spoils: so that a person mends everything at once. What only follows from a
/// fault that is told already is not told.
fn examined<T: DeserializeOwned>(
    document: Value,
    shape: &Shape,
    validate: fn(&T) -> Vec<Fault>,
    faults: &mut Vec<Fault>,
) -> Option<T> {
    let mut gone: Vec<String> = faults.iter().map(|fault| fault.key.clone()).collect();
    let fitting = shape.fitting(document, Strictness::Layer, &mut gone);
    let known = |gone: &[String], fault: &Fault| gone.iter().any(|path| covers(path, &fault.key));
    let missing = shape.check(&fitting, Strictness::Whole, "the configuration");
    faults.extend(missing.into_iter().filter(|fault| !known(&gone, fault)));
    let fitting = shape.fitting(fitting, Strictness::Whole, &mut gone);
    match serde_json::from_value::<T>(fitting) {
        Ok(document) => {
            faults.extend(
                validate(&document)
                    .into_iter()
                    .filter(|fault| !known(&gone, fault)),
            );
            Some(document)
        }
        // What the shape cannot know: addresses and the like. serde names the value's form, not its key.
        Err(error) => {
            let problem = agentd_base::text::clip(&error.to_string(), 160);
            faults.push(Fault::new("configuration", problem, "mend that value"));
            None
        }
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

/// The live folder that the layers name.
fn live_of(merge: &mut Merge<'_>) -> Option<Live> {
    let folder = merge.document.pointer("/lifecycle/live_folder")?.as_str()?;
    match live::read(Path::new(folder)) {
        Ok(live) => Some(live),
        Err(error) => {
            merge.faults.push(Fault::new(
                "lifecycle.live_folder",
                error.to_string(),
                "create it, or take the key out",
            ));
            merge.is_whole = false;
            None
        }
    }
}

/// Lays the documents of a live folder over the rest. It may hold only what a running process takes up: a new folder
/// must never need another process.
fn overlay(merge: &mut Merge<'_>, live: Option<&Live>, reloadable: fn(&str) -> bool) {
    let Some(live) = live else { return };
    let mut layer = Merge::new(merge.shape);
    for (name, content) in &live.files {
        if [".json", ".yaml", ".yml"]
            .iter()
            .any(|extension| name.ends_with(extension))
        {
            layer.text(&live.folder.join(name), content);
        }
    }
    restart_only(&layer.document, "", reloadable, &mut layer.faults);
    merge.over(layer);
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
