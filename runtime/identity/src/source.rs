//! The current identity of this process: one's own SVID and the trust bundle, set by whichever provider there is and
//! read by every handshake, so a rotation rebuilds no config and drops no connection.

use std::sync::Arc;

use agentd_base::class::{Class, Classified};
use tokio::sync::watch;

use crate::bundle::Bundle;
use crate::id::TrustDomain;
use crate::svid::Svid;

/// What was set does not belong here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is of trust domain `{found}`, and this process belongs to `{ours}`")]
pub struct SourceError {
    ours: TrustDomain,
    found: TrustDomain,
}

impl Classified for SourceError {
    fn class(&self) -> Class {
        Class::Invalid
    }
}

/// SVID and bundle at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Absent until a provider issued one.
    pub svid: Option<Arc<Svid>>,
    /// Absent until it was read; nobody can be verified before.
    pub bundle: Option<Arc<Bundle>>,
}

/// The current identity. Clones share it.
#[derive(Debug, Clone)]
pub struct IdentitySource {
    trust_domain: TrustDomain,
    current: Arc<watch::Sender<Arc<Snapshot>>>,
}

impl IdentitySource {
    /// No SVID and no bundle yet.
    pub fn new(trust_domain: TrustDomain) -> Self {
        Self {
            trust_domain,
            current: Arc::new(watch::Sender::new(Arc::new(Snapshot::default()))),
        }
    }

    /// The trust domain of this process.
    pub fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    /// SVID and bundle now.
    pub fn current(&self) -> Arc<Snapshot> {
        self.current.borrow().clone()
    }

    /// Follows changes.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.current.subscribe()
    }

    /// Replaces the bundle. Nobody is woken when it is the same.
    ///
    /// # Errors
    /// When it is another trust domain's.
    pub fn set_bundle(&self, bundle: Bundle) -> Result<(), SourceError> {
        self.check(bundle.trust_domain())?;
        self.current.send_if_modified(|snapshot| {
            if snapshot.bundle.as_deref() == Some(&bundle) {
                return false;
            }
            *snapshot = Arc::new(Snapshot {
                svid: snapshot.svid.clone(),
                bundle: Some(Arc::new(bundle)),
            });
            true
        });
        Ok(())
    }

    /// Replaces the SVID.
    ///
    /// # Errors
    /// When it is of another trust domain.
    pub fn set_svid(&self, svid: Svid) -> Result<(), SourceError> {
        self.check(svid.id().trust_domain())?;
        self.current.send_modify(|snapshot| {
            *snapshot = Arc::new(Snapshot {
                svid: Some(Arc::new(svid)),
                bundle: snapshot.bundle.clone(),
            });
        });
        Ok(())
    }

    fn check(&self, found: &TrustDomain) -> Result<(), SourceError> {
        if *found == self.trust_domain {
            return Ok(());
        }
        Err(SourceError {
            ours: self.trust_domain.clone(),
            found: found.clone(),
        })
    }
}
