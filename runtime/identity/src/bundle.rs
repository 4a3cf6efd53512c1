//! The trust bundle of one trust domain: the roots that may sign its SVIDs, and nobody else's.

use std::sync::Arc;

use agentd_base::class::{Class, Classified};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::from_pem::{self, PemError};
use crate::id::TrustDomain;
use crate::provider;

/// A bundle in a ConfigMap: far above any rotation, far below the object's limit.
pub const MAX_BYTES: usize = 256 * 1024;
/// Roots in one bundle. A rotation has two, a loss in the middle of one three.
pub const MAX_ROOTS: usize = 32;

/// Why some bytes are no bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// Too much.
    #[error("a trust bundle has at most {MAX_BYTES} bytes and {MAX_ROOTS} certificates")]
    TooLarge,
    /// Nothing in it.
    #[error("the trust bundle holds no certificate")]
    Empty,
    /// Not PEM.
    #[error("the trust bundle is unusable: {0}")]
    Pem(#[from] PemError),
    /// A certificate that cannot be a root.
    #[error("certificate {index} of the trust bundle is unusable: {problem}")]
    Root {
        /// Counted from 1.
        index: usize,
        /// What is wrong.
        problem: String,
    },
}

impl Classified for BundleError {
    fn class(&self) -> Class {
        Class::Invalid
    }
}

/// The roots of one trust domain.
#[derive(Clone)]
pub struct Bundle {
    trust_domain: TrustDomain,
    roots: Vec<CertificateDer<'static>>,
    path: Arc<dyn ClientCertVerifier>,
}

impl Bundle {
    /// Reads certificates in PEM; text around them is ignored, everything else in PEM is too.
    ///
    /// # Errors
    /// When there is none, one of them is not a CA's, or there are too many.
    pub fn from_pem(trust_domain: TrustDomain, text: &[u8]) -> Result<Self, BundleError> {
        if text.len() > MAX_BYTES {
            return Err(BundleError::TooLarge);
        }
        Self::new(trust_domain, from_pem::certificates(text)?)
    }

    /// A bundle of these roots; one that is there twice counts once.
    ///
    /// # Errors
    /// When there is none, one of them is not a CA's, or there are too many.
    pub fn new(
        trust_domain: TrustDomain,
        certificates: Vec<CertificateDer<'static>>,
    ) -> Result<Self, BundleError> {
        let mut roots: Vec<CertificateDer<'static>> = Vec::new();
        let mut store = RootCertStore::empty();
        for (at, certificate) in certificates.into_iter().enumerate() {
            let error = |problem: String| BundleError::Root {
                index: at + 1,
                problem,
            };
            if roots.contains(&certificate) {
                continue;
            }
            let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|e| error(e.to_string()))?;
            if !parsed.is_ca() {
                return Err(error("it is not a CA's".to_owned()));
            }
            store.add(certificate.clone()).map_err(|e| error(e.to_string()))?;
            roots.push(certificate);
        }
        if roots.is_empty() {
            return Err(BundleError::Empty);
        }
        if roots.len() > MAX_ROOTS {
            return Err(BundleError::TooLarge);
        }
        let path = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider())
            .build()
            .map_err(|e| BundleError::Root {
                index: 1,
                problem: e.to_string(),
            })?;
        Ok(Self {
            trust_domain,
            roots,
            path,
        })
    }

    /// Whose roots these are.
    pub fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    /// The roots, in the order given.
    pub fn roots(&self) -> &[CertificateDer<'static>] {
        &self.roots
    }

    /// The roots in PEM.
    pub fn to_pem(&self) -> String {
        crate::svid::certificates_to_pem(&self.roots)
    }

    /// Path validation against these roots only. An SVID serves both directions, so one verifier does as well.
    pub(crate) fn path_verifier(&self) -> &Arc<dyn ClientCertVerifier> {
        &self.path
    }
}

impl PartialEq for Bundle {
    fn eq(&self, other: &Self) -> bool {
        self.trust_domain == other.trust_domain && self.roots == other.roots
    }
}

impl Eq for Bundle {}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bundle")
            .field("trust_domain", &self.trust_domain)
            .field("roots", &self.roots.len())
            .finish()
    }
}
