//! A token and how long it is good for; what a challenge says is missing. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use agentd_base::text::clip;
use oauth2::basic::BasicTokenType;
use secrecy::SecretString;
use serde_json::{Map, Value};
use tokio::time::Instant;

/// A token is renewed this long before it runs out, or at half its life where that is less.
const MARGIN: Duration = Duration::from_secs(30);
/// After a failed renewal of a token that still is good.
const AGAIN: Duration = Duration::from_secs(5);
/// Longer lives are not believed, and could not be added to a clock.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
/// Scopes of one challenge.
const SCOPES: usize = 64;

/// What an authorization server gave.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    pub(crate) token: SecretString,
    /// Absent: until the server refuses it.
    pub(crate) lives: Option<Duration>,
    /// What was asked for and what was granted. Asking for the same again brings nothing.
    pub(crate) scopes: BTreeSet<String>,
}

/// A token that is in use.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) token: SecretString,
    pub(crate) scopes: BTreeSet<String>,
    pub(crate) number: u64,
    renew: Option<Instant>,
    ends: Option<Instant>,
}

/// Whether a token can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    Fresh,
    /// It still is good, and it is time for the next.
    Due,
    Over,
}

impl Kept {
    pub(crate) fn new(granted: Granted, number: u64, now: Instant) -> Self {
        let lives = granted.lives.map(|lives| lives.min(LONGEST));
        Self {
            token: granted.token,
            scopes: granted.scopes,
            number,
            renew: lives.map(|lives| now + (lives - MARGIN.min(lives / 2))),
            ends: lives.map(|lives| now + lives),
        }
    }

    pub(crate) fn freshness(&self, now: Instant) -> Freshness {
        match (self.renew, self.ends) {
            (_, Some(ends)) if now >= ends => Freshness::Over,
            (Some(renew), _) if now >= renew => Freshness::Due,
            _ => Freshness::Fresh,
        }
    }

    /// The next renewal is not tried with every request.
    pub(crate) fn postpone(&mut self, now: Instant) {
        self.renew = Some(now + AGAIN);
    }
}

/// A token of another kind needs a proof of ours beside it, which there is not. The error is what it is.
pub(super) fn bearer_only(kind: &BasicTokenType) -> Result<(), String> {
    match kind {
        BasicTokenType::Bearer => Ok(()),
        other => {
            let kind = clip(other.as_ref(), 64);
            Err(format!(
                "a token of the type {kind}, and only Bearer can be used here"
            ))
        }
    }
}

/// A token's answer as the SDK can read it, which takes one whole or not at all; `None` where it can as it is. A lifetime
/// that is none is left out: the token is good until it is refused.
pub(super) fn mended(body: &[u8]) -> Option<Vec<u8>> {
    let mut answer: Map<String, Value> = serde_json::from_slice(body).ok()?;
    if !answer.contains_key("access_token") {
        return None;
    }
    let before = answer.clone();
    if let Some(lives) = answer.remove("expires_in").as_ref().and_then(seconds) {
        answer.insert("expires_in".to_owned(), lives.into());
    }
    let words = |names: &Vec<Value>| {
        names
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" ")
    };
    match answer.get("scope") {
        Some(Value::Array(names)) => drop(answer.insert("scope".to_owned(), words(names).into())),
        Some(Value::Null) => drop(answer.remove("scope")),
        _ => {}
    }
    answer.entry("token_type").or_insert_with(|| "Bearer".into());
    (answer != before)
        .then(|| serde_json::to_vec(&answer).ok())
        .flatten()
}

/// Whole seconds of a life, however they are written.
fn seconds(value: &Value) -> Option<u64> {
    let seconds = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse::<f64>().ok(),
        _ => None,
    };
    let seconds = seconds.filter(|seconds| *seconds >= 1.0)?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).as_secs())
}

/// The scopes that `insufficient_scope` names (RFC 6750 section 3.1); `None` where the refusal is about something else
/// or names none.
pub(crate) fn missing_scopes(challenge: &str) -> Option<BTreeSet<String>> {
    let insufficient = parameter(challenge, "error").is_some_and(|error| error == "insufficient_scope");
    let scopes = parameter(challenge, "scope").filter(|_| insufficient)?;
    let scopes: BTreeSet<_> = scopes
        .split_ascii_whitespace()
        .take(SCOPES)
        .map(str::to_owned)
        .collect();
    (!scopes.is_empty()).then_some(scopes)
}

