//! The long-lived agent: A2A, admin port, reports, reload, drain.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentd_a2a::card::url_of;
use agentd_a2a::push::Sender;
use agentd_a2a::server::{Events, Server};
use agentd_a2a::{Authentication, Card, CardConfig, ListenError, Listener, Principals, Transport, tls};
use agentd_base::class::exit;
use agentd_base::drain::Drain;
use agentd_base::readiness::Readiness;
use agentd_base::report::{LastRun, Rejected, Report};
use agentd_config::document::StoreKind;
use agentd_config::endpoint::{self, Listen};
use agentd_config::{Document, secret};
use agentd_mcp::ServersView;
use agentd_net::TlsMode;
use agentd_net::tls::WebRoots;
use tokio::sync::{Notify, watch};
use url::Url;

use super::last_run::paced;
use super::settings::{Settings, SettingsWatch};
use super::tasks::{A2aService, Tasks};
use super::{Foundation, Start, StartError};
use crate::admin::{self, Admin};
use crate::files::Folders;
use crate::logging::LevelHandle;
use crate::metrics::machine::Machine;
use crate::metrics::{Levels, Phase};
use crate::pod::Pod;
use crate::reload::Reloader;
use crate::report::{Reporter, settled};
use crate::signals::{Event, Signals};
use crate::worker::process::{ASK, TERM};

/// What is kept of the drain's time for the end itself: closing sessions and connections, and the store.
const CLOSING: Duration = Duration::from_secs(2);
/// What the listener speaks.
const A2A_VERSIONS: [&str; 2] = [agentd_a2a::wire::VERSION, agentd_a2a::wire::VERSION_BEFORE];

pub(super) async fn run(start: Start, mut signals: Signals) -> Result<u8, StartError> {
    let mut foundation = Foundation::lay(&start).await?;
    let document = &start.loaded.document;
    let readiness = Readiness::new();
    readiness.block("listener", "not bound yet");
    let standing = foundation.runner.office.instruction.clone();
    if standing.is_pending() {
        readiness.block("instruction", "agent.instruction was not read yet");
        let (standing, readiness) = (standing.clone(), readiness.clone());
        tokio::spawn(async move {
            standing.known().await;
            readiness.release("instruction");
        });
    }

    let tasks = Tasks::new(
        foundation.store.clone(),
        foundation.durability,
        foundation.runner.clone(),
        foundation.ids.clone(),
        foundation.clock.clone(),
        readiness.clone(),
    );
    // Turns send messages into other conversations.
    let _ = foundation.runner.office.tasks.set(Arc::downgrade(&tasks));
    foundation.callers.set(&tasks);
    if document.a2a.push.enabled {
        let roots = WebRoots {
            ca_files: document.security.tls_ca.iter().cloned().collect(),
            ..WebRoots::default()
        };
        let sender = Sender::new(document.a2a.push.allow_private, TlsMode::WebRoots(roots));
        tasks.tell_callers(sender).await?;
    }
    tasks.restore().await?;

    let drain = Drain::new();
    let principals = watch::Sender::new(Arc::new(Principals::new(&document.a2a.principals)));
    let (listener, card) = bind(document, &foundation, &principals).await?;
    tokio::spawn(listener.serve(Arc::new(A2aService(tasks.clone())), Arc::new(card), drain.watch()));
    readiness.release("listener");

    let admin_drain = Drain::new();
    if let Some(address) = document.observability.metrics_addr {
        let identity = foundation
            .identity
            .as_ref()
            .map(crate::identity::PodIdentity::health);
        let admin = Admin {
            readiness: readiness.clone(),
            identity,
            metrics: foundation.metrics.clone(),
            levels: Some(levels(document, &tasks, &foundation)),
        };
        admin::tell_reach(address);
        let server = Server::bind(Events::METRICS, address, None, admin::BOUNDS)
            .await
            .map_err(|error| listen_fault("observability.metrics_addr", &error))?;
        tokio::spawn(server.serve(admin, admin_drain.watch()));
    }

    let (rejected, refused) = watch::channel(None);
    let folders = Folders::watch();
    let (told, last_run) = watch::channel(None);
    tokio::spawn(paced(tasks.last_run(), told));
    let facts = Facts {
        pod: start.pod,
        settings: foundation.settings.subscribe(),
        rejected: refused,
        servers: foundation.servers.view(),
        last_run,
    };
    let reporter = match (&document.report, &foundation.identity) {
        (Some(to), Some(identity)) => {
            identity.look_again_at_renewals(folders.clone());
            let reporter = Reporter::new(to, identity.source.clone());
            Some(reporter.map_err(|problem| listen_fault("report.url", &problem))?)
        }
        _ => None,
    };
    tokio::spawn(facts.follow(folders.clone(), reporter));

    let asked = Arc::new(Notify::new());
    let reloader = Reloader {
        layers: start.layers,
        settings: foundation.settings.clone(),
        rejected,
        identity: foundation
            .identity
            .as_ref()
            .map(|identity| identity.source.clone()),
        metrics: foundation.metrics.clone(),
        asked: asked.clone(),
    };
    tokio::spawn(reloader.follow(folders.clone()));
    tracing::info!(event = "proc.ready");

    let mut changes = foundation.settings.subscribe();
    let mut servers = foundation.servers.view();
    servers.mark_changed();
    loop {
        tokio::select! {
            event = signals.next() => match event {
                Event::Reload => {
                    asked.notify_one();
                    folders.look_again();
                }
                Event::End => break,
            },
            // Another process works on what is ours: nothing that is begun here may go on.
            error = foundation.store.lost() => return Err(error.into()),
            why = standing.unserved() => return Err(StartError::Instruction(why)),
            Some(server) = foundation.suspects.recv() => foundation.servers.check(&server),
            Ok(()) = servers.changed() => foundation.metrics.servers(&servers.borrow_and_update()),
            Ok(()) = changes.changed() => {
                let settings = changes.borrow_and_update().clone();
                take_up(&settings.document, &foundation, &principals, &start.level);
            }
        }
    }

    readiness.block("drain", "the agent is about to stop");
    let limit = document.lifecycle.drain_timeout();
    foundation.metrics.drain(Phase::Start);
    tracing::info!(event = "drain.start", limit_s = limit.as_secs());
    let orderly = async {
        tokio::join!(tasks.drain(patience(limit)), drain.run(limit));
        // Those that turns wait for have ended with them.
        foundation.runner.office.close_subagents().await;
        foundation.runner.pool.clear();
        foundation.servers.close().await;
    };
    let clean = tokio::select! {
        done = tokio::time::timeout(limit, orderly) => done.is_ok(),
        _ = signals.next() => false,
    };
    if clean {
        foundation.metrics.drain(Phase::Done);
        tracing::info!(event = "drain.done");
        return Ok(exit::DONE);
    }
    foundation.metrics.drain(Phase::Abandon);
    tracing::warn!(event = "drain.abandon");
    Ok(exit::HARD_KILL)
}

