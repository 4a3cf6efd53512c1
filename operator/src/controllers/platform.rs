//! What the documents of agents and bridges have in common: identity, reports, probes, the live folder. Pure.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use agentd_base::duration::Duration;
use agentd_config::document::{Identity, Lifecycle, Observability, Report};
use agentd_identity::SpiffeId;
use agentd_identity::id::IdError;

use super::workload::{ADMIN_PORT, BUNDLE_FILE, DRAIN_SECONDS, LIVE_FOLDER, TOKEN_FILE};
use crate::install::Install;

/// The identity of a pod that is `own`.
///
/// # Errors
/// When the install's own names could not be in an ID.
pub fn identity(install: &Install, own: &SpiffeId) -> Result<Identity, IdError> {
    Ok(Identity {
        trust_domain: install.trust_domain.to_string(),
        spiffe_id: own.to_string(),
        issuer_url: install.issuer_url(),
        issuer_id: install.issuer_id()?.to_string(),
        token_file: PathBuf::from(TOKEN_FILE),
        bundle_file: PathBuf::from(LIVE_FOLDER).join(BUNDLE_FILE),
    })
}

/// Where a pod reports.
///
/// # Errors
/// As [`identity`].
pub fn report(install: &Install) -> Result<Report, IdError> {
    Ok(Report {
        url: install.report_url(),
        server_id: install.report_id()?.to_string(),
    })
}

/// Drain and live folder.
pub fn lifecycle() -> Lifecycle {
    Lifecycle {
        drain_timeout: Some(Duration::secs(DRAIN_SECONDS)),
        live_folder: Some(PathBuf::from(LIVE_FOLDER)),
        // The other files of a pod are immutable.
        watch_config: false,
    }
}

/// Probes and metrics.
pub fn observability() -> Observability {
    Observability {
        metrics_addr: Some(any(ADMIN_PORT)),
        ..Observability::default()
    }
}

/// Every address of the pod.
pub fn any(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))
}
