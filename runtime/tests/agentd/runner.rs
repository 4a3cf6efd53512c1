//! A runner of turns with workers of its own and a scripted model, for tests that look behind the listener.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use agentd::metrics::Metrics;
use agentd::reload::Settings;
use agentd::supervisor::budget::Budget;
use agentd::supervisor::office::Office;
use agentd::supervisor::subagents::Subagents;
use agentd::supervisor::turns::TurnRunner;
use agentd::worker::pool::Pool;
use agentd_agent::budget::Counters;
use agentd_config::Document;
use agentd_store::MemoryStore;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use crate::process::PROGRAM;

/// The settings hold for as long as their sender is kept.
pub fn runner(
    model: &str,
    store: &Arc<MemoryStore>,
) -> (Arc<TurnRunner>, watch::Sender<Arc<Settings<Document>>>) {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let document = serde_json::from_value(json!({
        "intelligence": { "endpoints": [{ "url": model }], "model": "scripted" },
    }))
    .unwrap();
    let (sender, settings) = watch::channel(Arc::new(Settings {
        generation: 1,
        document,
        digest: None,
    }));
    let servers = watch::Sender::new(Arc::default()).subscribe();
    let clock = agentd_base::clock::system;
    let office = |runner: &std::sync::Weak<TurnRunner>| Office {
        instance: "a".into(),
        settings: settings.clone(),
        servers: servers.clone(),
        store: store.clone(),
        clock: clock(),
        ids: agentd_base::id::uuids(),
        human: None,
        runner: runner.clone(),
        subagents: Subagents::default(),
        lines: Default::default(),
        tasks: OnceLock::new(),
        remembering: tokio::sync::Mutex::default(),
        changes: Default::default(),
        instruction: Default::default(),
        budget: Budget::new(Counters::default(), store.clone(), clock(), settings.clone()),
    };
    let runner = Arc::new_cyclic(|runner| TurnRunner {
        pool: Pool::new(PathBuf::from(PROGRAM), Arc::default()),
        instance: "a".into(),
        settings: settings.clone(),
        identity: None,
        servers: servers.clone(),
        suspects: mpsc::channel(4).0,
        human: None,
        office: Arc::new(office(runner)),
        metrics: Metrics::new().unwrap(),
    });
    (runner, sender)
}
