//! A runner of turns with workers of its own and a scripted model, for tests that look behind the listener.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use agentd::metrics::{Metrics, Process};
use agentd::reload::Settings;
use agentd::supervisor::asking::Human;
use agentd::supervisor::budget::Budget;
use agentd::supervisor::office::Office;
use agentd::supervisor::subagents::Subagents;
use agentd::supervisor::turns::TurnRunner;
use agentd::worker::pool::Pool;
use agentd_agent::budget::Counters;
use agentd_config::Document;
use agentd_mcp::ServersView;
use agentd_mcp::supervised::Lines;
use agentd_store::MemoryStore;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use crate::process::PROGRAM;

/// What a runner is made of; the rest is the same for all.
pub struct Parts {
    pub document: Document,
    pub store: Arc<MemoryStore>,
    pub servers: watch::Receiver<Arc<ServersView>>,
    pub lines: Lines,
    pub human: Option<Arc<dyn Human>>,
}

/// A runner, and the sender of its settings, which hold for as long as it is kept.
pub type Running = (Arc<TurnRunner>, watch::Sender<Arc<Settings<Document>>>);

/// One of a model, and of no server and no person.
pub fn runner(model: &str, store: &Arc<MemoryStore>) -> Running {
    let document = serde_json::from_value(json!({
        "intelligence": { "endpoints": [{ "url": model }], "model": "scripted" },
    }));
    runner_of(Parts {
        document: document.unwrap(),
        store: store.clone(),
        servers: watch::Sender::new(Arc::default()).subscribe(),
        lines: Lines::default(),
        human: None,
    })
}

pub fn runner_of(parts: Parts) -> Running {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let Parts {
        document,
        store,
        servers,
        lines,
        human,
    } = parts;
    let (sender, settings) = watch::channel(Arc::new(Settings {
        generation: 1,
        document,
        digest: None,
    }));
    let clock = agentd_base::clock::system;
    let runner = Arc::new_cyclic(|runner| TurnRunner {
        pool: Pool::new(PathBuf::from(PROGRAM), Arc::default()),
        instance: "a".into(),
        settings: settings.clone(),
        identity: None,
        servers: servers.clone(),
        suspects: mpsc::channel(4).0,
        human,
        office: Arc::new(Office {
            instance: "a".into(),
            settings: settings.clone(),
            servers,
            store: store.clone(),
            clock: clock(),
            ids: agentd_base::id::uuids(),
            human: None,
            runner: runner.clone(),
            subagents: Subagents::default(),
            lines,
            tasks: OnceLock::new(),
            remembering: tokio::sync::Mutex::default(),
            changes: Default::default(),
            instruction: Default::default(),
            budget: Budget::new(Counters::default(), store, clock(), settings),
        }),
        metrics: Metrics::new(Process::Agent).unwrap(),
    });
    (runner, sender)
}
