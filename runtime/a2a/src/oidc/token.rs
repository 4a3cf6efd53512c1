//! A signed token (RFC 7515, compact; RFC 7519) as its bytes say it, before anybody vouches for it. Strict: what could
//! be read in two ways is not read.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::keys::{Algorithm, KeySet, Verdict};

/// Longer than issuers make them; a head of a request has room for four.
const TOKEN_BYTES: usize = 8 * 1024;
/// A key's name.
const KEY_ID_BYTES: usize = 256;
/// OpenID Connect Core, 2: 255 ASCII characters at most.
const SUBJECT_BYTES: usize = 255;
/// How far two clocks may be apart, in seconds.
const LEEWAY: f64 = 30.0;
/// What a signed token may say that it is (RFC 7519, 5.1; RFC 9068, 2.1): one that was made for another purpose says so.
const TYPES: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

/// Why a token is none, in words that repeat nothing of it.
pub(crate) type Wrong = &'static str;

/// A token that nobody vouched for yet.
#[derive(Debug)]
pub(crate) struct Token<'a> {
    algorithm: Algorithm,
    key_id: Option<String>,
    signed: &'a str,
    signature: Vec<u8>,
    claims: Claims,
}

/// What a token says.
#[derive(Debug)]
pub(crate) struct Claims {
    members: Map<String, Value>,
    issuer: String,
    subject: String,
}

impl<'a> Token<'a> {
    /// Reads what somebody showed.
    pub(crate) fn read(text: &'a str) -> Result<Self, Wrong> {
        if text.len() > TOKEN_BYTES {
            return Err("the token is too long for a signed token");
        }
        let not_signed = "no principal of this agent matches what the Authorization header holds, which is no signed token";
        let (signed, signature) = text.rsplit_once('.').ok_or(not_signed)?;
        let (head, body) = signed.split_once('.').ok_or(not_signed)?;
        let part = |text: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(text).ok();
            bytes.filter(|bytes| !bytes.is_empty()).ok_or(not_signed)
        };
        let signature = part(signature)?;
        let object = |text: &str| {
            let read = serde_json::from_slice::<Members>(&part(text)?);
            read.map(|members| members.0)
                .map_err(|_| "the token holds what is no object, or a name twice")
        };
        let head = object(head)?;
        // Nothing is understood that a token could call critical (RFC 7515, 4.1.11).
        if head.contains_key("crit") {
            return Err("the token asks for an extension");
        }
        let algorithm = head.get("alg").and_then(Value::as_str);
        let algorithm = algorithm
            .and_then(Algorithm::named)
            .ok_or("the token is signed in no way that is taken")?;
        let kind = head.get("typ").map(|kind| kind.as_str().unwrap_or_default());
        if kind.is_some_and(|kind| !TYPES.iter().any(|known| known.eq_ignore_ascii_case(kind))) {
            return Err("the token says that it is for another purpose");
        }
        let key_id = match head.get("kid") {
            None => None,
            Some(Value::String(id)) if id.len() <= KEY_ID_BYTES => Some(id.clone()),
            Some(_) => return Err("the token names its key in no way that is taken"),
        };
        Ok(Self {
            algorithm,
            key_id,
            signed,
            signature,
            claims: Claims::of(object(body)?)?,
        })
    }

    /// What it says, which nobody vouched for.
    pub(crate) const fn unproven(&self) -> &Claims {
        &self.claims
    }

    /// What it says, once its issuer vouches for it.
    pub(crate) fn proven(self) -> Claims {
        self.claims
    }

    /// Whether one of these keys signed it.
    pub(crate) fn verdict(&self, keys: &KeySet) -> Verdict {
        keys.verdict(
            self.key_id.as_deref(),
            self.algorithm,
            self.signed.as_bytes(),
            &self.signature,
        )
    }
}

impl Claims {
    fn of(members: Map<String, Value>) -> Result<Self, Wrong> {
        let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
        let issuer = text("iss").ok_or("the token does not say who made it")?;
        let subject = text("sub")
            .filter(|text| !text.is_empty() && text.len() <= SUBJECT_BYTES)
            .filter(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte)))
            .ok_or("the token does not say whom it is about")?;
        Ok(Self {
            members,
            issuer,
            subject,
        })
    }

    /// `iss`.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// `sub`.
    pub(crate) fn subject(&self) -> &str {
        &self.subject
    }

    /// Whether a claim is this text, or a list of texts that holds it.
    pub(crate) fn says(&self, name: &str, text: &str) -> bool {
        match self.members.get(name) {
            Some(Value::String(said)) => said == text,
            Some(Value::Array(all)) => all.iter().any(|said| said.as_str() == Some(text)),
            _ => false,
        }
    }

    /// Whether it counts at this moment, in seconds of the Unix clock.
    pub(crate) fn counts_at(&self, now: f64) -> Result<(), Wrong> {
        let time = |name: &str| match self.members.get(name) {
            None => Ok(None),
            Some(value) => value
                .as_f64()
                .filter(|seconds| seconds.is_finite())
                .map(Some)
                .ok_or("the token has a time that is no number"),
        };
        let end = time("exp")?.ok_or("the token has no end (exp)")?;
        if now >= end + LEEWAY {
            return Err("the token has expired");
        }
        let begins = [time("nbf")?, time("iat")?];
        if begins.iter().flatten().any(|begin| now < begin - LEEWAY) {
            return Err("the token does not count yet");
        }
        Ok(())
    }

    /// The owner of what its caller makes. Of the issuer the digest, so that the name is short and no issuer can be
    /// chosen whose subjects look like another's.
    pub(crate) fn owner(&self) -> String {
        let issuer = digest(&SHA256, self.issuer.as_bytes());
        let issuer = URL_SAFE_NO_PAD.encode(issuer.as_ref());
        format!("oidc:{issuer}:{}", self.subject)
    }
}

/// An object whose names are different ones: of a name that stands there twice each reader takes another one.
struct Members(Map<String, Value>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Members, A::Error> {
                let mut members = Map::new();
                while let Some((name, value)) = access.next_entry::<String, Value>()? {
                    if members.insert(name, value).is_some() {
                        return Err(A::Error::custom("a name stands there twice"));
                    }
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}
