//! `agentd bridge`: the sidecar of an MCP server that the operator runs. It ends mTLS with the pod's SVID, admits only the
//! SPIFFE IDs on its list, forwards to the server on loopback, proves the server and reports what it found. Start
//! order: identity, listener, admin port, prover, reports.

#[cfg(test)]
mod fuzz;
pub mod prover;
pub mod proxy;

use std::path::PathBuf;
use std::sync::Arc;

use agentd_a2a::limit::LINGER;
use agentd_a2a::server::{Bounds, Events, Server};
use agentd_base::class::exit;
use agentd_base::clock;
use agentd_base::drain::Drain;
use agentd_base::readiness::Readiness;
use agentd_base::report::{Rejected, Report, ServerState};
use agentd_config::BridgeDocument;
use agentd_config::document::McpServer;
use agentd_config::load::Loaded;
use agentd_identity::tls::{ClientAuth, server_config};
use agentd_mcp::ServersView;
use tokio::sync::{Notify, watch};

use self::prover::{Found, Ports, Prover};
use self::proxy::{Proxy, relay};
use crate::admin::{self, Admin};
use crate::children::Children;
use crate::files::Folders;
use crate::identity::PodIdentity;
use crate::logging::LevelHandle;
use crate::metrics::{Metrics, Process};
use crate::pod::Pod;
use crate::reload::{Reloader, Settings, bundle_of};
use crate::report::{Reporter, settled};
use crate::signals::{Event, Signals};

/// The bridge's configuration of this moment.
pub type BridgeSettings = Settings<BridgeDocument>;

/// An agent and its workers hold a few connections each; a server's callers are the agents of a namespace.
const BOUNDS: Bounds = Bounds {
    connections: 1024,
    of_one: 256,
    streams: 256,
    linger: LINGER,
};

/// What a bridge starts with.
pub struct Start {
    /// Checked.
    pub loaded: Loaded<BridgeDocument>,
    /// For reloads.
    pub files: Vec<PathBuf>,
    /// Of the log.
    pub level: LevelHandle,
    /// Downward API.
    pub pod: Pod,
}

/// Why a bridge cannot start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("{0}")]
    Config(#[from] agentd_config::ConfigErrors),
    #[error("{0}")]
    Upstream(String),
    #[error("listen: {address} cannot be bound: {source}; free it or take another")]
    Bind {
        address: std::net::SocketAddr,
        source: std::io::Error,
    },
    #[error("{0}")]
    System(String),
}

/// Runs the bridge until it is told to end; the exit code.
pub async fn run(start: Start) -> u8 {
    tracing::info!(
        event = "proc.start",
        version = env!("CARGO_PKG_VERSION"),
        name = start.loaded.document.name
    );
    match serve(start).await {
        Ok(code) => {
            tracing::info!(event = "proc.exit", code);
            code
        }
        Err(error) => {
            tracing::error!(event = "config.invalid", err = %error);
            exit::CONFIG
        }
    }
}

