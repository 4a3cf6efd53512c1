//! SPIFFE IDs and trust domains as types: what parses here obeys the SPIFFE ID specification, and its text is the
//! one that was parsed, byte for byte.

use std::fmt;
use std::str::FromStr;

use agentd_base::class::{Class, Classified};
use agentd_base::text::clip;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest ID (SPIFFE ID specification, 2.4).
pub const MAX_BYTES: usize = 2048;
/// The longest trust domain (the host of a URI).
pub const MAX_TRUST_DOMAIN_BYTES: usize = 255;
const SCHEME: &str = "spiffe://";
/// How much of a wrong text an error shows.
const SHOWN_CHARS: usize = 128;

/// Why a text is no SPIFFE ID or trust domain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not a trust domain.
    #[error("`{0}` is not a trust domain: 1 to 255 characters of a-z, 0-9, `.`, `-` and `_`")]
    TrustDomain(String),
    /// Not the ID of a workload.
    #[error("`{id}` is not a SPIFFE ID: {problem}")]
    Id {
        /// What was given, clipped.
        id: String,
        /// Which rule it breaks.
        problem: &'static str,
    },
}

impl Classified for IdError {
    fn class(&self) -> Class {
        Class::Invalid
    }
}

/// A trust domain: `[a-z0-9._-]`, 1 to 255 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrustDomain(String);

impl TrustDomain {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TrustDomain {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'_');
        if text.is_empty() || text.len() > MAX_TRUST_DOMAIN_BYTES || !text.bytes().all(allowed) {
            return Err(IdError::TrustDomain(clip(text, SHOWN_CHARS)));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The ID of a workload: a trust domain and a path that is not the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpiffeId {
    trust_domain: TrustDomain,
    /// With its leading slash.
    path: String,
}

impl SpiffeId {
    /// `spiffe://<trust domain>/ns/<namespace>/sa/<service account>`: the ID of everything that runs under that
    /// ServiceAccount.
    ///
    /// # Errors
    /// When a name could not be one path segment; a name that Kubernetes accepted always can.
    pub fn of_service_account(
        trust_domain: &TrustDomain,
        namespace: &str,
        service_account: &str,
    ) -> Result<Self, IdError> {
        if namespace.contains('/') || service_account.contains('/') {
            let id = clip(&format!("{namespace}/{service_account}"), SHOWN_CHARS);
            return Err(IdError::Id {
                id,
                problem: "a name in it contains a slash",
            });
        }
        format!("{SCHEME}{trust_domain}/ns/{namespace}/sa/{service_account}").parse()
    }

    /// The trust domain.
    pub fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    /// The path, with its leading slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Namespace and ServiceAccount, where the path has the form `/ns/<namespace>/sa/<service account>`.
    pub fn service_account(&self) -> Option<(&str, &str)> {
        let (namespace, account) = self.path.strip_prefix("/ns/")?.split_once("/sa/")?;
        let plain = |segment: &str| !segment.is_empty() && !segment.contains('/');
        (plain(namespace) && plain(account)).then_some((namespace, account))
    }
}

impl FromStr for SpiffeId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let error = |problem| IdError::Id {
            id: clip(text, SHOWN_CHARS),
            problem,
        };
        if text.len() > MAX_BYTES {
            return Err(error("it is longer than 2048 bytes"));
        }
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| error("it does not begin with `spiffe://`"))?;
        let split = rest.find('/').ok_or_else(|| error("it has no path"))?;
        let (domain, path) = rest
            .split_at_checked(split)
            .ok_or_else(|| error("it has no path"))?;
        let trust_domain = domain.parse().map_err(|_| {
            error("its trust domain is not 1 to 255 characters of a-z, 0-9, `.`, `-` and `_`")
        })?;
        for segment in path.split('/').skip(1) {
            match segment {
                "" => return Err(error("a segment of its path is empty")),
                "." | ".." => return Err(error("a segment of its path is `.` or `..`")),
                _ => {}
            }
            let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
            if !segment.bytes().all(allowed) {
                return Err(error(
                    "its path has characters other than a-z, A-Z, 0-9, `.`, `-` and `_`",
                ));
            }
        }
        Ok(Self {
            trust_domain,
            path: path.to_owned(),
        })
    }
}

impl fmt::Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}{}", self.trust_domain, self.path)
    }
}

