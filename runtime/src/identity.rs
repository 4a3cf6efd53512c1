//! The identity of this process from the issuer: a source that handshakes read, and the task that keeps it fresh. Having
//! none yet is a state, not a fault: nothing here ends the process.

use std::path::Path;

use agentd_base::clock::SharedClock;
use agentd_config::document::Identity;
use agentd_config::file::FileError;
use agentd_config::{ConfigErrors, Fault};
use agentd_identity::{Bundle, IdentitySource, SpiffeId, TrustDomain};
use agentd_net::issuer::{IssuerClient, IssuerConfig, PACE, Renewal, renew};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::admin::IdentityHealth;
use crate::files::Folders;

/// A running identity. Dropping it ends the renewal.
pub struct PodIdentity {
    /// Read by every handshake.
    pub source: IdentitySource,
    renewal: watch::Receiver<Renewal>,
    clock: SharedClock,
    task: AbortHandle,
}

impl Drop for PodIdentity {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The largest ConfigMap.
const BUNDLE_BYTES: usize = 1024 * 1024;

impl PodIdentity {
    /// Starts the renewal. `bundle` is what the live folder holds; without it the file is read.
    ///
    /// # Errors
    /// When an ID or URL of the document is none.
    pub fn start(
        identity: &Identity,
        bundle: Option<Vec<u8>>,
        clock: SharedClock,
    ) -> Result<Self, ConfigErrors> {
        let trust_domain: TrustDomain = parsed("identity.trust_domain", &identity.trust_domain)?;
        let source = IdentitySource::new(trust_domain);
        match bundle.map_or_else(|| read_bundle(&identity.bundle_file), Ok) {
            Ok(pem) => {
                let bundle = parse_bundle(&source, &pem)?;
                set_bundle(&source, bundle);
            }
            // It may be mounted later; until then `/readyz` says so.
            Err(error) => {
                tracing::warn!(event = "identity.bundle.fail", path = %identity.bundle_file.display(), err = %error);
            }
        }
        let config = IssuerConfig {
            url: identity.issuer_url.clone(),
            id: parsed("identity.issuer_id", &identity.issuer_id)?,
            token_file: identity.token_file.clone(),
            expected: Some(parsed::<SpiffeId>("identity.spiffe_id", &identity.spiffe_id)?),
        };
        let client = IssuerClient::new(source.clone(), config, clock.clone())
            .map_err(|error| Fault::new("identity.issuer_url", error.to_string(), "use https"))?;
        let (state, renewal) = watch::channel(Renewal::default());
        let task = tokio::spawn(renew(client, PACE, state)).abort_handle();
        Ok(Self {
            source,
            renewal,
            clock,
            task,
        })
    }

    /// Lets everybody look at the folders again at each renewal: what a process without inotify missed is hours old
    /// then, and not older.
    pub fn look_again_at_renewals(&self, folders: Folders) {
        let mut renewal = self.renewal.clone();
        let mut seen = renewal.borrow().renewals;
        tokio::spawn(async move {
            while let Ok(now) = renewal
                .wait_for(|now| now.renewals > seen)
                .await
                .map(|now| now.renewals)
            {
                seen = now;
                folders.look_again();
            }
        });
    }

    /// For `/readyz`.
    pub fn health(&self) -> IdentityHealth {
        IdentityHealth {
            source: self.source.clone(),
            renewal: self.renewal.clone(),
            clock: self.clock.clone(),
        }
    }
}

/// The file of the bundle.
///
/// # Errors
/// When it is no file of a bundle's size.
pub fn read_bundle(path: &Path) -> Result<Vec<u8>, FileError> {
    agentd_config::file::read(path, BUNDLE_BYTES).map(|pem| pem.to_vec())
}

/// The bundle of this trust domain.
///
/// # Errors
/// When it is none; the fault names the key.
pub fn parse_bundle(source: &IdentitySource, pem: &[u8]) -> Result<Bundle, ConfigErrors> {
    Bundle::from_pem(source.trust_domain().clone(), pem).map_err(|error| {
        Fault::new(
            "identity.bundle_file",
            error.to_string(),
            "let it hold the roots of the trust domain",
        )
        .into()
    })
}

/// Takes a bundle up.
pub fn set_bundle(source: &IdentitySource, bundle: Bundle) {
    // It was parsed for the source's trust domain.
    if let Err(error) = source.set_bundle(bundle) {
        tracing::error!(event = "identity.bundle.fail", err = %error);
    }
}

/// The file's name when it lies directly in the folder.
pub fn name_in(folder: &Path, file: &Path) -> Option<String> {
    let inside = file.parent() == Some(folder);
    file.file_name()
        .and_then(|name| name.to_str())
        .filter(|_| inside)
        .map(str::to_owned)
}

fn parsed<T: std::str::FromStr>(key: &str, text: &str) -> Result<T, ConfigErrors>
where
    T::Err: std::fmt::Display,
{
    text.parse()
        .map_err(|error: T::Err| Fault::new(key, error.to_string(), "correct it").into())
}
