//! Certificates and keys in PEM. The library's errors quote what it stumbled over, as a list of bytes and without a bound,
//! and that may be a key: whoever reads PEM reads it here, where a fault is told in fixed words.
#![expect(clippy::disallowed_methods, reason = "the one place where PEM is read")]

use rustls_pki_types::pem::{Error, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Why a text is not what it should be; nothing of the text is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    /// A certificate that cannot be read.
    #[error("certificate {index} {problem}")]
    Certificate {
        /// Counted from 1.
        index: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// No key, or one that cannot be read.
    #[error("no PKCS#8, SEC1 or PKCS#1 key in PEM")]
    Key,
}

/// The certificates of a text, in their order; other sections and the text around them are passed over. There may be none.
///
/// # Errors
/// When a section is not whole.
pub fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    CertificateDer::pem_slice_iter(text)
        .enumerate()
        .map(|(at, certificate)| {
            certificate.map_err(|error| PemError::Certificate {
                index: at + 1,
                problem: problem(&error),
            })
        })
        .collect()
}

/// The first private key of a text.
///
/// # Errors
/// When there is none that can be read.
pub fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, PemError> {
    PrivateKeyDer::from_pem_slice(text).map_err(|_| PemError::Key)
}

fn problem(error: &Error) -> &'static str {
    match error {
        Error::MissingSectionEnd { .. } => "has no line of its end",
        Error::IllegalSectionStart { .. } => "begins with a line that is not of PEM",
        Error::Base64Decode(_) => "is not base64",
        _ => "is not PEM",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_told_without_the_text_that_has_it() {
        let open = format!("-----BEGIN {}", "k".repeat(40_000));
        for text in [
            open.clone(),
            format!("{open}-----\nAAAA\n"),
            format!("{open} CERTIFICATE-----\nAAAA\n"),
            "-----BEGIN CERTIFICATE-----\nkkkk!\n-----END CERTIFICATE-----\n".to_owned(),
            "-----BEGIN PRIVATE KEY-----\nkkkk!\n-----END PRIVATE KEY-----\n".to_owned(),
        ] {
            let told = [
                certificates(text.as_bytes()).map(|_| ()),
                private_key(text.as_bytes()).map(|_| ()),
            ];
            for error in told.into_iter().filter_map(Result::err) {
                let words = error.to_string();
                assert!(words.len() < 80, "{} bytes", words.len());
                assert!(!words.contains("kkkk") && !words.contains("107, 107"), "{words}");
            }
        }
        let cut = b"-----BEGIN CERTIFICATE-----\nAAAA\n";
        assert_eq!(
            certificates(cut).unwrap_err().to_string(),
            "certificate 1 has no line of its end"
        );
    }
}
