//! The configuration of a running process: read again on SIGHUP, when its live folder changes, and when its files
//! change and `lifecycle.watch_config` says so. Guarantees: it is checked in full before any of it counts; all of it
//! counts or none; what a running process cannot take up is named and leaves everything as it was. Nothing here knows
//! what follows a change: it swaps one immutable value, and whoever follows it acts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentd_base::limit::MESSAGE_CHARS;
use agentd_base::report::Rejected;
use agentd_base::text::clip;
use agentd_config::live::{self, Live};
use agentd_config::load::{self, Layers, Loaded};
use agentd_config::reload::Changes;
use agentd_config::{BridgeDocument, ConfigErrors, Document, Fault};
use agentd_identity::{Bundle, IdentitySource};
use tokio::sync::{Notify, watch};

use crate::files::{Folders, folders_of};
use crate::identity::{name_in, parse_bundle, read_bundle, set_bundle};
use crate::metrics::Metrics;

/// A kubelet makes several changes for one swap; a person's editor too.
const SETTLE: Duration = Duration::from_millis(100);

/// A document that a running process can take up anew.
pub trait Reloadable: Clone + PartialEq + Send + Sync + 'static {
    /// How it was loaded.
    type Layers: Clone + Send + Sync + 'static;

    /// Loads it again, with this content of the live folder where there is one.
    ///
    /// # Errors
    /// Every fault.
    fn load(layers: &Self::Layers, live: Option<Live>) -> Result<Loaded<Self>, ConfigErrors>;

    /// What differs.
    fn changes(&self, new: &Self) -> Changes;

    /// Says what must not be taken in silence.
    fn audit(&self) {}

    /// The file of the trust bundle.
    fn bundle_file(&self) -> Option<PathBuf>;

    /// The live folder.
    fn live_folder(&self) -> Option<PathBuf>;

    /// The files that are read again when they change.
    fn watched_files(&self, layers: &Self::Layers) -> Vec<PathBuf>;
}

impl Reloadable for Document {
    type Layers = Layers;

    fn load(layers: &Layers, live: Option<Live>) -> Result<Loaded<Self>, ConfigErrors> {
        load::reload(layers, live)
    }

    fn changes(&self, new: &Self) -> Changes {
        // Both were made from JSON.
        Changes::between(self, new).unwrap_or_default()
    }

    fn audit(&self) {
        crate::trifecta::audit(self);
    }

    fn bundle_file(&self) -> Option<PathBuf> {
        self.identity
            .as_ref()
            .map(|identity| identity.bundle_file.clone())
    }

    fn live_folder(&self) -> Option<PathBuf> {
        self.lifecycle.live_folder.clone()
    }

    fn watched_files(&self, layers: &Layers) -> Vec<PathBuf> {
        if self.lifecycle.watch_config {
            layers.files()
        } else {
            Vec::new()
        }
    }
}

impl Reloadable for BridgeDocument {
    type Layers = Vec<PathBuf>;

    fn load(files: &Vec<PathBuf>, live: Option<Live>) -> Result<Loaded<Self>, ConfigErrors> {
        load::reload_bridge(files, live)
    }

    fn changes(&self, new: &Self) -> Changes {
        let same = Self {
            allowed: self.allowed.clone(),
            ..new.clone()
        };
        let named = |differs: bool, path: &str| differs.then(|| path.to_owned()).into_iter().collect();
        Changes {
            reloadable: named(self.allowed != new.allowed, "allowed"),
            restart_only: named(same != *self, "the configuration file"),
        }
    }

    fn bundle_file(&self) -> Option<PathBuf> {
        Some(self.identity.bundle_file.clone())
    }

    fn live_folder(&self) -> Option<PathBuf> {
        self.lifecycle.live_folder.clone()
    }

    fn watched_files(&self, _: &Vec<PathBuf>) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// The accepted configuration.
#[derive(Debug, Clone)]
pub struct Settings<T> {
    /// 1 at the start, one more with each reload that was accepted.
    pub generation: u64,
    /// The whole document.
    pub document: T,
    /// The digest of the live folder it came from; absent without one.
    pub digest: Option<String>,
}

/// Why the configuration is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Something in a watched folder may have changed.
    Watch,
    /// A person asked, by SIGHUP: the answer is said, whatever it is.
    Asked,
}

