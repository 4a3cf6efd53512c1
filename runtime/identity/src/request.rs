//! A key of one's own and the request that asks for its certificate. The key is made here and stays in the process.

use agentd_base::class::{Class, Classified};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256};
use zeroize::{Zeroize as _, Zeroizing};

use crate::provider;

/// The machine could not make a key or sign with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("making a key failed: {0}")]
pub struct RequestError(String);

impl Classified for RequestError {
    fn class(&self) -> Class {
        Class::Internal
    }
}

/// A fresh EC P-256 key in PEM (PKCS#8) and a PKCS#10 request for it in PEM. The request carries the key and nothing
/// else: names are the issuer's decision.
///
/// # Errors
/// When the cryptography library fails.
pub fn new_key_and_csr() -> Result<(Zeroizing<String>, String), RequestError> {
    let error = |e: rcgen::Error| RequestError(e.to_string());
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(error)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let csr = params
        .serialize_request(&key)
        .and_then(|csr| csr.pem())
        .map_err(error)?;
    Ok((Zeroizing::new(key.serialize_pem()), csr))
}

/// Random bytes from the cryptography library.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], RequestError> {
    let mut bytes = [0; N];
    if provider().secure_random.fill(&mut bytes).is_err() {
        bytes.zeroize();
        return Err(RequestError("no random bytes".to_owned()));
    }
    Ok(bytes)
}
