//! Tokens that count and those that must not.

use serde_json::{Value, json};

use super::keys::{KeySet, Verdict};
use super::samples::*;
use super::*;

/// What comes of a token with these keys.
fn judged(keys: &[Value], token: &str) -> Result<Verdict, Wrong> {
    let keys = KeySet::read(&key_set(keys)).unwrap();
    Token::read(token).map(|token| token.verdict(&keys))
}

fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut all = claims();
    change(&mut all);
    all
}

#[test]
fn each_algorithm_by_its_own_kind_of_key_and_by_no_other() {
    let rsa = Rsa::new();
    let (ec, sign_ec) = p256("k");
    let ed = Signer::new("k");
    let token = |algorithm: &str, sign: &dyn Fn(&[u8]) -> Vec<u8>| {
        let head = json!({ "alg": algorithm, "kid": "k" }).to_string();
        compact(&head, &claims().to_string(), sign)
    };
    let kinds: [(&str, Value, String); 4] = [
        (
            "RS256",
            rsa.jwk("k"),
            token("RS256", &|bytes| rsa.sign("RS256", bytes)),
        ),
        (
            "PS256",
            rsa.jwk("k"),
            token("PS256", &|bytes| rsa.sign("PS256", bytes)),
        ),
        ("ES256", ec, token("ES256", &sign_ec)),
        ("EdDSA", ed.jwk(), token("EdDSA", &|bytes| ed.sign(bytes))),
    ];
    for (algorithm, jwk, _) in &kinds {
        for (other, _, token) in &kinds {
            let same_kind = jwk["kty"] == kinds.iter().find(|kind| kind.0 == *other).unwrap().1["kty"];
            let expected = if same_kind {
                Verdict::Signed
            } else {
                Verdict::NoSuchKey
            };
            assert_eq!(
                judged(std::slice::from_ref(jwk), token),
                Ok(expected),
                "{other} by {algorithm}"
            );
            let mut bound = jwk.clone();
            bound["alg"] = json!(algorithm);
            let expected = if algorithm == other {
                Verdict::Signed
            } else {
                Verdict::NoSuchKey
            };
            assert_eq!(
                judged(&[bound], token),
                Ok(expected),
                "{other} by one for {algorithm}"
            );
        }
    }
    // A signature of another kind under the name of this one.
    let confused = token("PS256", &|bytes| rsa.sign("RS256", bytes));
    assert_eq!(judged(&[rsa.jwk("k")], &confused), Ok(Verdict::Forged));
    for (member, value) in [
        ("use", json!("enc")),
        ("key_ops", json!(["encrypt"])),
        ("alg", json!("HS256")),
    ] {
        let mut jwk = rsa.jwk("k");
        jwk[member] = value;
        assert_eq!(judged(&[jwk], &kinds[0].2), Ok(Verdict::NoSuchKey), "{member}");
    }
}

#[test]
fn nothing_unsigned_and_nothing_by_a_secret_that_is_public() {
    let rsa = Rsa::new();
    let hmac = |bytes: &[u8]| {
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &rsa.public());
        aws_lc_rs::hmac::sign(&key, bytes).as_ref().to_vec()
    };
    let body = claims().to_string();
    for algorithm in [
        "HS256", "none", "None", "NONE", "nOnE", "RS512", "ES384", "rs256", "",
    ] {
        let head = json!({ "alg": algorithm, "kid": "k" }).to_string();
        assert!(
            judged(&[rsa.jwk("k")], &compact(&head, &body, hmac)).is_err(),
            "{algorithm}"
        );
    }
    let none = format!("{}.{}.", encoded(r#"{"alg":"none"}"#), encoded(&body));
    assert!(judged(&[rsa.jwk("k")], &none).is_err());
    // The secret that is public, under the name of an algorithm that is taken.
    let head = r#"{"alg":"RS256","kid":"k"}"#;
    assert_eq!(
        judged(&[rsa.jwk("k")], &compact(head, &body, hmac)),
        Ok(Verdict::Forged)
    );
    // A set with a shared secret in it has no key for anything.
    let secret = json!({ "kty": "oct", "kid": "k", "k": encoded("secret") });
    let token = compact(head, &body, |bytes| rsa.sign("RS256", bytes));
    assert_eq!(judged(&[secret], &token), Ok(Verdict::NoSuchKey));
    assert_eq!(judged(&[rsa.jwk("k")], &token), Ok(Verdict::Signed));
}

#[test]
fn a_key_is_the_one_that_is_named_or_the_only_one() {
    let [one, two] = ["one", "two"].map(Signer::new);
    let signed = one.token(&claims());
    assert_eq!(judged(&[two.jwk(), one.jwk()], &signed), Ok(Verdict::Signed));
    assert_eq!(judged(&[two.jwk()], &signed), Ok(Verdict::NoSuchKey));
    let mut renamed = two.jwk();
    renamed["kid"] = json!("one");
    assert_eq!(judged(&[renamed.clone()], &signed), Ok(Verdict::Forged));
    assert_eq!(
        judged(&[renamed, one.jwk()], &signed),
        Ok(Verdict::NoSuchKey),
        "two of one name"
    );
    let unnamed = compact(r#"{"alg":"EdDSA"}"#, &claims().to_string(), |bytes| {
        one.sign(bytes)
    });
    assert_eq!(judged(&[one.jwk()], &unnamed), Ok(Verdict::Signed));
    assert_eq!(judged(&[one.jwk(), two.jwk()], &unnamed), Ok(Verdict::NoSuchKey));
    assert!(KeySet::read(&key_set(&vec![one.jwk(); 65])).is_err());
    // Where a token says that its key is, is not looked at.
    let body = claims().to_string();
    let head = json!({ "alg": "EdDSA", "kid": "one", "jwk": two.jwk(), "jku": "https://evil.example", "x5c": ["AA"] });
    let carried = compact(&head.to_string(), &body, |bytes| two.sign(bytes));
    assert_eq!(judged(&[one.jwk()], &carried), Ok(Verdict::Forged));
}

