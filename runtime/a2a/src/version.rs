//! Which version of A2A a request is in. Pure.

use serde::{Deserialize, Serialize};

use crate::wire;

/// A version that is spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// 1.0, on both bindings.
    #[serde(rename = "1.0")]
    One,
    /// 0.3, on JSON-RPC.
    #[serde(rename = "0.3")]
    ZeroThree,
}

impl Version {
    /// As it stands on the wire.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::One => wire::VERSION,
            Self::ZeroThree => wire::VERSION_BEFORE,
        }
    }

    /// The version that a request names, whatever the patch. One that names none is 0.3 (1.0, section 3.6).
    pub(crate) fn of(named: Option<&str>) -> Option<Self> {
        let named = named.map(str::trim).unwrap_or_default();
        if named.is_empty() {
            return Some(Self::ZeroThree);
        }
        [Self::One, Self::ZeroThree].into_iter().find(|version| {
            named.strip_prefix(version.name()).is_some_and(|rest| {
                rest.is_empty()
                    || rest.strip_prefix('.').is_some_and(|patch| {
                        !patch.is_empty() && patch.len() <= 9 && patch.chars().all(|c| c.is_ascii_digit())
                    })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_names() {
        for (named, version) in [
            (Some("1.0"), Some(Version::One)),
            (Some("1.0.7"), Some(Version::One)),
            (Some(" 1.0 "), Some(Version::One)),
            (None, Some(Version::ZeroThree)),
            (Some(""), Some(Version::ZeroThree)),
            (Some(" "), Some(Version::ZeroThree)),
            (Some("0.3"), Some(Version::ZeroThree)),
            (Some("0.3.0"), Some(Version::ZeroThree)),
            (Some("0.2.6"), None),
            (Some("0.30"), None),
            (Some("1"), None),
            (Some("1.1"), None),
            (Some("1.0."), None),
            (Some("1.00"), None),
            (Some("1.0.0123456789"), None),
            (Some("9.9"), None),
            (Some("1.0, 0.3"), None),
        ] {
            assert_eq!(Version::of(named), version, "{named:?}");
        }
    }
}
