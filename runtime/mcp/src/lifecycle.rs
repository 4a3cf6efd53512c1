//! How a connection is begun: who holds it, what it declares, which revisions it tries, and the bounds that the SDK keeps
//! for us. Pure.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ClientLifecycleMode;
use rmcp::model::ProtocolVersion;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde::{Deserialize, Serialize};

use crate::elicit::Hooks;
use crate::handler::OFFERED;
use crate::transport::MESSAGE_BYTES;

/// Tries to resume an answer whose stream broke.
const RESUMES: usize = 5;
/// Requests at the same time on one connection.
const CONCURRENT: usize = 64;

/// Who holds the connection, which decides what it declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The supervisor: `capabilities: {}`, title = the instance.
    Boot {
        /// The instance's name.
        instance: String,
    },
    /// The supervisor's connection to its store, likewise; the answers come as they are, whatever is in them.
    Store {
        /// The instance's name.
        instance: String,
    },
    /// A worker: `capabilities: {"elicitation": {}}`, no title.
    Worker {
        /// What the supervisor negotiated, so that the worker does not probe again.
        era: Option<Era>,
    },
}

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// `initialize`, sessions.
    Legacy,
    /// `server/discover`, stateless.
    Stateless,
}

/// URLs are declared where every request says anew what is declared, and a person can be sent to one; a connection that
/// begins with `initialize` declares `{}`.
pub(crate) fn declares_urls(kind: &Kind, hooks: &Hooks) -> bool {
    let stateless = matches!(
        kind,
        Kind::Worker {
            era: Some(Era::Stateless)
        }
    );
    stateless
        && hooks
            .elicitor
            .as_ref()
            .is_some_and(|elicitor| elicitor.opens_urls())
}

/// Bounds of the SDK's transport.
pub(crate) fn settings(endpoint: &str) -> StreamableHttpClientTransportConfig {
    let mut retry = ExponentialBackoff::default();
    retry.max_times = Some(RESUMES);
    retry.max_delay = Some(Duration::from_secs(30));
    let mut settings =
        StreamableHttpClientTransportConfig::with_uri(endpoint).max_concurrent_requests(CONCURRENT);
    settings.retry_config = Arc::new(retry);
    settings.max_sse_event_size = MESSAGE_BYTES;
    settings.max_json_response_size = MESSAGE_BYTES;
    settings
}

/// Which revisions are tried, in which order.
pub(crate) fn lifecycle(kind: &Kind) -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    match kind {
        Kind::Worker {
            era: Some(Era::Legacy),
        } => ClientLifecycleMode::Initialize,
        Kind::Worker {
            era: Some(Era::Stateless),
        } => ClientLifecycleMode::Discover { preferred_versions },
        Kind::Boot { .. } | Kind::Store { .. } | Kind::Worker { era: None } => ClientLifecycleMode::Auto {
            preferred_versions,
            legacy_version: Some(OFFERED),
        },
    }
}