#[test]
fn what_can_be_read_in_two_ways_is_not_read() {
    let signer = Signer::new("k");
    let (head, body) = (r#"{"alg":"EdDSA"}"#, claims().to_string());
    let token = |head: &str, body: &str| compact(head, body, |bytes| signer.sign(bytes));
    let good = token(head, &body);
    assert!(Token::read(&good).is_ok());
    let twice = format!(r#"{{"sub":"admin",{}"#, body.strip_prefix('{').unwrap());
    let cases = [
        token(head, &twice),
        token(r#"{"alg":"none","alg":"EdDSA"}"#, &body),
        token(r#"{"alg":"EdDSA","crit":["exp"],"exp":1}"#, &body),
        token(r#"{"alg":"EdDSA","crit":["b64"],"b64":false}"#, &body),
        token(r#"{"alg":"EdDSA","typ":"logout+jwt"}"#, &body),
        token(r#"{"alg":"EdDSA","typ":1}"#, &body),
        token(r#"{"alg":"EdDSA","kid":1}"#, &body),
        token(
            &format!(r#"{{"alg":"EdDSA","kid":"{}"}}"#, "k".repeat(257)),
            &body,
        ),
        token(r#"{"alg":["EdDSA"]}"#, &body),
        token("[]", &body),
        token(head, "[]"),
        token(head, &format!("{body} x")),
        token(head, &changed(|all| all["sub"] = json!(1)).to_string()),
        token(head, &changed(|all| all["sub"] = json!("")).to_string()),
        token(head, &changed(|all| all["sub"] = json!("ali\nce")).to_string()),
        token(
            head,
            &changed(|all| all["sub"] = json!("a".repeat(256))).to_string(),
        ),
        token(
            head,
            &changed(|all| all["iss"] = json!(["https://login.example"])).to_string(),
        ),
        token(
            head,
            &changed(|all| all["x"] = json!("x".repeat(8 * 1024))).to_string(),
        ),
        format!("{good}="),
        format!("{good}.{good}"),
        good.replace('.', ".."),
        good.replace('.', ""),
        format!(".{good}"),
        "..".to_owned(),
        String::new(),
    ];
    for case in cases {
        let why = Token::read(&case).err().unwrap_or_else(|| panic!("{case}"));
        assert!(why.len() < 120, "{why}");
    }
    // One bit of the text that says nothing of the bytes would make a second text of one token.
    let mut loose = good.clone();
    let last = loose.pop().unwrap();
    loose.push(char::from(last as u8 + 1));
    assert!(!Token::read(&loose).is_ok_and(|token| {
        token.verdict(&KeySet::read(&key_set(&[signer.jwk()])).unwrap()) == Verdict::Signed
    }));
    for kind in ["JWT", "at+jwt", "application/at+jwt"] {
        assert!(Token::read(&token(&json!({ "alg": "EdDSA", "typ": kind }).to_string(), &body)).is_ok());
    }
}

#[test]
fn a_token_counts_in_its_time() {
    let signer = Signer::new("k");
    let counts = |change: &dyn Fn(&mut Value), after: f64| {
        let token = signer.token(&changed(change));
        Token::read(&token).unwrap().unproven().counts_at(NOW + after)
    };
    assert_eq!(counts(&|_| {}, 0.0), Ok(()));
    assert_eq!(counts(&|_| {}, 329.0), Ok(()));
    assert_eq!(counts(&|_| {}, 331.0), Err("the token has expired"));
    assert_eq!(
        counts(&|all| all["exp"] = json!(NOW - 3600.0), 0.0),
        Err("the token has expired")
    );
    assert_eq!(counts(&|all| all["nbf"] = json!(NOW + 29.0), 0.0), Ok(()));
    assert_eq!(
        counts(&|all| all["nbf"] = json!(NOW + 31.0), 0.0),
        Err("the token does not count yet")
    );
    assert_eq!(
        counts(&|all| all["iat"] = json!(NOW + 31.0), 0.0),
        Err("the token does not count yet")
    );
    for (name, value) in [
        ("exp", json!(null)),
        ("exp", json!("9999999999")),
        ("nbf", json!("0")),
        ("iat", json!([])),
    ] {
        assert!(
            counts(&|all| all[name] = value.clone(), 0.0).is_err(),
            "{name} {value}"
        );
    }
    assert!(counts(&|all| drop(all.as_object_mut().unwrap().remove("exp")), 0.0).is_err());
}

#[test]
fn an_entry_is_about_exactly_what_it_names() {
    let entry = |change: &dyn Fn(&mut Oidc)| {
        let mut oidc = Oidc {
            issuer: ISSUER.into(),
            audience: "triage".into(),
            subject: Some("alice".into()),
            claims: [("groups".to_owned(), "support".to_owned())].into(),
        };
        change(&mut oidc);
        Person::of(&Principal::with_oidc("p", oidc, Role::User))
    };
    let signer = Signer::new("k");
    let is = |person: &Person, change: &dyn Fn(&mut Value)| {
        let token = signer.token(&changed(change));
        person.is(Token::read(&token).unwrap().unproven())
    };
    let alice = entry(&|_| {}).unwrap();
    for (name, value) in [
        ("aud", json!(["other", "triage"])),
        ("groups", json!("support")),
        ("azp", json!("anybody")),
    ] {
        assert!(is(&alice, &|all| all[name] = value.clone()), "{name} {value}");
    }
    for (name, value) in [
        ("iss", json!("https://login.example/")),
        ("iss", json!("https://LOGIN.example")),
        ("iss", json!("https://login.example.evil.example")),
        ("aud", json!("triage2")),
        ("aud", json!(["Triage"])),
        ("aud", json!([])),
        ("aud", json!({"triage": true})),
        ("aud", json!(null)),
        ("sub", json!("Alice")),
        ("sub", json!("alice ")),
        ("groups", json!(["supporters"])),
        ("groups", json!([["support"]])),
        ("groups", json!("support all")),
        ("groups", json!(true)),
        ("groups", json!(null)),
    ] {
        assert!(!is(&alice, &|all| all[name] = value.clone()), "{name} {value}");
    }
    let group = entry(&|oidc| oidc.subject = None).unwrap();
    assert!(is(&group, &|all| all["sub"] = json!("bob")));
    let everybody = entry(&|oidc| {
        oidc.subject = None;
        oidc.claims.clear();
    });
    assert_eq!(everybody, None);
}

#[test]
fn an_owner_is_one_subject_of_one_issuer() {
    let signer = Signer::new("k");
    let owner = |issuer: &str, subject: &str| {
        let token = signer.token(&changed(|all| {
            all["iss"] = json!(issuer);
            all["sub"] = json!(subject);
        }));
        Token::read(&token).unwrap().proven().owner()
    };
    let alice = owner(ISSUER, "alice");
    assert!(
        alice.starts_with("oidc:") && alice.ends_with(":alice") && alice.len() < 64,
        "{alice}"
    );
    assert_ne!(alice, owner("https://other.example", "alice"));
    assert_ne!(owner("https://a", "b:c"), owner("https://a:b", "c"));
}

/// Tokens and keys that joserfc 1.6.5 made, whose private halves nobody has.
#[test]
fn tokens_of_software_that_is_not_ours() {
    let recorded: Value = serde_json::from_str(include_str!("joserfc.json")).unwrap();
    let keys = serde_json::to_vec(&recorded["jwks"]).unwrap();
    let keys = KeySet::read(&keys).unwrap();
    let tokens = recorded["tokens"].as_object().unwrap();
    assert_eq!(tokens.len(), 4);
    for (algorithm, text) in tokens {
        let token = Token::read(text.as_str().unwrap()).unwrap();
        assert_eq!(token.verdict(&keys), Verdict::Signed, "{algorithm}");
        let claims = token.proven();
        assert_eq!(claims.counts_at(NOW), Ok(()));
        assert_eq!((claims.issuer(), claims.subject()), (ISSUER, "alice"));
        assert!(claims.says("aud", "triage") && claims.says("groups", "support"));
    }
}