async fn serve(start: Start) -> Result<u8, StartError> {
    let Loaded { document, live } = start.loaded;
    start.level.set(&document.observability);
    let mut signals = Signals::install().map_err(system)?;
    // It starts no process, and is the first one of its container.
    let _ = Children::adopt().map_err(system)?;
    let metrics = Metrics::new(Process::Bridge).map_err(system)?;
    let readiness = Readiness::new();
    readiness.block("listener", "not bound yet");

    let bundle = bundle_of(live.as_ref(), &document.identity.bundle_file);
    let identity = PodIdentity::start(&document.identity, bundle, clock::system())?;
    let digest = live.map(|live| live.digest);
    let (settings, follow) = watch::channel(Arc::new(Settings {
        generation: 1,
        document: document.clone(),
        digest,
    }));
    metrics.reload(true, 1);

    let drain = Drain::new();
    let bind = |address| move |source| StartError::Bind { address, source };
    let tls = server_config(&identity.source, ClientAuth::Requested);
    let server = Server::bind(Events::BRIDGE, document.listen, Some(tls), BOUNDS)
        .await
        .map_err(bind(document.listen))?;
    let (reachable, changes) = watch::channel(true);
    let proxy = Proxy::new(
        follow.clone(),
        document.upstream_port,
        &document.upstream_path,
        reachable,
        metrics.clone(),
        drain.watch(),
    )
    .map_err(StartError::Upstream)?;
    tokio::spawn(server.serve(proxy, drain.watch()));
    readiness.release("listener");

    let admin_drain = Drain::new();
    if let Some(address) = document.observability.metrics_addr {
        let admin = Admin {
            readiness: readiness.clone(),
            identity: Some(identity.health()),
            metrics: metrics.clone(),
            levels: None,
        };
        admin::tell_reach(address);
        let server = Server::bind(Events::METRICS, address, None, admin::BOUNDS)
            .await
            .map_err(bind(address))?;
        tokio::spawn(server.serve(admin, admin_drain.watch()));
    }

    let again = Arc::new(Notify::new());
    tokio::spawn(relay(changes, again.clone()));
    let prover = Prover {
        server: upstream(&document),
        instance: document.name.clone(),
        ports: Ports::new(start.pod.ip, document.upstream_port),
        again,
    };
    let reporter = Reporter::new(&document.report, identity.source.clone()).map_err(StartError::Upstream)?;
    let (finding, found) = watch::channel(prover.unproven());
    tokio::spawn(prover.run(finding));

    let (rejected, refused) = watch::channel(None);
    tokio::spawn(assemble(start.pod, follow, refused, found, reporter));

    let folders = Folders::watch();
    identity.look_again_at_renewals(folders.clone());
    let source = Some(identity.source.clone());
    let asked = Arc::new(Notify::new());
    let reloader = Reloader {
        layers: start.files,
        settings,
        rejected,
        identity: source,
        metrics,
        asked: asked.clone(),
    };
    tokio::spawn(reloader.follow(folders.clone()));
    tracing::info!(event = "proc.ready");

    while signals.next().await == Event::Reload {
        asked.notify_one();
        folders.look_again();
    }
    tracing::info!(event = "drain.start");
    readiness.block("drain", "the bridge is about to stop");
    let in_time = tokio::select! {
        in_time = drain.run(document.lifecycle.drain_timeout()) => in_time,
        _ = signals.next() => false,
    };
    tracing::info!(event = "drain.done", in_time);
    Ok(exit::DONE)
}

/// The server as our MCP client sees it: on loopback, under the name of its McpServer.
fn upstream(document: &BridgeDocument) -> McpServer {
    let mut server = McpServer {
        name: document.name.clone(),
        endpoint: format!(
            "http://127.0.0.1:{}{}",
            document.upstream_port, document.upstream_path
        ),
        ..McpServer::default()
    };
    server.connection.timeout = document.timeout;
    server
}

/// Keeps the report current, and the operator informed of it.
async fn assemble(
    pod: Pod,
    mut settings: watch::Receiver<Arc<BridgeSettings>>,
    mut rejected: watch::Receiver<Option<Rejected>>,
    mut found: watch::Receiver<Found>,
    reporter: Reporter,
) {
    settled(&mut found, |found| found.server.state != ServerState::Connecting).await;
    let first = report_of(
        &pod,
        &settings.borrow_and_update(),
        rejected.borrow_and_update().clone(),
        &found.borrow_and_update(),
    );
    let (state, reported) = watch::channel(first);
    tokio::spawn(reporter.run(reported));
    loop {
        let changed = tokio::select! {
            changed = settings.changed() => changed,
            changed = rejected.changed() => changed,
            changed = found.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
        let refused = rejected.borrow_and_update().clone();
        let report = report_of(
            &pod,
            &settings.borrow_and_update(),
            refused,
            &found.borrow_and_update(),
        );
        state.send_if_modified(|current| std::mem::replace(current, report.clone()) != report);
    }
}

fn report_of(pod: &Pod, settings: &BridgeSettings, rejected: Option<Rejected>, found: &Found) -> Report {
    let view = ServersView {
        servers: vec![found.server.clone()],
        ..ServersView::default()
    };
    Report {
        pod_name: pod.name.clone().unwrap_or_default(),
        pod_uid: pod.uid.clone().unwrap_or_default(),
        running_digest: settings.digest.clone(),
        rejected,
        servers: view.report(),
        listens_on_all_addresses: found.listens_on_all_addresses,
        last_run: None,
        ..Report::default()
    }
}

fn system(error: impl std::fmt::Display) -> StartError {
    StartError::System(error.to_string())
}