impl Serialize for TrustDomain {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl Serialize for SpiffeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TrustDomain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for SpiffeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_refused() {
        let long = format!("spiffe://td/{}", "a".repeat(MAX_BYTES));
        let long_domain = format!("spiffe://{}/a", "a".repeat(256));
        for bad in [
            "",
            "spiffe://",
            "spiffe://td",
            "spiffe://td/",
            "spiffe:///a",
            "spiffe://td/a/",
            "spiffe://td//a",
            "spiffe://td/./a",
            "spiffe://td/a/..",
            "spiffe://TD/a",
            "SPIFFE://td/a",
            "https://td/a",
            "spiffe:/td/a",
            "spiffe://td:80/a",
            "spiffe://user@td/a",
            "spiffe://td/a?q",
            "spiffe://td/a#f",
            "spiffe://td/a%41",
            "spiffe://td/a b",
            "spiffe://td/ä",
            "spiffe://tä/a",
            " spiffe://td/a",
            "spiffe://td/a\n",
            "spiffe://td/a\0",
            "spiffe://td/*",
            &long,
            &long_domain,
        ] {
            assert!(bad.parse::<SpiffeId>().is_err(), "{bad}");
        }
        for bad in ["", "A", "a/b", "a:1", "ä", "spiffe://a", &"a".repeat(256)] {
            assert!(bad.parse::<TrustDomain>().is_err(), "{bad}");
        }
    }

    #[test]
    fn of_a_service_account_and_back() {
        let td: TrustDomain = "k3.agentd.internal".parse().unwrap();
        let id = SpiffeId::of_service_account(&td, "support", "triage-agent").unwrap();
        assert_eq!(
            id.to_string(),
            "spiffe://k3.agentd.internal/ns/support/sa/triage-agent"
        );
        assert_eq!(id.service_account(), Some(("support", "triage-agent")));
        assert_eq!(
            "spiffe://td/ns/a/sa/b/c"
                .parse::<SpiffeId>()
                .unwrap()
                .service_account(),
            None
        );
        for (ns, sa) in [
            ("a/sa/b", "c"),
            ("a", "b/c"),
            ("", "c"),
            ("a", ""),
            ("..", "a"),
            ("a", "."),
        ] {
            assert!(SpiffeId::of_service_account(&td, ns, sa).is_err(), "{ns} {sa}");
        }
    }

    #[test]
    fn serialised_as_its_text_and_checked_on_the_way_in() {
        let id: SpiffeId = "spiffe://td/a".parse().unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), r#""spiffe://td/a""#);
        assert_eq!(
            serde_json::from_str::<SpiffeId>(r#""spiffe://td/a""#).unwrap(),
            id
        );
        assert!(serde_json::from_str::<SpiffeId>(r#""spiffe://td""#).is_err());
        assert!(serde_json::from_str::<TrustDomain>(r#""TD""#).is_err());
    }

    proptest! {
        #[test]
        fn every_id_of_the_grammar_parses_to_its_own_text(
            domain in "[a-z0-9._-]{1,64}",
            segments in prop::collection::vec("[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,20}", 1..8),
        ) {
            let text = format!("spiffe://{domain}/{}", segments.join("/"));
            let id: SpiffeId = text.parse().unwrap();
            prop_assert_eq!(id.to_string(), text);
            prop_assert_eq!(id.trust_domain().as_str(), domain);
            prop_assert_eq!(id.path(), format!("/{}", segments.join("/")));
        }

        #[test]
        fn no_text_panics_and_what_parses_is_unchanged(text in any::<String>()) {
            if let Ok(id) = text.parse::<SpiffeId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }

        #[test]
        fn one_foreign_character_anywhere_is_refused(at in 9usize..30, c in any::<char>()) {
            prop_assume!(!(c.is_ascii_alphanumeric() || "._-/".contains(c)));
            let mut text = "spiffe://example.org/ns/a/sa/b".to_owned();
            text.insert(at.min(text.len()), c);
            prop_assert!(text.parse::<SpiffeId>().is_err());
        }

        #[test]
        fn near_misses_agree_with_a_second_reading(text in "spiffe://[a-zA-Z0-9._:@-]{0,12}(/[a-zA-Z0-9.%_-]{0,3}){0,4}") {
            prop_assert_eq!(text.parse::<SpiffeId>().is_ok(), second_reading(&text));
        }
    }

    /// The grammar once more, written in another way.
    fn second_reading(text: &str) -> bool {
        let mut parts = text.strip_prefix("spiffe://").unwrap().split('/');
        let domain = parts.next().unwrap_or_default();
        let segments: Vec<&str> = parts.collect();
        let domain_ok = !domain.is_empty()
            && domain
                .chars()
                .all(|c| "abcdefghijklmnopqrstuvwxyz0123456789.-_".contains(c));
        domain_ok
            && !segments.is_empty()
            && segments.iter().all(|s| {
                !["", ".", ".."].contains(s)
                    && s.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c))
            })
    }
}
