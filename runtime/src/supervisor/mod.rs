//! The process that a pod starts: it owns state, triggers and limits, serves A2A and the admin port, and never calls a
//! model. Start order: configuration, store, identity, MCP connections, A2A, admin port, reports. In service mode
//! nothing waits for a network: a pod without an issuer, a model or a server is up and says what is missing.

pub mod asking;
mod briefing;
pub mod budget;
#[cfg(test)]
mod fuzz;
pub mod instruction;
pub mod lanes;
mod last_run;
mod measured;
pub mod office;
pub mod one_shot;
mod open;
pub mod question;
pub mod record;
mod refusals;
pub mod service;
pub mod settings;
pub(crate) mod storage;
pub mod subagents;
pub mod tasks;
pub mod turns;

use std::path::PathBuf;
use std::sync::Arc;

use agentd_base::class::exit;
use agentd_base::clock::{self, SharedClock};
use agentd_base::id::{self, SharedIds};
use agentd_base::limit::SERVERS;
use agentd_config::load::{Layers, Loaded};
use agentd_config::{ConfigErrors, Document};
use agentd_mcp::{Outbound, Supervised};
use agentd_state::{Store, StoreError};
use tokio::sync::{mpsc, watch};

use self::asking::Human;
use self::budget::Budget;
use self::instruction::{Follower, Standing};
use self::measured::Measured;
use self::office::Office;
use self::settings::Settings;
use self::subagents::Subagents;
use self::tasks::{Callers, Durability};
use self::turns::TurnRunner;
use crate::children::Children;
use crate::identity::PodIdentity;
use crate::logging::LevelHandle;
use crate::metrics::{Metrics, Process};
use crate::pod::Pod;
use crate::reload::bundle_of;
use crate::signals::Signals;
use crate::worker::pool::Pool;

/// What an agent starts with.
pub struct Start {
    /// Checked.
    pub loaded: Loaded<Document>,
    /// For reloads.
    pub layers: Layers,
    /// This program, for workers.
    pub program: PathBuf,
    /// Of the log.
    pub level: LevelHandle,
    /// Downward API.
    pub pod: Pod,
}

/// Why an agent cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An ID, URL or file that only use can find out.
    #[error("{0}")]
    Config(#[from] ConfigErrors),
    /// A port cannot be had, or is not ours to open.
    #[error("{key}: {problem}; free it or take another")]
    Listen {
        /// The key.
        key: &'static str,
        /// What the system said.
        problem: String,
    },
    /// The store cannot be opened or read.
    #[error("store: {0}")]
    Store(#[from] StoreError),
    /// No server has what the agent is for.
    #[error("{0}")]
    Instruction(String),
    /// The system is out of something.
    #[error("{0}")]
    System(String),
}

impl StartError {
    /// The exit code that it ends the process with (contract/runtime.md section 3).
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Listen { .. } => exit::CONFIG,
            Self::Store(_) | Self::Instruction(_) => exit::DEPENDENCY,
            Self::System(_) => exit::FAILURE,
        }
    }

    const fn event(&self) -> &'static str {
        match self {
            Self::Config(_) | Self::Listen { .. } => "config.invalid",
            Self::Store(_) => "store.open.fail",
            Self::Instruction(_) => "instruction.subscribe.fail",
            Self::System(_) => "proc.fail",
        }
    }
}

/// What both modes stand on.
struct Foundation {
    clock: SharedClock,
    ids: SharedIds,
    metrics: Metrics,
    store: Arc<dyn Store>,
    durability: Durability,
    identity: Option<PodIdentity>,
    settings: watch::Sender<Arc<Settings>>,
    servers: Supervised,
    suspects: mpsc::Receiver<String>,
    callers: Arc<Callers>,
    runner: Arc<TurnRunner>,
}