/// The value of a parameter (RFC 9110 section 11.2), without its quotes.
pub(super) fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    loop {
        let (before, after) = rest.split_once('=')?;
        let found = before
            .rsplit([' ', ',', '\t'])
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case(name));
        let (value, left) = match after.strip_prefix('"') {
            None => {
                let end = after.find([',', ' ', '\t']).unwrap_or(after.len());
                let (value, left) = after.split_at_checked(end)?;
                (value.to_owned(), left)
            }
            Some(quoted) => quoted_value(quoted)?,
        };
        if found {
            return Some(value);
        }
        rest = left;
    }
}

/// A quoted string whose first quote is gone, and what follows its last one.
fn quoted_value(text: &str) -> Option<(String, &str)> {
    let (mut value, mut escaped) = (String::new(), false);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            _ if escaped => {
                value.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return Some((value, characters.as_str())),
            _ => value.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kept(lives: Option<u64>, now: Instant) -> Kept {
        let granted = Granted {
            token: "token".into(),
            lives: lives.map(Duration::from_secs),
            scopes: BTreeSet::new(),
        };
        Kept::new(granted, 1, now)
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_before_its_end() {
        let now = Instant::now();
        let after = |kept: &Kept, seconds| kept.freshness(now + Duration::from_secs(seconds));
        for (lives, fresh, due, over) in [(3600, 3569, 3570, 3600), (10, 4, 5, 10), (60, 29, 30, 60)] {
            let kept = kept(Some(lives), now);
            assert_eq!(after(&kept, fresh), Freshness::Fresh, "{lives}");
            assert_eq!(after(&kept, due), Freshness::Due, "{lives}");
            assert_eq!(after(&kept, over), Freshness::Over, "{lives}");
        }
        assert_eq!(after(&kept(None, now), 1_000_000), Freshness::Fresh);
        assert_eq!(after(&kept(Some(0), now), 0), Freshness::Over);
        assert_eq!(after(&kept(Some(u64::MAX), now), 1_000_000), Freshness::Fresh);
        let mut kept = kept(Some(60), now);
        kept.postpone(now + Duration::from_secs(40));
        assert_eq!(after(&kept, 44), Freshness::Fresh);
        assert_eq!(after(&kept, 45), Freshness::Due);
        kept.postpone(now + Duration::from_secs(58));
        assert_eq!(after(&kept, 60), Freshness::Over);
    }

    #[test]
    fn m36_a_lifetime_is_read_however_it_is_written_or_there_is_none() {
        let mended = |answer: Value| -> Value {
            let body = answer.to_string();
            super::mended(body.as_bytes()).map_or(answer, |body| serde_json::from_slice(&body).unwrap())
        };
        let token = |lives: Value| json!({"access_token": "t", "token_type": "bearer", "expires_in": lives});
        for (said, lives) in [
            (json!(3600), json!(3600)),
            (json!("3600"), json!(3600)),
            (json!(" 3600.9 "), json!(3600)),
            (json!(3600.5), json!(3600)),
            (json!(1e300), json!(LONGEST.as_secs())),
        ] {
            assert_eq!(mended(token(said)), token(lives));
        }
        let endless = json!({"access_token": "t", "token_type": "bearer"});
        for said in [
            json!(-1),
            json!("-60"),
            json!(0),
            json!("soon"),
            json!(null),
            json!([]),
            json!("NaN"),
            json!(true),
        ] {
            assert_eq!(mended(token(said)), endless);
        }
        assert_eq!(
            mended(json!({"access_token": "t", "scope": ["a", "b", 7]})),
            json!({"access_token": "t", "token_type": "Bearer", "scope": "a b"})
        );
        for other in [json!({"expires_in": "x"}), json!([1]), json!("x")] {
            assert_eq!(mended(other.clone()), other);
        }
    }

    #[test]
    fn what_is_missing() {
        let scopes = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        for (challenge, expected) in [
            (
                r#"Bearer error="insufficient_scope", scope="a b""#,
                scopes(&["a", "b"]),
            ),
            (r#"bearer scope=a, ERROR=insufficient_scope"#, scopes(&["a"])),
            (
                r#"Basic realm="x, scope=\"no\"", Bearer error_description="error=\"x\"", error="insufficient_scope", scope="a""#,
                scopes(&["a"]),
            ),
            (r#"Bearer error="insufficient_scope""#, None),
            (r#"Bearer error="insufficient_scope", scope="""#, None),
            (r#"Bearer error="invalid_token", scope="a""#, None),
            (r#"Bearer error="insufficient_scope", scope="a"#, None),
            ("Bearer", None),
            ("", None),
        ] {
            assert_eq!(missing_scopes(challenge), expected, "{challenge}");
        }
    }
}
