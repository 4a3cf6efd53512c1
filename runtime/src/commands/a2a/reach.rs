//! How the agent of the command line is reached: as whom, through what, and who it must be.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd_a2a::client::Client;
use agentd_base::class::{Class, Classified};
use agentd_base::{clock, id};
use agentd_identity::{Bundle, IdentitySource, SpiffeId, Svid};
use agentd_net::{Declared, Destination, DestinationError, Options, Timeouts, TlsMode};

use crate::cli::A2a;
use crate::commands::identity_fetch::{BUNDLE, KEY, SVID};
use crate::commands::kubectl::{self, Forward, KubectlError};

/// A turn's default time limit, and a little.
const WAIT: Duration = Duration::from_secs(3700);

/// Why it cannot be.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReachError {
    #[error("{0}")]
    Argument(String),
    #[error("{}: {problem}", path.display())]
    Identity { path: PathBuf, problem: String },
    #[error(transparent)]
    Destination(#[from] DestinationError),
    #[error(transparent)]
    Kubectl(#[from] KubectlError),
}

impl Classified for ReachError {
    fn class(&self) -> Class {
        match self {
            Self::Argument(_) | Self::Identity { .. } | Self::Destination(_) => Class::Invalid,
            Self::Kubectl(error) => error.class(),
        }
    }
}

/// A client, and what it goes through.
pub(super) struct Reached {
    pub(super) client: Client,
    _forward: Option<Forward>,
}

/// Dials nothing but the tunnel.
pub(super) async fn reach(arguments: &A2a) -> Result<Reached, ReachError> {
    let tls = match (&arguments.identity, &arguments.server_id) {
        (Some(folder), Some(server)) => {
            let expected: SpiffeId = server
                .parse()
                .map_err(|error| ReachError::Argument(format!("--server-id: {error}")))?;
            TlsMode::Spiffe {
                source: identity(folder, &expected)?,
                expected,
            }
        }
        _ => TlsMode::default(),
    };
    let forward = match arguments.port_forward {
        true => Some(kubectl::port_forward(&arguments.url).await?),
        false => None,
    };
    let url = match &forward {
        Some(forward) => near(&arguments.url, &forward.url())?,
        None => arguments.url.clone(),
    };
    // Loopback http is for an agent in development mode.
    let declared = if url.starts_with("http://") {
        Declared::Mcp
    } else {
        Declared::Internal
    };
    let destination = Destination::declared(&url, declared)?;
    let timeouts = Timeouts {
        response: Some(WAIT),
        total: Some(WAIT),
        ..Timeouts::default()
    };
    let options = Options {
        tls,
        timeouts,
        ..Options::default()
    };
    let client = if forward.is_some() {
        Client::forwarded(destination, options, id::uuids())
    } else {
        Client::new(destination, options, id::uuids())
    };
    Ok(Reached {
        client,
        _forward: forward,
    })
}

/// The agent's URL at this end of the port-forward.
fn near(far: &str, end: &str) -> Result<String, ReachError> {
    let parse =
        |url: &str| url::Url::parse(url).map_err(|error| ReachError::Argument(format!("{url}: {error}")));
    let (far, mut near) = (parse(far)?, parse(end)?);
    near.set_path(far.path());
    Ok(near.into())
}

/// The folder that `identity fetch` wrote.
fn identity(folder: &Path, server: &SpiffeId) -> Result<IdentitySource, ReachError> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).map_err(|error| ReachError::Identity {
            path,
            problem: error.to_string(),
        })
    };
    let (key, chain, bundle) = (read(KEY)?, read(SVID)?, read(BUNDLE)?);
    let unusable = |problem: String| ReachError::Identity {
        path: folder.to_owned(),
        problem,
    };
    let source = IdentitySource::new(server.trust_domain().clone());
    let bundle = Bundle::from_pem(server.trust_domain().clone(), &bundle)
        .map_err(|error| unusable(error.to_string()))?;
    let svid = Svid::from_pem(&chain, &key, &bundle, clock::system().now())
        .map_err(|error| unusable(format!("{error}; agentd identity fetch makes a new one")))?;
    source
        .set_bundle(bundle)
        .map_err(|error| unusable(error.to_string()))?;
    source
        .set_svid(svid)
        .map_err(|error| unusable(error.to_string()))?;
    Ok(source)
}