/// What stands there whenever it is asked for.
fn levels(
    document: &Document,
    tasks: &Arc<Tasks>,
    foundation: &Foundation,
) -> Arc<dyn Fn() -> Levels + Send + Sync> {
    let (tasks, office) = (tasks.clone(), foundation.runner.office.clone());
    // The store stays where it was when the process began.
    let store = match document.store_kind() {
        StoreKind::File => document.store_path(|name| std::env::var(name).ok()),
        StoreKind::Memory | StoreKind::Mcp | StoreKind::Http => None,
    };
    Arc::new(move || {
        let (pending, queued) = tasks.waiting();
        let (subagents, depth, breadth) = office.extent_of_subagents();
        Levels {
            subagents,
            depth,
            breadth,
            pending,
            queued,
            budget: office.budget.remaining(),
            machine: Machine::read(store.as_deref()),
        }
    })
}

/// How long turns may go on by themselves after SIGTERM: what is left of the drain's time when asking, killing and
/// closing have theirs, and some of it in any case.
fn patience(limit: Duration) -> Duration {
    limit.saturating_sub(ASK + TERM * 2 + CLOSING).max(limit / 3)
}

/// A new configuration reaches what is not asked per request or turn.
fn take_up(
    document: &Document,
    foundation: &Foundation,
    principals: &watch::Sender<Arc<Principals>>,
    level: &LevelHandle,
) {
    let next = Principals::new(&document.a2a.principals);
    principals.send_if_modified(|current| {
        let changed = **current != next;
        *current = Arc::new(next);
        changed
    });
    foundation.servers.reload(&document.mcp);
    level.set(&document.observability);
}

