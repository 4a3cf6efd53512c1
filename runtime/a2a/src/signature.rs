//! The signature of a card: a JSON Web Signature (RFC 7515) over its canonical JSON (RFC 8785) with the key of an SVID, whose
//! chain stands in the protected header, so that whoever has the trust bundle can judge it (section 8.4 of A2A 1.0).

use std::collections::BTreeMap;

use agentd_identity::Svid;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use a2a::AgentCardSignature;

use crate::wire::AgentCard;

/// Kinds of keys that can sign, with their names in a header.
const ALGORITHMS: [(&str, &EcdsaSigningAlgorithm); 2] = [
    ("ES256", &ECDSA_P256_SHA256_FIXED_SIGNING),
    ("ES384", &ECDSA_P384_SHA384_FIXED_SIGNING),
];

/// Why a card cannot be signed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignError {
    /// The SVID has another kind of key.
    #[error("the key of the SVID is of a kind that signs no card: EC P-256 and P-384 do")]
    Key,
    /// The card is no JSON, or the library failed.
    #[error("the card cannot be signed: {0}")]
    Failed(String),
}

/// The card with a signature of this SVID in place of any other.
pub(crate) fn signed(mut card: AgentCard, svid: &Svid) -> Result<AgentCard, SignError> {
    let failed = |problem: &dyn std::fmt::Display| SignError::Failed(problem.to_string());
    card.signatures = None;
    let canonical = canonical(&card).map_err(|error| failed(&error))?;
    let (name, key) = ALGORITHMS
        .into_iter()
        .find_map(|(name, algorithm)| {
            let key = EcdsaKeyPair::from_private_key_der(algorithm, svid.key().secret_der()).ok()?;
            Some((name, key))
        })
        .ok_or(SignError::Key)?;
    let chain: Vec<_> = svid.chain().iter().map(|one| STANDARD.encode(one)).collect();
    let header = BTreeMap::from([
        ("alg", json!(name)),
        ("typ", json!("JOSE")),
        ("kid", json!(svid.id().to_string())),
        ("x5c", json!(chain)),
    ]);
    let header = serde_json::to_vec(&header).map_err(|error| failed(&error))?;
    let protected = URL_SAFE_NO_PAD.encode(header);
    let input = format!("{protected}.{}", URL_SAFE_NO_PAD.encode(canonical));
    let signature = key
        .sign(&SystemRandom::new(), input.as_bytes())
        .map_err(|error| failed(&error))?;
    card.signatures = Some(vec![AgentCardSignature {
        protected,
        signature: URL_SAFE_NO_PAD.encode(signature),
        header: None,
    }]);
    Ok(card)
}

/// What is signed: the members of 1.0 that say something.
fn canonical(card: &AgentCard) -> serde_json::Result<Vec<u8>> {
    let card = filled(serde_json::to_value(card)?).unwrap_or_default();
    serde_json_canonicalizer::to_vec(&card)
}

/// Without texts, lists and objects that hold nothing, as readers of proto3 JSON leave them out.
fn filled(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then_some(Value::String(text)),
        Value::Array(all) => {
            let all: Vec<_> = all.into_iter().filter_map(filled).collect();
            (!all.is_empty()).then_some(Value::Array(all))
        }
        Value::Object(members) => {
            let members: serde_json::Map<_, _> = members
                .into_iter()
                .filter_map(|(name, value)| Some((name, filled(value)?)))
                .collect();
            (!members.is_empty()).then_some(Value::Object(members))
        }
        value @ (Value::Bool(_) | Value::Number(_)) => Some(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_is_not_signed() {
        let value = json!({ "a": "", "b": [], "c": { "d": [{ "e": null }] }, "f": false, "g": ["", 1.0], "ä": "\u{20ac}" });
        let canonical = serde_json_canonicalizer::to_string(&filled(value).unwrap()).unwrap();
        assert_eq!(canonical, r#"{"f":false,"g":[1],"ä":"€"}"#);
        assert_eq!(filled(json!({ "a": { "b": [""] } })), None);
    }
}
