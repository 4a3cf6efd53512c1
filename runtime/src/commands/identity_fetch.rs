//! `agentd identity fetch`: an SVID with the token of a ServiceAccount, as three files. With `--namespace` the token, the
//! bundle and the way to the issuer come from `kubectl`, with the user's own rights: no Kubernetes client is linked here.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use agentd_base::class::{Class, Classified, exit};
use agentd_base::clock;
use agentd_config::document::LogLevel;
use agentd_identity::{Bundle, IdentitySource, SpiffeId};
use agentd_net::issuer::{Issued, IssuerClient, IssuerConfig, IssuerError};

use super::code_of;
use super::kubectl::{self, Kubectl, KubectlError};
use crate::cli::{FetchFrom, IdentityFetch};
use crate::logging;

/// The key, PKCS#8.
pub const KEY: &str = "key.pem";
/// The SVID, leaf first.
pub const SVID: &str = "svid.pem";
/// The roots of the trust domain.
pub const BUNDLE: &str = "bundle.pem";

/// Why there is no SVID.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("{0}")]
    Argument(String),
    #[error(transparent)]
    Issuer(#[from] IssuerError),
    #[error(transparent)]
    Kubectl(#[from] KubectlError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
}

impl Classified for FetchError {
    fn class(&self) -> Class {
        match self {
            Self::Argument(_) => Class::Invalid,
            Self::Issuer(error) => error.class(),
            Self::Kubectl(error) => error.class(),
            Self::File { .. } => Class::Unavailable,
        }
    }
}

/// Runs the command; the exit code.
pub async fn run(arguments: IdentityFetch) -> u8 {
    logging::install("cli", LogLevel::Warn);
    match fetch(&arguments).await {
        Ok(id) => super::answered(&id.to_string(), exit::DONE),
        Err(error) => {
            tracing::error!(event = "identity.svid.fail", err = %error);
            code_of(error.class())
        }
    }
}

async fn fetch(arguments: &IdentityFetch) -> Result<SpiffeId, FetchError> {
    let issued = match &arguments.from {
        FetchFrom::Issuer {
            url,
            id,
            bundle,
            token_file,
        } => {
            let bundle = std::fs::read(bundle).map_err(|source| FetchError::File {
                path: bundle.clone(),
                source,
            })?;
            ask(url.clone(), id, &bundle, token_file.clone()).await?
        }
        FetchFrom::Kubectl {
            namespace,
            service_account,
            install_namespace,
            port_forward,
        } => {
            let kubectl = Kubectl::new(namespace);
            let found = kubectl
                .bundle(install_namespace.as_deref().unwrap_or(namespace))
                .await?;
            let token = kubectl.token(service_account, &found.audience).await?;
            let (url, _forward) = if *port_forward {
                let forward = kubectl::port_forward(&found.issuer_url).await?;
                (forward.url(), Some(forward))
            } else {
                (found.issuer_url.clone(), None)
            };
            ask(
                url,
                &found.issuer_id,
                found.bundle_pem.as_bytes(),
                token.path().to_owned(),
            )
            .await?
        }
    };
    write(&arguments.out, &issued).map_err(|(path, source)| FetchError::File { path, source })?;
    Ok(issued.svid.id().clone())
}

async fn ask(url: String, id: &str, bundle: &[u8], token_file: PathBuf) -> Result<Issued, FetchError> {
    let id: SpiffeId = id
        .parse()
        .map_err(|error| FetchError::Argument(format!("--issuer-id: {error}")))?;
    let source = IdentitySource::new(id.trust_domain().clone());
    let bundle = Bundle::from_pem(id.trust_domain().clone(), bundle)
        .map_err(|error| FetchError::Argument(format!("--bundle: {error}")))?;
    source
        .set_bundle(bundle)
        .map_err(|error| FetchError::Argument(error.to_string()))?;
    let config = IssuerConfig {
        url,
        id,
        token_file,
        expected: None,
    };
    Ok(IssuerClient::new(source, config, clock::system())?
        .fetch()
        .await?)
}

/// Writes the three files for the owner alone, each whole or not at all, the key first: a reader that finds a new SVID
/// finds its key.
fn write(folder: &Path, issued: &Issued) -> Result<(), (PathBuf, std::io::Error)> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| (path, source)
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(at(folder))?;
    let key = issued.svid.key_pem();
    let chain = issued.svid.chain_pem();
    let files = [
        (KEY, key.as_bytes()),
        (SVID, chain.as_bytes()),
        (BUNDLE, issued.bundle_pem.as_bytes()),
    ];
    let mut ready = Vec::new();
    for (name, content) in files {
        let path = folder.join(format!(".{name}.new"));
        write_private(&path, content).map_err(at(&path))?;
        ready.push((path, folder.join(name)));
    }
    for (new, name) in ready {
        std::fs::rename(&new, &name).map_err(at(&name))?;
    }
    Ok(())
}

fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)?;
    file.sync_all()
}