/// The A2A listener and its card.
async fn bind(
    document: &Document,
    foundation: &Foundation,
    principals: &watch::Sender<Arc<Principals>>,
) -> Result<(Listener, Card), StartError> {
    let key = "a2a.listen";
    let listen = document.a2a.listen.as_deref().unwrap_or_default();
    let Listen { tls: secure, address } =
        endpoint::listen(listen).map_err(|refused| listen_fault(key, &refused.problem))?;
    let source = foundation.identity.as_ref().map(|identity| &identity.source);
    let mut transport = match (secure, &document.a2a.tls, source) {
        (false, _, _) => Transport::Plain,
        (true, Some(given), source) => Transport::Tls(Box::new(
            tls::given(&given.cert, &given.key, source).map_err(|error| listen_fault("a2a.tls", &error))?,
        )),
        (true, None, Some(source)) => Transport::Tls(Box::new(tls::svid(source))),
        (true, None, None) => return Err(listen_fault(key, "https needs a2a.tls or identity")),
    };
    let external = document.a2a.external.as_ref();
    let external_url = external.map(|external| Url::parse(&external.url)).transpose();
    let external_url = external_url.map_err(|error| listen_fault("a2a.external.url", &error))?;
    if let (Transport::Tls(config), Some(host), Some(files)) = (
        &mut transport,
        external_url.as_ref().and_then(Url::host_str),
        external.and_then(|external| external.tls.as_ref()),
    ) {
        tls::by_name(config, host, &files.cert, &files.key);
    }
    let authentication = if document.a2a.dev {
        tracing::warn!(
            event = "a2a.dev",
            "every caller on loopback is an operator (a2a.dev)"
        );
        Authentication::Dev
    } else {
        Authentication::Principals(principals.subscribe())
    };
    let mutual_tls = !document.a2a.dev && source.is_some();
    let listener = Listener::bind(address, transport, authentication)
        .await
        .map_err(|error: ListenError| listen_fault(key, &error))?
        .trusting(WebRoots {
            ca_files: document.security.tls_ca.iter().cloned().collect(),
            ..WebRoots::default()
        });
    let url = match &document.a2a.url {
        Some(url) => Url::parse(url),
        None => url_of(if secure { "https" } else { "http" }, listener.local_addr()),
    };
    let card = CardConfig {
        name: foundation.runner.instance.clone(),
        description: format!("The agent {}", foundation.runner.instance),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        url: url.map_err(|error| listen_fault("a2a.url", &error))?,
        external: external_url,
        skills: document.a2a.skills.clone(),
        extensions: document.a2a.extensions.clone(),
        push_notifications: document.a2a.push.enabled,
        mutual_tls,
    };
    let card = Card::new(card).map_err(|error| StartError::System(error.to_string()))?;
    let card = match source.filter(|_| document.a2a.sign_card) {
        Some(source) => card.signed_by(source.clone()),
        None => card,
    };
    Ok((listener, card))
}

fn listen_fault(key: &'static str, problem: &(impl std::fmt::Display + ?Sized)) -> StartError {
    StartError::Listen {
        key,
        problem: problem.to_string(),
    }
}

/// What a report is made of.
struct Facts {
    pod: Pod,
    settings: SettingsWatch,
    rejected: watch::Receiver<Option<Rejected>>,
    servers: watch::Receiver<Arc<ServersView>>,
    last_run: watch::Receiver<Option<LastRun>>,
}

impl Facts {
    fn report(&self) -> Report {
        let settings: Arc<Settings> = self.settings.borrow().clone();
        let view = self.servers.borrow().clone();
        Report {
            pod_name: self.pod.name.clone().unwrap_or_default(),
            pod_uid: self.pod.uid.clone().unwrap_or_default(),
            running_digest: settings.digest.clone(),
            rejected: self.rejected.borrow().clone(),
            missing_secrets: secret::missing_secrets(&settings.document, Path::new(secret::POD_FOLDER)),
            servers: view.report(),
            a2a_versions: A2A_VERSIONS.map(str::to_owned).to_vec(),
            tool_count: u32::try_from(view.catalogue.entries().len()).unwrap_or(u32::MAX),
            tool_digest: view.catalogue.digest(),
            listens_on_all_addresses: None,
            last_run: self.last_run.borrow().clone(),
        }
    }

    /// Keeps the report current, and the operator informed of it. Servers that are new get a moment to be tried first.
    async fn follow(mut self, folders: Folders, reporter: Option<Reporter>) {
        let mut files = folders.changes();
        watch_secrets(&folders, &self.settings.borrow().document);
        settled(&mut self.servers, |view| view.settled()).await;
        let (state, reported) = watch::channel(self.report());
        if let Some(reporter) = reporter {
            tokio::spawn(reporter.run(reported));
        }
        loop {
            let changed = tokio::select! {
                changed = self.settings.changed() => {
                    watch_secrets(&folders, &self.settings.borrow().document);
                    changed
                }
                changed = self.rejected.changed() => changed,
                changed = self.servers.changed() => changed,
                changed = self.last_run.changed() => changed,
                () = files.next() => Ok(()),
            };
            if changed.is_err() {
                return;
            }
            settled(&mut self.servers, |view| view.settled()).await;
            self.settings.mark_unchanged();
            self.rejected.mark_unchanged();
            self.servers.mark_unchanged();
            self.last_run.mark_unchanged();
            let report = self.report();
            state.send_if_modified(|current| std::mem::replace(current, report.clone()) != report);
        }
    }
}

/// Watches the folders of the secret files: one that was missing may be mounted at any time.
fn watch_secrets(folders: &Folders, document: &Document) {
    let files = secret::secret_files(document);
    let parents: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    for folder in parents.into_iter().filter(|folder| folder.is_dir()) {
        folders.add(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_leaves_time_for_its_end() {
        assert_eq!(patience(Duration::from_secs(25)), Duration::from_secs(14));
        assert_eq!(patience(Duration::from_secs(3)), Duration::from_secs(1));
    }
}
