//! The authority at work: signs what policy granted, and the issuer's own server certificate, in memory.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use agentd_base::class::{Class, Classified};
use agentd_base::clock::SharedClock;
use agentd_base::issuance::SvidResponse;
use agentd_identity::authority::AuthorityError;
use agentd_identity::source::SourceError;
use agentd_identity::{Authority, IdError, IdentitySource, SpiffeId, TrustDomain};

use super::policy::Grant;

/// Why the signer cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The authority refused or failed.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The issuer's own names make no ID.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The Secret names another trust domain than when this process started. It must start again.
    #[error("the CA Secret changed its trust domain: {0}")]
    TrustDomain(#[from] SourceError),
}

impl Classified for SignError {
    fn class(&self) -> Class {
        match self {
            Self::Authority(error) => error.class(),
            Self::Id(error) => error.class(),
            Self::TrustDomain(_) => Class::Conflict,
        }
    }
}

/// Signs with the current authority.
pub struct Signer {
    authority: RwLock<Arc<Authority>>,
    source: IdentitySource,
    id: SpiffeId,
    dns_names: Vec<String>,
    ttl: Duration,
    clock: SharedClock,
}

impl Signer {
    /// With the first authority. `service` is the issuer's ServiceAccount and Service, `namespace` the install's.
    ///
    /// # Errors
    /// When the own certificate cannot be signed.
    pub fn new(
        authority: Authority,
        (namespace, service, cluster_domain): (&str, &str, &str),
        ttl: Duration,
        clock: SharedClock,
    ) -> Result<Self, SignError> {
        let id = SpiffeId::of_service_account(authority.trust_domain(), namespace, service)?;
        let host = format!("{service}.{namespace}.svc");
        let dns_names = vec![host.clone(), format!("{host}.{cluster_domain}")];
        let source = IdentitySource::new(authority.trust_domain().clone());
        let signer = Self {
            authority: RwLock::new(Arc::new(authority)),
            source,
            id,
            dns_names,
            ttl,
            clock,
        };
        signer.renew_own()?;
        Ok(signer)
    }

    /// The issuer's own identity, for its listener.
    pub fn source(&self) -> &IdentitySource {
        &self.source
    }

    /// The trust domain.
    pub fn trust_domain(&self) -> &TrustDomain {
        self.source.trust_domain()
    }

    /// The current authority.
    pub fn authority(&self) -> Arc<Authority> {
        self.authority
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes up another root and signs the own certificate with it.
    ///
    /// # Errors
    /// When it is another trust domain's, or signing fails; then the one before stays.
    pub fn replace(&self, authority: Authority) -> Result<(), SignError> {
        self.sign_own(&authority)?;
        *self.authority.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(authority);
        Ok(())
    }

    /// Signs the own certificate again.
    ///
    /// # Errors
    /// When signing fails; then the one before stays.
    pub fn renew_own(&self) -> Result<(), SignError> {
        self.sign_own(&self.authority())
    }

    /// When the own certificate should be signed again: after a third of its life, as everybody does.
    pub fn renew_own_after(&self) -> Duration {
        self.ttl / 3
    }

    fn sign_own(&self, authority: &Authority) -> Result<(), SignError> {
        self.source.set_bundle(authority.bundle().clone())?;
        self.source
            .set_svid(authority.own_svid(&self.id, &self.dns_names, self.ttl, self.clock.now())?)?;
        Ok(())
    }

    /// Signs what was granted for the key in the request.
    ///
    /// # Errors
    /// [`AuthorityError::Csr`] when the request is unusable.
    pub fn sign(&self, csr: &str, grant: &Grant) -> Result<SvidResponse, AuthorityError> {
        let authority = self.authority();
        let signed = authority.sign_svid(csr, &grant.id, &grant.dns_names, self.ttl, self.clock.now())?;
        Ok(SvidResponse {
            spiffe_id: grant.id.to_string(),
            certificates: signed.chain_pem,
            bundle: authority.bundle().to_pem(),
            expires_at: signed.expires_at,
        })
    }
}
