//! Durations as people write them: `250ms`, `30s`, `5m`, `8h`, `7d`, or bare seconds (contract/runtime.md section 2).

use std::fmt;
use std::str::FromStr;
use std::time::Duration as Std;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The pattern of the string form, for schemas.
pub const PATTERN: &str = r"^[0-9]{1,9}(ms|s|m|h|d)$";

/// A duration with a text form. Deserialises from `"30s"` or from a whole number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub Std);

/// Why a text is no duration.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a duration: write a whole number and a unit, such as 250ms, 30s, 5m, 8h")]
pub struct ParseError(String);

impl Duration {
    /// From whole seconds.
    pub const fn secs(seconds: u64) -> Self {
        Self(Std::from_secs(seconds))
    }
}

impl FromStr for Duration {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError(crate::text::clip(text, 40));
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at_checked(split).ok_or_else(error)?;
        if digits.is_empty() || digits.len() > 9 {
            return Err(error());
        }
        let count: u64 = digits.parse().map_err(|_| error())?;
        let duration = match unit {
            "ms" => Std::from_millis(count),
            "s" | "" => Std::from_secs(count),
            "m" => Std::from_secs(count * 60),
            "h" => Std::from_secs(count * 3600),
            "d" => Std::from_secs(count * 86_400),
            _ => return Err(error()),
        };
        Ok(Self(duration))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        if !millis.is_multiple_of(1000) {
            return write!(f, "{millis}ms");
        }
        let seconds = millis / 1000;
        match seconds {
            0 => write!(f, "0s"),
            // Days too: what is written must be read again, and nine digits of days are eleven of hours.
            s if s % 86_400 == 0 => write!(f, "{}d", s / 86_400),
            s if s % 3600 == 0 => write!(f, "{}h", s / 3600),
            s if s % 60 == 0 => write!(f, "{}m", s / 60),
            s => write!(f, "{s}s"),
        }
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Duration;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as 250ms, 30s, 5m, 8h, or a whole number of seconds")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Duration, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: serde::de::Error>(self, seconds: u64) -> Result<Duration, E> {
                if seconds > 999_999_999 {
                    return Err(E::custom(ParseError(seconds.to_string())));
                }
                Ok(Duration::secs(seconds))
            }
            fn visit_i64<E: serde::de::Error>(self, seconds: i64) -> Result<Duration, E> {
                u64::try_from(seconds)
                    .map_err(|_| E::custom(ParseError(seconds.to_string())))
                    .and_then(|seconds| self.visit_u64(seconds))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl schemars::JsonSchema for Duration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": PATTERN })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_again(text in "[0-9]{1,9}(ms|s|m|h|d)?") {
            let duration: Duration = text.parse().unwrap();
            let written = duration.to_string();
            prop_assert_eq!(written.parse::<Duration>(), Ok(duration), "{} is written as {}", text, written);
            let json = serde_json::to_string(&duration).unwrap();
            prop_assert_eq!(serde_json::from_str::<Duration>(&json).unwrap(), duration);
        }
    }

    #[test]
    fn the_longest_ones_are_read_again() {
        for text in [
            "41666667d",
            "999999999d",
            "999999999h",
            "999999999m",
            "999999999ms",
            "999999999",
        ] {
            let duration: Duration = text.parse().unwrap();
            assert_eq!(duration.to_string().parse(), Ok(duration), "{text}");
        }
    }

    #[test]
    fn texts_and_back() {
        for (text, millis) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("8h", 28_800_000),
        ] {
            let duration: Duration = text.parse().unwrap();
            assert_eq!(duration.0.as_millis(), millis);
            assert_eq!(duration.to_string(), text);
        }
        assert_eq!("24h".parse::<Duration>().unwrap().to_string(), "1d");
        assert_eq!(
            serde_json::from_str::<Duration>("90").unwrap(),
            Duration::secs(90)
        );
        for bad in ["", "s", "-1s", "1w", "1.5s", "ä1s", "9999999999s"] {
            assert!(bad.parse::<Duration>().is_err(), "{bad}");
        }
    }
}
