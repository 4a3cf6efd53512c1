//! The live folder of a running process: read again when it changes, whole or not at all; checked in full before any
//! of it counts; what a running process cannot take up is refused and said. Nothing here knows what follows a change:
//! it swaps one immutable value, and whoever follows it acts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentd_base::limit::MESSAGE_CHARS;
use agentd_base::report::Rejected;
use agentd_base::text::clip;
use agentd_config::live::{self, Live};
use agentd_config::load::{self, Layers, Loaded};
use agentd_config::{BridgeDocument, ConfigErrors, Document, Fault, reload};
use agentd_identity::{Bundle, IdentitySource};
use tokio::sync::watch;

use crate::files::Folders;
use crate::identity::{name_in, parse_bundle, read_bundle, set_bundle};
use crate::metrics::Metrics;

/// A kubelet makes several changes for one swap; a person's editor too.
const SETTLE: Duration = Duration::from_millis(100);

/// A document with a live half.
pub trait Reloadable: Clone + Send + Sync + 'static {
    /// How it was loaded.
    type Layers: Clone + Send + Sync + 'static;

    /// Loads it again with this content of the live folder.
    ///
    /// # Errors
    /// Every fault.
    fn load(layers: &Self::Layers, live: Live) -> Result<Loaded<Self>, ConfigErrors>;

    /// The paths that differ and that a running process cannot take up.
    fn restart_only(&self, new: &Self) -> Vec<String>;

    /// The file of the trust bundle.
    fn bundle_file(&self) -> Option<PathBuf>;

    /// The live folder.
    fn live_folder(&self) -> Option<PathBuf>;
}

impl Reloadable for Document {
    type Layers = Layers;

    fn load(layers: &Layers, live: Live) -> Result<Loaded<Self>, ConfigErrors> {
        load::reload(layers, live)
    }

    fn restart_only(&self, new: &Self) -> Vec<String> {
        // Both were made from JSON.
        reload::restart_only_changes(self, new).unwrap_or_default()
    }

    fn bundle_file(&self) -> Option<PathBuf> {
        self.identity
            .as_ref()
            .map(|identity| identity.bundle_file.clone())
    }

    fn live_folder(&self) -> Option<PathBuf> {
        self.lifecycle.live_folder.clone()
    }
}

impl Reloadable for BridgeDocument {
    type Layers = Vec<PathBuf>;

    fn load(files: &Vec<PathBuf>, live: Live) -> Result<Loaded<Self>, ConfigErrors> {
        load::reload_bridge(files, live)
    }

    fn restart_only(&self, new: &Self) -> Vec<String> {
        let same = Self {
            allowed: self.allowed.clone(),
            ..new.clone()
        };
        if same == *self {
            Vec::new()
        } else {
            vec!["the configuration file".to_owned()]
        }
    }

    fn bundle_file(&self) -> Option<PathBuf> {
        Some(self.identity.bundle_file.clone())
    }

    fn live_folder(&self) -> Option<PathBuf> {
        self.lifecycle.live_folder.clone()
    }
}

/// The accepted configuration.
#[derive(Debug, Clone)]
pub struct Settings<T> {
    /// 1 at the start, one more with each accepted change.
    pub generation: u64,
    /// The whole document.
    pub document: T,
    /// The digest of the live folder it came from; absent without one.
    pub digest: Option<String>,
}

/// What follows the live folder.
pub struct LiveHalf<T: Reloadable> {
    /// How the document was loaded.
    pub layers: T::Layers,
    /// Swapped when a new one is accepted.
    pub settings: watch::Sender<Arc<Settings<T>>>,
    /// Set when one is refused, cleared when one is accepted.
    pub rejected: watch::Sender<Option<Rejected>>,
    /// Gets the bundle.
    pub identity: Option<IdentitySource>,
    /// Counters.
    pub metrics: Metrics,
}

/// What a new content of the folder is worth.
enum Verdict<T> {
    /// It is what runs.
    Same,
    /// It is good.
    Accepted {
        document: Box<T>,
        bundle: Option<Bundle>,
        digest: String,
    },
    /// It is not.
    Refused(Rejected),
}

impl<T: Reloadable> LiveHalf<T> {
    /// Follows the folder until the process ends.
    pub async fn follow(self, folders: Folders) {
        let mut changes = folders.changes();
        let document = self.settings.borrow().document.clone();
        let (live, bundle) = (document.live_folder(), document.bundle_file());
        for folder in live
            .iter()
            .map(PathBuf::as_path)
            .chain(bundle.iter().filter_map(|file| file.parent()))
        {
            folders.add(folder);
        }
        tracing::debug!(event = "config.watch.armed", folder = ?live);
        loop {
            // What changed between the first reading and the watch is seen too.
            self.look().await;
            changes.next().await;
            tokio::time::sleep(SETTLE).await;
        }
    }

