//! `private_key_jwt`: what a client signs with its own key to show who it is (RFC 7523 section 3, signatures of RFC 7518).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agentd_identity::from_pem;
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls_pki_types::PrivateKeyDer;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

/// One is made for each token request.
const LIVES: Duration = Duration::from_secs(60);

/// Why nothing can be signed. Follows the key's name; says nothing of what the key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("is no PEM of an unencrypted private key; put a PKCS#8 one in the secret")]
    NotPem,
    #[error("is not PKCS#8; convert it by `openssl pkcs8 -topk8 -nocrypt`")]
    NotPkcs8,
    #[error("is neither a P-256 nor an RSA key of 2048 to 8192 bits; put one of these in the secret")]
    Unsupported,
    #[error("cannot sign; put another key in the secret")]
    Signing,
}

impl From<Unspecified> for KeyError {
    fn from(_: Unspecified) -> Self {
        Self::Signing
    }
}

/// A client's private key. The algorithm is the key's.
pub(crate) enum Key {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
}

impl Key {
    pub(crate) fn from_pem(text: &SecretString) -> Result<Self, KeyError> {
        let key = from_pem::private_key(text.expose_secret().as_bytes()).map_err(|_| KeyError::NotPem)?;
        let PrivateKeyDer::Pkcs8(key) = key else {
            return Err(KeyError::NotPkcs8);
        };
        let der = key.secret_pkcs8_der();
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der) {
            return Ok(Self::Es256(key));
        }
        RsaKeyPair::from_pkcs8(der)
            .map(Self::Rs256)
            .map_err(|_| KeyError::Unsupported)
    }

    /// A JWS in its compact form.
    pub(crate) fn sign(&self, claims: &Value) -> Result<SecretString, KeyError> {
        let algorithm = match self {
            Self::Es256(_) => "ES256",
            Self::Rs256(_) => "RS256",
        };
        let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = encoded(&json!({"alg": algorithm, "typ": "JWT"}));
        let signed = format!("{header}.{}", encoded(claims));
        let random = SystemRandom::new();
        let signature = match self {
            Self::Es256(key) => key.sign(&random, signed.as_bytes())?.as_ref().to_vec(),
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature)?;
                signature
            }
        };
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)).into())
    }
}

/// For one authorization server and one request: no two have the same `jti`.
pub(crate) fn claims(client: &str, audience: &str, now: SystemTime) -> Value {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "iss": client,
        "sub": client,
        "aud": audience,
        "iat": now.as_secs(),
        "exp": (now + LIVES).as_secs(),
        "jti": uuid::Uuid::now_v7(),
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What openssl says on its standard output.
    fn openssl(folder: &std::path::Path, arguments: &str) -> String {
        let arguments = arguments.split(' ');
        let output = Command::new("openssl")
            .args(arguments)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// A JWS has both numbers of an ECDSA signature side by side (RFC 7518 section 3.4), openssl wants them in DER.
    fn der(signature: &[u8]) -> Vec<u8> {
        let integer = |bytes: &[u8]| {
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            let mut number = bytes[zeros..].to_vec();
            if number.first().is_none_or(|first| *first >= 128) {
                number.insert(0, 0);
            }
            [vec![2, u8::try_from(number.len()).unwrap()], number].concat()
        };
        let (r, s) = signature.split_at(32);
        let both = [integer(r), integer(s)].concat();
        [vec![0x30, u8::try_from(both.len()).unwrap()], both].concat()
    }

    #[test]
    fn openssl_verifies_what_either_kind_of_key_signs() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        for (kind, algorithm) in [
            ("EC -pkeyopt ec_paramgen_curve:P-256", "ES256"),
            ("RSA -pkeyopt rsa_keygen_bits:2048", "RS256"),
        ] {
            openssl(at, &format!("genpkey -algorithm {kind} -out key"));
            openssl(at, "pkey -in key -pubout -out public");
            let pem = std::fs::read_to_string(at.join("key")).unwrap();
            let claims = claims(
                "svc",
                "https://login.example",
                UNIX_EPOCH + Duration::from_secs(1000),
            );
            let signed = Key::from_pem(&pem.into()).unwrap().sign(&claims).unwrap();

            let (text, signature) = signed.expose_secret().rsplit_once('.').unwrap();
            let parts = text.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap());
            let parts: Vec<Value> = parts.map(|part| serde_json::from_slice(&part).unwrap()).collect();
            assert_eq!(parts, [json!({"alg": algorithm, "typ": "JWT"}), claims]);
            let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            let signature = if algorithm == "ES256" {
                der(&signature)
            } else {
                signature
            };
            std::fs::write(at.join("text"), text).unwrap();
            std::fs::write(at.join("signature"), signature).unwrap();
            let said = openssl(at, "dgst -sha256 -verify public -signature signature text");
            assert_eq!(said, "Verified OK\n", "{algorithm}");
        }
    }

    #[test]
    fn what_is_claimed() {
        let now = UNIX_EPOCH + Duration::from_millis(1_000_900);
        let mut first = claims("svc", "https://login.example", now);
        let second = claims("svc", "https://login.example", now);
        assert_ne!(first["jti"], second["jti"]);
        first["jti"] = json!("id");
        let expected = json!({"iss": "svc", "sub": "svc", "aud": "https://login.example", "iat": 1000, "exp": 1060, "jti": "id"});
        assert_eq!(first, expected);
    }

    #[test]
    fn keys_that_are_none_are_refused_by_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let p384 = openssl(at, "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384");
        let small = openssl(at, "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024");
        let old = openssl(at, "ecparam -name prime256v1 -genkey -noout");
        let encrypted = openssl(
            at,
            "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes256 -pass pass:word",
        );
        for (pem, expected) in [
            ("hunter2".to_owned(), KeyError::NotPem),
            (String::new(), KeyError::NotPem),
            (encrypted, KeyError::NotPem),
            (old, KeyError::NotPkcs8),
            (p384, KeyError::Unsupported),
            (small, KeyError::Unsupported),
        ] {
            assert_eq!(Key::from_pem(&pem.into()).err(), Some(expected));
        }
    }
}