/// Runs the agent to its end; the exit code.
pub async fn run(start: Start) -> u8 {
    let service = start.loaded.document.is_service();
    tracing::info!(event = "proc.start", version = env!("CARGO_PKG_VERSION"), service);
    crate::trifecta::audit(&start.loaded.document);
    let ended = match Signals::install() {
        Ok(signals) if service => service::run(start, signals).await,
        Ok(signals) => one_shot::run(start, signals).await,
        Err(error) => Err(StartError::System(error.to_string())),
    };
    match ended {
        Ok(code) => {
            tracing::info!(event = "proc.exit", code);
            code
        }
        Err(error) => {
            let code = error.exit_code();
            tracing::error!(event = error.event(), err = %error);
            tracing::info!(event = "proc.exit", code);
            code
        }
    }
}

impl Foundation {
    async fn lay(start: &Start) -> Result<Self, StartError> {
        // Before anything that could start a process.
        let children = Children::adopt().map_err(|error| StartError::System(error.to_string()))?;
        let Loaded { document, live } = &start.loaded;
        start.level.set(&document.observability);
        let metrics = Metrics::new(Process::Agent).map_err(|error| StartError::System(error.to_string()))?;
        let clock = clock::system();
        let identity = match &document.identity {
            None => None,
            Some(identity) => {
                let bundle = bundle_of(live.as_ref(), &identity.bundle_file);
                Some(PodIdentity::start(identity, bundle, clock.clone())?)
            }
        };
        let source = identity.as_ref().map(|identity| identity.source.clone());
        let digest = live.as_ref().map(|live| live.digest.clone());
        let settings = watch::Sender::new(Arc::new(Settings {
            generation: 1,
            document: document.clone(),
            digest,
        }));
        metrics.reload(true, 1);

        let instance = document.instance(|name| std::env::var(name).ok());
        start.level.name(&instance, &instance);
        let outbound = Outbound {
            identity: source.clone(),
            tls_ca: document.security.tls_ca.clone(),
            ..Outbound::default()
        };
        let (store, durability) = storage::open(document, &instance, &outbound, clock.clone()).await?;
        let store: Arc<dyn Store> = Arc::new(Measured::new(store, metrics.clone()));
        let servers = Supervised::start(
            &document.mcp,
            instance.clone(),
            outbound,
            agentd_mcp::supervised::PACE,
        );
        let (suspected, suspects) = mpsc::channel(SERVERS);
        let ids = id::uuids();
        let budget = Budget::open(store.clone(), clock.clone(), settings.subscribe()).await?;
        let standing = match document.instruction_uri() {
            Some(_) => Standing::pending(),
            None => Standing::default(),
        };
        let follower = Follower {
            standing: standing.clone(),
            settings: settings.subscribe(),
            servers: servers.view(),
            lines: servers.lines(),
            instance: instance.clone(),
            identity: source.clone(),
        };
        tokio::spawn(follower.run());
        let callers = Arc::<Callers>::default();
        let human: Option<Arc<dyn Human>> = match document.is_service() {
            true => Some(callers.clone()),
            false => None,
        };
        let runner = Arc::new_cyclic(|runner| TurnRunner {
            pool: Pool::new(start.program.clone(), children),
            instance: instance.clone(),
            settings: settings.subscribe(),
            identity: source,
            servers: servers.view(),
            suspects: suspected,
            human: human.clone(),
            office: Arc::new(Office {
                instance,
                settings: settings.subscribe(),
                servers: servers.view(),
                store: store.clone(),
                clock: clock.clone(),
                ids: ids.clone(),
                human,
                runner: runner.clone(),
                subagents: Subagents::default(),
                budget,
                lines: servers.lines(),
                tasks: std::sync::OnceLock::new(),
                remembering: tokio::sync::Mutex::default(),
                changes: self::office::Changes::default(),
                instruction: standing.clone(),
            }),
            metrics: metrics.clone(),
        });
        runner.office.restore_subagents().await?;
        Ok(Self {
            clock,
            ids,
            metrics,
            store,
            durability,
            identity,
            settings,
            servers,
            suspects,
            callers,
            runner,
        })
    }
}
