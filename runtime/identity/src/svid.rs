//! One's own X.509-SVID: checked in full before it is used, so that a provider's mistake shows here and not at a
//! peer. The key is wiped when the last user drops it and never shown.

use std::sync::Arc;

use agentd_base::class::{Class, Classified};
use jiff::Timestamp;
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

use crate::bundle::Bundle;
use crate::from_pem;
use crate::id::SpiffeId;
use crate::leaf::Leaf;
use crate::provider;
use crate::source::Snapshot;
use crate::verify::{VerifyError, peer_svid};

/// Certificates in one chain; a root, a few intermediates and the leaf fit.
const MAX_CHAIN: usize = 16;
/// A chain and a key in PEM.
const MAX_BYTES: usize = 256 * 1024;

/// Why a chain and a key are no SVID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SvidError {
    /// Too large, or not PEM, or nothing in it.
    #[error("the certificate chain is unusable: {0}")]
    Chain(String),
    /// Not a private key that we can sign with.
    #[error("the private key is unusable: {0}")]
    Key(String),
    /// Not a pair.
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
    /// A peer would refuse it.
    #[error("a peer would refuse this certificate: {0}")]
    Refused(#[from] VerifyError),
}

impl Classified for SvidError {
    fn class(&self) -> Class {
        match self {
            Self::Chain(_) | Self::Key(_) | Self::KeyMismatch => Class::Invalid,
            Self::Refused(error) => error.class(),
        }
    }
}

/// An X.509-SVID with its key.
pub struct Svid {
    id: SpiffeId,
    chain: Vec<CertificateDer<'static>>,
    key: Zeroizing<PrivateKeyDer<'static>>,
    issued_at: Timestamp,
    expires_at: Timestamp,
    certified: Arc<CertifiedKey>,
}

impl Svid {
    /// Reads a chain (leaf first) and a key from PEM and checks what a peer would check at `now`, and that the key
    /// belongs to the leaf.
    ///
    /// # Errors
    /// Says what is wrong; nothing of the key is in the text.
    pub fn from_pem(chain: &[u8], key: &[u8], bundle: &Bundle, now: Timestamp) -> Result<Self, SvidError> {
        if chain.len() > MAX_BYTES || key.len() > MAX_BYTES {
            return Err(SvidError::Chain(format!(
                "chain or key has more than {MAX_BYTES} bytes"
            )));
        }
        let chain = from_pem::certificates(chain).map_err(|e| SvidError::Chain(e.to_string()))?;
        let key = from_pem::private_key(key).map_err(|e| SvidError::Key(e.to_string()))?;
        Self::new(chain, key, bundle, now)
    }

    /// The same of DER.
    ///
    /// # Errors
    /// As [`Svid::from_pem`].
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        bundle: &Bundle,
        now: Timestamp,
    ) -> Result<Self, SvidError> {
        if chain.len() > MAX_CHAIN {
            return Err(SvidError::Chain(format!("more than {MAX_CHAIN} certificates")));
        }
        let first = chain
            .first()
            .ok_or_else(|| SvidError::Chain("no certificate".to_owned()))?;
        let Leaf {
            id,
            not_before,
            not_after,
        } = Leaf::parse(first)?;
        let snapshot = Snapshot {
            svid: None,
            bundle: Some(Arc::new(bundle.clone())),
        };
        peer_svid(&chain, &snapshot, now)?;

        let key = Zeroizing::new(key);
        let signer = provider()
            .key_provider
            .load_private_key(key.clone_key())
            .map_err(|_| SvidError::Key("its algorithm or encoding is not supported".to_owned()))?;
        let certified = CertifiedKey::new(chain.clone(), signer);
        certified.keys_match().map_err(|_| SvidError::KeyMismatch)?;
        Ok(Self {
            id,
            chain,
            key,
            issued_at: not_before,
            expires_at: not_after,
            certified: Arc::new(certified),
        })
    }

    /// Who this is.
    pub fn id(&self) -> &SpiffeId {
        &self.id
    }

    /// Leaf first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The chain in PEM.
    pub fn chain_pem(&self) -> String {
        certificates_to_pem(&self.chain)
    }

    /// The key.
    pub fn key(&self) -> &PrivateKeyDer<'static> {
        &self.key
    }

    /// The key in PEM: for a worker process or a file that the user asked for, and nothing else.
    pub fn key_pem(&self) -> Zeroizing<String> {
        let label = match *self.key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        Zeroizing::new(pem::encode_config(
            &pem::Pem::new(label, self.key.secret_der()),
            unix_lines(),
        ))
    }

    /// `notBefore` of the leaf.
    pub fn issued_at(&self) -> Timestamp {
        self.issued_at
    }

    /// `notAfter` of the leaf.
    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    /// Whether it has ended at `now`.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now > self.expires_at
    }

    pub(crate) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }
}

impl std::fmt::Debug for Svid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Svid")
            .field("id", &self.id)
            .field("issued_at", &self.issued_at)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

pub(crate) fn certificates_to_pem(certificates: &[CertificateDer<'_>]) -> String {
    certificates
        .iter()
        .map(|der| pem::encode_config(&pem::Pem::new("CERTIFICATE", der.as_ref()), unix_lines()))
        .collect()
}

fn unix_lines() -> pem::EncodeConfig {
    pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF)
}
