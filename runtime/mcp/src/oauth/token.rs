//! A token and how long it is good for; what a challenge says is missing. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use secrecy::SecretString;
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