/// What reads the configuration again.
pub struct Reloader<T: Reloadable> {
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
    /// Told when a person asks for a reload.
    pub asked: Arc<Notify>,
}

/// What the configuration is worth that was read.
enum Verdict<T> {
    /// It is what runs.
    Same,
    /// It is good.
    Accepted(Box<Accepted<T>>),
    /// It is not.
    Refused(Refused),
}

struct Accepted<T> {
    document: T,
    bundle: Option<Bundle>,
    digest: Option<String>,
    changed: Vec<String>,
}

struct Refused {
    rejected: Rejected,
    /// Every fault; what is reported of them is shorter.
    faults: String,
    /// Good, but for these paths, which need a new process.
    restart_only: Vec<String>,
}

impl<T: Reloadable> Reloader<T> {
    /// Follows files and folders until the process ends.
    pub async fn follow(self, folders: Folders) {
        let mut changes = folders.changes();
        let document = self.settings.borrow().document.clone();
        let (live, files) = (document.live_folder(), document.watched_files(&self.layers));
        let watched = || {
            let bundle = document.bundle_file();
            let beside = bundle.iter().filter_map(|file| file.parent());
            let given: BTreeSet<PathBuf> = live.iter().cloned().chain(beside.map(Path::to_owned)).collect();
            files
                .iter()
                .flat_map(|file| folders_of(file))
                .chain(given)
                .collect::<BTreeSet<_>>()
        };
        watched().iter().for_each(|folder| folders.add(folder));
        if live.is_some() || !files.is_empty() {
            let folders = listed(watched().iter().map(|folder| folder.display().to_string()));
            tracing::info!(event = "config.watch.armed", folders);
        }
        let mut cause = Cause::Watch;
        loop {
            // What changed between the first reading and the watch is seen too.
            self.look(cause).await;
            cause = tokio::select! {
                () = self.asked.notified() => Cause::Asked,
                () = changes.next() => Cause::Watch,
            };
            if cause == Cause::Watch {
                tokio::time::sleep(SETTLE).await;
            }
            // Links lead elsewhere by now, and a folder may be another of the same name.
            watched().iter().for_each(|folder| folders.add(folder));
        }
    }

    /// Reads the configuration and takes it up, or says why not.
    async fn look(&self, cause: Cause) {
        let running = self.settings.borrow().clone();
        self.look_at_bundle(&running.document);
        let follows_files = !running.document.watched_files(&self.layers).is_empty();
        if cause == Cause::Watch && running.document.live_folder().is_none() && !follows_files {
            return;
        }
        let (layers, source) = (self.layers.clone(), self.identity.clone());
        let judged = tokio::task::spawn_blocking(move || {
            let folder = running.document.live_folder();
            let live = folder.map(|folder| live::read(&folder)).transpose()?;
            Ok::<_, live::LiveError>(judge(&running, &layers, live, source.as_ref(), cause))
        })
        .await;
        match judged {
            Ok(Ok(Verdict::Same)) => {
                let was_refused = self
                    .rejected
                    .send_if_modified(|rejected| rejected.take().is_some());
                if was_refused {
                    say_fired(cause);
                    tracing::info!(event = "config.valid", "it is what runs again");
                }
            }
            Ok(Ok(Verdict::Accepted(accepted))) => self.accept(*accepted, cause),
            Ok(Ok(Verdict::Refused(refused))) => self.refuse(refused, cause),
            Ok(Err(error)) => tracing::warn!(event = "config.watch.error", err = %error),
            Err(error) => tracing::error!(event = "config.watch.error", err = %error),
        }
    }

    /// A bundle that is not part of the live folder can change by itself.
    fn look_at_bundle(&self, document: &T) {
        let (Some(source), Some(file)) = (&self.identity, document.bundle_file()) else {
            return;
        };
        let live = document.live_folder();
        if live.is_some_and(|folder| name_in(&folder, &file).is_some()) {
            return;
        }
        let read = read_bundle(&file).map_err(|error| error.to_string());
        match read.and_then(|pem| parse_bundle(source, &pem).map_err(|errors| errors.to_string())) {
            Ok(bundle) => set_bundle(source, bundle),
            Err(error) => tracing::warn!(event = "identity.bundle.fail", path = %file.display(), err = error),
        }
    }

