//! Keys and tokens for the tests.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PSS_SHA256,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

pub(super) const ISSUER: &str = "https://login.example";
pub(super) const NOW: f64 = 1_800_000_000.0;

pub(super) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token of these parts.
pub(super) fn compact(head: &str, body: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let signed = format!("{}.{}", encoded(head), encoded(body));
    let signature = sign(signed.as_bytes());
    format!("{signed}.{}", encoded(signature))
}

pub(super) fn claims() -> Value {
    json!({ "iss": ISSUER, "sub": "alice", "aud": "triage", "exp": NOW + 300.0, "iat": NOW, "groups": ["support", "all"] })
}

/// A key pair for `EdDSA`, of this name.
pub(super) struct Signer {
    id: &'static str,
    pair: Ed25519KeyPair,
}

impl Signer {
    pub(super) fn new(id: &'static str) -> Self {
        let pair = Ed25519KeyPair::generate().unwrap();
        Self { id, pair }
    }

    pub(super) fn jwk(&self) -> Value {
        let x = encoded(self.pair.public_key().as_ref());
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": x })
    }

    pub(super) fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.pair.sign(bytes).as_ref().to_vec()
    }

    pub(super) fn token(&self, claims: &Value) -> String {
        let head = json!({ "alg": "EdDSA", "kid": self.id, "typ": "JWT" });
        compact(&head.to_string(), &claims.to_string(), |bytes| self.sign(bytes))
    }
}

pub(super) fn key_set(keys: &[Value]) -> Vec<u8> {
    json!({ "keys": keys }).to_string().into_bytes()
}

/// An RSA pair and its public half.
pub(super) struct Rsa(RsaKeyPair);

impl Rsa {
    pub(super) fn new() -> Self {
        Self(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
    }

    pub(super) fn jwk(&self, id: &str) -> Value {
        let public = self.0.public_key();
        let [n, e] =
            [public.modulus(), public.exponent()].map(|n| encoded(n.big_endian_without_leading_zero()));
        json!({ "kty": "RSA", "kid": id, "use": "sig", "n": n, "e": e })
    }

    /// The public half as bytes.
    pub(super) fn public(&self) -> Vec<u8> {
        self.0.public_key().as_ref().to_vec()
    }

    pub(super) fn sign(&self, algorithm: &str, bytes: &[u8]) -> Vec<u8> {
        let padding: &'static dyn aws_lc_rs::signature::RsaEncoding = match algorithm {
            "RS256" => &RSA_PKCS1_SHA256,
            _ => &RSA_PSS_SHA256,
        };
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0
            .sign(padding, &SystemRandom::new(), bytes, &mut signature)
            .unwrap();
        signature
    }
}

/// A P-256 pair: its public half and a signature.
pub(super) fn p256(id: &str) -> (Value, impl Fn(&[u8]) -> Vec<u8>) {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let point = pair.public_key().as_ref().to_vec();
    let jwk = json!({ "kty": "EC", "crv": "P-256", "kid": id, "x": encoded(&point[1..33]), "y": encoded(&point[33..]) });
    let sign = move |bytes: &[u8]| pair.sign(&SystemRandom::new(), bytes).unwrap().as_ref().to_vec();
    (jwk, sign)
}
