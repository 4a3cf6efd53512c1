//! What strangers show as a signed token, and what issuers say of themselves and their keys, whatever it is.

use agentd_noise::{changed_text, json, words};
use proptest::prelude::*;
use serde_json::json as object;

use super::issuer::metadata;
use super::keys::{KeySet, Verdict};
use super::samples::*;
use super::*;

/// Two tokens of one key, and the key.
fn made() -> &'static ([String; 2], KeySet) {
    static MADE: std::sync::OnceLock<([String; 2], KeySet)> = std::sync::OnceLock::new();
    MADE.get_or_init(|| {
        let signer = Signer::new("k");
        let short = object!({ "iss": ISSUER, "sub": "a", "aud": ["triage"], "exp": 1 });
        let tokens = [signer.token(&claims()), signer.token(&short)];
        (tokens, KeySet::read(&key_set(&[signer.jwk()])).unwrap())
    })
}

fn nearly() -> BoxedStrategy<String> {
    let (tokens, _) = made();
    let head = r#"{"alg":"EdDSA","kid":"k","crit":["b64"],"typ":"JWT"}"#;
    let part = json(vec![claims(), serde_json::from_str(head).unwrap()]).prop_map(encoded);
    let parts = proptest::collection::vec(part, 1..4).prop_map(|parts| parts.join("."));
    let texts = changed_text(&[&tokens[0], &tokens[1], "..", "a.b.c"]);
    prop_oneof![texts, parts].boxed()
}

proptest! {
    #![proptest_config(agentd_noise::cases(256))]

    /// Only what the key signed is signed, to the letter.
    #[test]
    fn tokens_of_strangers(text in nearly()) {
        let (tokens, keys) = made();
        match Token::read(&text) {
            Ok(token) => {
                let signed = token.verdict(keys) == Verdict::Signed;
                prop_assert_eq!(signed, tokens.contains(&text));
                let claims = token.proven();
                prop_assert!(!claims.owner().chars().any(char::is_control) && claims.owner().len() < 320);
                if let Err(why) = claims.counts_at(NOW) {
                    words(why);
                }
            }
            Err(why) => {
                prop_assert!(!tokens.contains(&text));
                words(why);
            }
        }
    }

    #[test]
    fn what_issuers_say(
        keys in json(vec![serde_json::from_slice(&key_set(&[Signer::new("a").jwk(), p256("b").0])).unwrap(),
            object!({"keys": [{"kty": "RSA", "kid": "r", "n": "AQAB", "e": "AQAB", "use": "sig", "key_ops": ["verify"]}]})]),
        said in json(vec![object!({"issuer": ISSUER, "jwks_uri": "https://login.example/keys"})]),
    ) {
        match KeySet::read(&keys) {
            Ok(keys) => {
                // Whatever keys there are, none of them made this.
                for token in &made().0 {
                    prop_assert_ne!(Token::read(token).unwrap().verdict(&keys), Verdict::Signed);
                }
            }
            Err(why) => words(why),
        }
        match metadata(&said, ISSUER) {
            Ok(metadata) => prop_assert_eq!(metadata.issuer, ISSUER),
            Err(problem) => words(&problem.to_string()),
        }
    }
}
