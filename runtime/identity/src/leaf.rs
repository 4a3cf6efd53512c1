//! What an X.509-SVID leaf must look like (X509-SVID specification, sections 2 to 4), whoever signed it: exactly one
//! URI SAN that is a workload's ID, no CA, `keyUsage` for signatures only. No path validation here.

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::id::SpiffeId;
use crate::verify::VerifyError;

/// What a leaf says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// Its only URI SAN.
    pub(crate) id: SpiffeId,
    /// `notBefore`.
    pub(crate) not_before: Timestamp,
    /// `notAfter`.
    pub(crate) not_after: Timestamp,
}

impl Leaf {
    /// Reads and checks the form of a leaf.
    pub(crate) fn parse(der: &CertificateDer<'_>) -> Result<Self, VerifyError> {
        let malformed = |what: &str| VerifyError::Malformed(what.to_owned());
        let (rest, certificate) =
            X509Certificate::from_der(der.as_ref()).map_err(|_| malformed("not DER of X.509"))?;
        if !rest.is_empty() {
            return Err(malformed("bytes after the certificate"));
        }
        let id = only_uri(&certificate)?;

        let constraints = certificate
            .basic_constraints()
            .map_err(|_| malformed("basicConstraints"))?;
        if constraints.is_some_and(|constraints| constraints.value.ca) {
            return Err(VerifyError::Authority);
        }

        let usage = certificate
            .key_usage()
            .map_err(|_| malformed("keyUsage"))?
            .ok_or(VerifyError::KeyUsage("absent"))?;
        if usage.value.key_cert_sign() || usage.value.crl_sign() {
            return Err(VerifyError::KeyUsage(
                "it may sign certificates or revocation lists",
            ));
        }
        if !usage.critical {
            return Err(VerifyError::KeyUsage("not critical"));
        }
        if !usage.value.digital_signature() {
            return Err(VerifyError::KeyUsage("digitalSignature is not set"));
        }

        let extended = certificate
            .extended_key_usage()
            .map_err(|_| malformed("extendedKeyUsage"))?;
        if extended.is_some_and(|usage| !(usage.value.server_auth && usage.value.client_auth)) {
            return Err(VerifyError::ExtendedKeyUsage);
        }

        let time = |at: x509_parser::time::ASN1Time, what| {
            Timestamp::from_second(at.timestamp()).map_err(|_| malformed(what))
        };
        let validity = certificate.validity();
        Ok(Self {
            id,
            not_before: time(validity.not_before, "notBefore")?,
            not_after: time(validity.not_after, "notAfter")?,
        })
    }
}

fn only_uri(certificate: &X509Certificate<'_>) -> Result<SpiffeId, VerifyError> {
    let names = certificate
        .subject_alternative_name()
        .map_err(|_| VerifyError::Malformed("subjectAltName".to_owned()))?;
    let mut uris = names
        .iter()
        .flat_map(|names| &names.value.general_names)
        .filter_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });
    match (uris.next(), uris.next()) {
        (None, _) => Err(VerifyError::NoUri),
        (Some(_), Some(_)) => Err(VerifyError::SeveralUris),
        (Some(uri), None) => Ok(uri.parse()?),
    }
}
