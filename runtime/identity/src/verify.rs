//! The one verifier of peers' SVIDs, for both directions of TLS. An SVID counts when its leaf has the form that the
//! specification wants and its chain ends, now, in the bundle of the trust domain in its own ID; bundles are never
//! merged.

use agentd_base::class::{Class, Classified};
use jiff::Timestamp;
use rustls::CertificateError;
use rustls_pki_types::CertificateDer;

use crate::id::{IdError, SpiffeId, TrustDomain};
use crate::leaf::Leaf;
use crate::source::Snapshot;
use crate::unix_time;

/// Why a peer's certificate proves no identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// No certificate at all.
    #[error("the peer sent no certificate")]
    Absent,
    /// Not X.509 as we read it.
    #[error("the peer's certificate is malformed: {0}")]
    Malformed(String),
    /// No URI SAN.
    #[error("the peer's certificate carries no SPIFFE ID (no URI SAN)")]
    NoUri,
    /// More than one URI SAN.
    #[error("the peer's certificate carries more than one URI SAN")]
    SeveralUris,
    /// The URI is no workload's ID.
    #[error(transparent)]
    Id(#[from] IdError),
    /// A signing certificate must not authenticate.
    #[error("the peer's certificate is a CA's")]
    Authority,
    /// `keyUsage`.
    #[error("the keyUsage of the peer's certificate is wrong: {0}")]
    KeyUsage(&'static str),
    /// `extendedKeyUsage`.
    #[error("the extendedKeyUsage of the peer's certificate does not name both serverAuth and clientAuth")]
    ExtendedKeyUsage,
    /// We hold no bundle yet, so nobody can be verified.
    #[error("there is no trust bundle yet")]
    NoBundle,
    /// A trust domain whose bundle we do not hold.
    #[error("`{id}` is not of trust domain `{ours}`")]
    ForeignTrustDomain {
        /// The peer's ID.
        id: SpiffeId,
        /// The trust domain that we hold a bundle of.
        ours: TrustDomain,
    },
    /// Ended.
    #[error("the certificate of `{0}` has expired")]
    Expired(SpiffeId),
    /// Not begun: usually a clock that is wrong.
    #[error("the certificate of `{0}` is not valid yet")]
    NotYetValid(SpiffeId),
    /// Signed by nobody in the bundle.
    #[error("the certificate of `{0}` was not signed by an authority in its trust domain's bundle")]
    UnknownIssuer(SpiffeId),
    /// Any other fault of the chain.
    #[error("the certificate chain of `{id}` does not verify: {problem}")]
    Chain {
        /// The claimed ID.
        id: SpiffeId,
        /// What webpki says.
        problem: String,
    },
    /// It verified, and is somebody else.
    #[error("expected `{expected}`, and the peer is `{found}`")]
    Unexpected {
        /// Whom we meant to reach.
        expected: SpiffeId,
        /// Who answered.
        found: SpiffeId,
    },
}

impl Classified for VerifyError {
    fn class(&self) -> Class {
        match self {
            Self::NoBundle => Class::Unavailable,
            _ => Class::Denied,
        }
    }
}

impl From<VerifyError> for rustls::Error {
    /// The peer sees the alert that fits; our own side keeps the text (as `CertificateError::Other`).
    fn from(error: VerifyError) -> Self {
        Self::InvalidCertificate(match error {
            VerifyError::Expired(_) => CertificateError::Expired,
            VerifyError::NotYetValid(_) => CertificateError::NotValidYet,
            VerifyError::UnknownIssuer(_) => CertificateError::UnknownIssuer,
            other => CertificateError::Other(rustls::OtherError(std::sync::Arc::new(other))),
        })
    }
}

/// What a TLS error means, in words: rustls itself shows an error of ours in its debug form.
pub fn explain(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => other.0.to_string(),
        other => other.to_string(),
    }
}

/// The ID that a chain (leaf first) proves at `now` against the bundle in `snapshot`.
///
/// # Errors
/// Says which rule the chain breaks.
pub fn peer_svid(
    chain: &[CertificateDer<'_>],
    snapshot: &Snapshot,
    now: Timestamp,
) -> Result<SpiffeId, VerifyError> {
    let (first, intermediates) = chain.split_first().ok_or(VerifyError::Absent)?;
    let Leaf { id, .. } = Leaf::parse(first)?;
    let bundle = snapshot.bundle.as_ref().ok_or(VerifyError::NoBundle)?;
    if id.trust_domain() != bundle.trust_domain() {
        return Err(VerifyError::ForeignTrustDomain {
            id,
            ours: bundle.trust_domain().clone(),
        });
    }
    match bundle
        .path_verifier()
        .verify_client_cert(first, intermediates, unix_time(now))
    {
        Ok(_) => Ok(id),
        Err(rustls::Error::InvalidCertificate(problem)) => Err(match problem {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => VerifyError::Expired(id),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                VerifyError::NotYetValid(id)
            }
            CertificateError::UnknownIssuer => VerifyError::UnknownIssuer(id),
            other => VerifyError::Chain {
                id,
                problem: format!("{other:?}"),
            },
        }),
        Err(other) => Err(VerifyError::Chain {
            id,
            problem: other.to_string(),
        }),
    }
}
