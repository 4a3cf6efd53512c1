//! The agent's configuration of this moment, as one immutable value that is swapped whole. Nothing captures a part of
//! it for longer than a request or a turn.

use std::sync::Arc;

use agentd_config::Document;
use tokio::sync::watch;

/// The accepted configuration of an agent.
pub type Settings = crate::reload::Settings<Document>;

/// Follows the configuration.
pub type SettingsWatch = watch::Receiver<Arc<Settings>>;

/// The configuration now.
pub fn current(watch: &SettingsWatch) -> Arc<Settings> {
    watch.borrow().clone()
}