    fn accept(&self, accepted: Accepted<T>, cause: Cause) {
        let Accepted {
            document,
            bundle,
            digest,
            changed,
        } = accepted;
        say_fired(cause);
        if let (Some(source), Some(bundle)) = (&self.identity, bundle) {
            set_bundle(source, bundle);
        }
        let generation = self.settings.borrow().generation + 1;
        let changed = listed(changed.into_iter());
        tracing::info!(event = "config.reloaded", generation, changed, digest);
        document.audit();
        self.settings.send_replace(Arc::new(Settings {
            generation,
            document,
            digest,
        }));
        self.rejected
            .send_if_modified(|rejected| rejected.take().is_some());
        self.metrics.reload(true, generation);
    }

    fn refuse(&self, refused: Refused, cause: Cause) {
        let Refused {
            rejected: refused,
            faults,
            restart_only,
        } = refused;
        let is_new = self.rejected.send_if_modified(|rejected| {
            let changed = rejected.as_ref() != Some(&refused);
            *rejected = Some(refused.clone());
            changed
        });
        if !is_new && cause == Cause::Watch {
            return;
        }
        say_fired(cause);
        let digest = refused.digest;
        if restart_only.is_empty() {
            tracing::error!(event = "config.reload.invalid", digest, err = faults);
        } else {
            let paths = listed(restart_only.into_iter());
            tracing::warn!(
                event = "config.reload.restart_required",
                paths,
                digest,
                err = faults
            );
        }
        self.metrics.reload(false, self.settings.borrow().generation);
    }
}

/// A change that turns out to be one.
fn say_fired(cause: Cause) {
    if cause == Cause::Watch {
        tracing::info!(event = "config.watch.fired");
    }
}

fn judge<T: Reloadable>(
    running: &Settings<T>,
    layers: &T::Layers,
    live: Option<Live>,
    source: Option<&IdentitySource>,
    cause: Cause,
) -> Verdict<T> {
    let digest = live.as_ref().map(|live| live.digest.clone());
    let refused = |errors: &ConfigErrors, restart_only: Vec<String>| {
        let faults = errors
            .0
            .iter()
            .map(Fault::to_string)
            .collect::<Vec<_>>()
            .join("; ");
        Verdict::Refused(Refused {
            rejected: Rejected {
                digest: digest.clone().unwrap_or_default(),
                message: clip(&faults, MESSAGE_CHARS),
            },
            faults,
            restart_only,
        })
    };
    let loaded = check_bundle(&running.document, live.as_ref(), source)
        .and_then(|bundle| Ok((T::load(layers, live)?.document, bundle)));
    let (document, bundle) = match loaded {
        Ok(loaded) => loaded,
        Err(errors) => return refused(&errors, Vec::new()),
    };
    let changes = running.document.changes(&document);
    if !changes.restart_only.is_empty() {
        let fault = Fault::new(
            listed(changes.restart_only.iter().cloned()),
            "cannot change while the process runs, so nothing was taken up",
            "restart it",
        );
        return refused(&fault.into(), changes.restart_only);
    }
    // A reload that was asked for is one even so: what servers offer is listed anew.
    if cause == Cause::Watch && document == running.document && digest == running.digest {
        return Verdict::Same;
    }
    Verdict::Accepted(Box::new(Accepted {
        document,
        bundle,
        digest,
        changed: changes.reloadable,
    }))
}

/// The bundle in the live folder, where the document says that it is there.
fn check_bundle<T: Reloadable>(
    running: &T,
    live: Option<&Live>,
    source: Option<&IdentitySource>,
) -> Result<Option<Bundle>, ConfigErrors> {
    let (Some(live), Some(source)) = (live, source) else {
        return Ok(None);
    };
    let Some(name) = running
        .bundle_file()
        .and_then(|file| name_in(&live.folder, &file))
    else {
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

fn listed(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// The content of the bundle file, where it came with the live folder.
pub fn bundle_of(live: Option<&Live>, bundle_file: &Path) -> Option<Vec<u8>> {
    let live = live?;
    live.files.get(&name_in(&live.folder, bundle_file)?).cloned()
}