    /// Reads the folder and takes it up, or says why not.
    pub async fn look(&self) {
        let document = self.settings.borrow().document.clone();
        let Some(folder) = document.live_folder() else {
            return self.look_at_bundle(&document);
        };
        let (layers, running) = (self.layers.clone(), self.settings.borrow().digest.clone());
        let source = self.identity.clone();
        let judged = tokio::task::spawn_blocking(move || {
            let live = live::read(&folder)?;
            Ok::<_, live::LiveError>(judge(
                &document,
                &layers,
                live,
                running.as_deref(),
                source.as_ref(),
            ))
        })
        .await;
        match judged {
            Ok(Ok(Verdict::Same)) => {
                self.rejected
                    .send_if_modified(|rejected| rejected.take().is_some());
            }
            Ok(Ok(Verdict::Accepted {
                document,
                bundle,
                digest,
            })) => self.accept(*document, bundle, digest),
            Ok(Ok(Verdict::Refused(rejected))) => self.refuse(rejected),
            Ok(Err(error)) => tracing::warn!(event = "config.watch.error", err = %error),
            Err(error) => tracing::error!(event = "config.watch.error", err = %error),
        }
    }

    /// Without a live folder only the bundle can change.
    fn look_at_bundle(&self, document: &T) {
        let (Some(source), Some(file)) = (&self.identity, document.bundle_file()) else {
            return;
        };
        let read = read_bundle(&file).map_err(|error| error.to_string());
        match read.and_then(|pem| parse_bundle(source, &pem).map_err(|errors| errors.to_string())) {
            Ok(bundle) => set_bundle(source, bundle),
            Err(error) => tracing::warn!(event = "identity.bundle.fail", path = %file.display(), err = error),
        }
    }

    fn accept(&self, document: T, bundle: Option<Bundle>, digest: String) {
        if let (Some(source), Some(bundle)) = (&self.identity, bundle) {
            set_bundle(source, bundle);
        }
        let generation = self.settings.borrow().generation + 1;
        tracing::info!(event = "config.reloaded", generation, digest);
        self.settings.send_replace(Arc::new(Settings {
            generation,
            document,
            digest: Some(digest),
        }));
        self.rejected
            .send_if_modified(|rejected| rejected.take().is_some());
        self.metrics.reload(true, generation);
    }

    fn refuse(&self, refused: Rejected) {
        let is_new = self.rejected.send_if_modified(|rejected| {
            let changed = rejected.as_ref() != Some(&refused);
            *rejected = Some(refused.clone());
            changed
        });
        if is_new {
            tracing::error!(
                event = "config.reload.invalid",
                digest = refused.digest,
                err = refused.message
            );
            self.metrics.reload(false, self.settings.borrow().generation);
        }
    }
}

fn judge<T: Reloadable>(
    running: &T,
    layers: &T::Layers,
    live: Live,
    digest: Option<&str>,
    source: Option<&IdentitySource>,
) -> Verdict<T> {
    let found = live.digest.clone();
    if digest == Some(found.as_str()) {
        return Verdict::Same;
    }
    let accepted = check_bundle(running, &live, source).and_then(|bundle| {
        let document = T::load(layers, live)?.document;
        let restart_only = running.restart_only(&document);
        if restart_only.is_empty() {
            return Ok((document, bundle));
        }
        Err(Fault::new(
            restart_only.join(", "),
            "cannot change while the process runs",
            "restart it",
        )
        .into())
    });
    match accepted {
        Ok((document, bundle)) => Verdict::Accepted {
            document: Box::new(document),
            bundle,
            digest: found,
        },
        Err(errors) => Verdict::Refused(Rejected {
            digest: found,
            message: message(&errors),
        }),
    }
}

/// The bundle in the folder, where the document says that it is there.
fn check_bundle<T: Reloadable>(
    running: &T,
    live: &Live,
    source: Option<&IdentitySource>,
) -> Result<Option<Bundle>, ConfigErrors> {
    let name = running
        .bundle_file()
        .and_then(|file| name_in(&live.folder, &file));
    let (Some(source), Some(name)) = (source, name) else {
        return Ok(None);
    };
    match live.files.get(&name) {
        Some(pem) => Ok(Some(parse_bundle(source, pem)?)),
        None => Err(Fault::new(
            "identity.bundle_file",
            format!("{name} is gone from the folder"),
            "put it back",
        )
        .into()),
    }
}

fn message(errors: &ConfigErrors) -> String {
    clip(
        &errors
            .0
            .iter()
            .map(Fault::to_string)
            .collect::<Vec<_>>()
            .join("; "),
        MESSAGE_CHARS,
    )
}

/// The content of the bundle file, where it came with the live folder.
pub fn bundle_of(live: Option<&Live>, bundle_file: &Path) -> Option<Vec<u8>> {
    let live = live?;
    live.files.get(&name_in(&live.folder, bundle_file)?).cloned()
}
