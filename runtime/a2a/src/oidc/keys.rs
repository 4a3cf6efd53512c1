//! The keys of an issuer (RFC 7517), and which of them signed. A key is used in the one way that it is for: what is
//! public is never a secret, and what an issuer says of a key (`use`, `key_ops`, `alg`) holds.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;

/// Keys of one issuer; large ones have some dozen while they change them.
const KEYS: usize = 64;
/// A modulus of 8192 bits.
const NUMBER_BYTES: usize = 1024;

/// How a token may be signed. Nothing with a shared secret, and nothing unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Ps256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// By its registered name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "PS256" => Self::Ps256,
            "ES256" => Self::Es256,
            "EdDSA" => Self::EdDsa,
            _ => return None,
        })
    }
}

/// What came of looking at a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// One of the keys made it.
    Signed,
    /// The key that it names did not.
    Forged,
    /// There is no such key.
    NoSuchKey,
}

/// The keys that are for signatures of a kind that is taken.
#[derive(Debug)]
pub(crate) struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// What the issuer says that it is for.
    only: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// Uncompressed.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct Given {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads what an issuer publishes. A key that is not understood is left out (RFC 7517, 5).
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        let given: Given = serde_json::from_slice(bytes).map_err(|_| "its keys are no key set")?;
        if given.keys.len() > KEYS {
            return Err("it has more keys than are taken");
        }
        let keys = given.keys.into_iter();
        Ok(Self(keys.filter_map(Key::of).collect()))
    }

    /// Whether one of the keys made this signature: the one with the name, or, without a name, the only one that could.
    pub(crate) fn verdict(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        signed: &[u8],
        signature: &[u8],
    ) -> Verdict {
        let named = |key: &&Key| id.is_none_or(|id| key.id.as_deref() == Some(id));
        let mut fit = self.0.iter().filter(named).filter(|key| key.fits(algorithm));
        match (fit.next(), fit.next()) {
            (Some(key), None) if key.made(algorithm, signed, signature) => Verdict::Signed,
            (Some(_), None) => Verdict::Forged,
            (None, _) | (Some(_), Some(_)) => Verdict::NoSuchKey,
        }
    }
}

impl Key {
    fn of(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let signs = jwk.purpose.is_none_or(|purpose| purpose == "sig")
            && jwk
                .key_ops
                .is_none_or(|all| all.iter().any(|one| one == "verify"));
        let number = |text: Option<String>| {
            let text = text.filter(|text| text.len() <= NUMBER_BYTES * 2)?;
            URL_SAFE_NO_PAD.decode(text).ok()
        };
        let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => Material::Rsa {
                n: number(jwk.n)?,
                e: number(jwk.e)?,
            },
            ("EC", Some("P-256")) => {
                let (x, y) = (number(jwk.x)?, number(jwk.y)?);
                if x.len() != 32 || y.len() != 32 {
                    return None;
                }
                Material::P256([&[4], x.as_slice(), &y].concat())
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(number(jwk.x)?),
            _ => return None,
        };
        signs.then_some(Self {
            id: jwk.kid,
            only: jwk.alg,
            material,
        })
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        let meant = self.only.as_deref().map(Algorithm::named);
        let is_kind = match self.material {
            Material::Rsa { .. } => matches!(algorithm, Algorithm::Rs256 | Algorithm::Ps256),
            Material::P256(_) => algorithm == Algorithm::Es256,
            Material::Ed25519(_) => algorithm == Algorithm::EdDsa,
        };
        is_kind && meant.is_none_or(|meant| meant == Some(algorithm))
    }

    fn made(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
        let verified = match (&self.material, algorithm) {
            (Material::Rsa { n, e }, Algorithm::Rs256) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
            }
            (Material::Rsa { n, e }, Algorithm::Ps256) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PSS_2048_8192_SHA256, signed, signature)
            }
            (Material::P256(point), Algorithm::Es256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
            }
            (Material::Ed25519(point), Algorithm::EdDsa) => {
                UnparsedPublicKey::new(&ED25519, point).verify(signed, signature)
            }
            _ => return false,
        };
        verified.is_ok()
    }
}
