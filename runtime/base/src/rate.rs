//! Rates as people write them: `8/2s`, eight at once and eight more every two seconds (contract/runtime.md section 2).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::duration::Duration;

/// The pattern of the text, for schemas.
pub const PATTERN: &str = r"^[1-9][0-9]{0,5}/[0-9]{1,9}(ms|s|m|h|d)$";

/// So many at once, and as many again in each such time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// How many, at least one.
    pub burst: u32,
    /// In how much time, more than none.
    pub per: Duration,
}

/// Why a text is no rate.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a rate: write a number and a time, such as 8/2s")]
pub struct ParseError(String);

impl FromStr for Rate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError(crate::text::clip(text, 40));
        let (burst, per) = text.split_once('/').ok_or_else(error)?;
        let digits = (1..=6).contains(&burst.len()) && burst.bytes().all(|byte| byte.is_ascii_digit());
        let burst: u32 = Some(burst)
            .filter(|_| digits)
            .and_then(|burst| burst.parse().ok())
            .ok_or_else(error)?;
        let per: Duration = per.parse().map_err(|_| error())?;
        if burst == 0 || per.0.is_zero() {
            return Err(error());
        }
        Ok(Self { burst, per })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.burst, self.per)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Rate {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Rate".into()
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
    use super::*;

    #[test]
    fn texts_and_back() {
        let rate: Rate = "8/2s".parse().unwrap();
        assert_eq!(
            rate,
            Rate {
                burst: 8,
                per: Duration::secs(2)
            }
        );
        for text in ["8/2s", "1/250ms", "999999/1d"] {
            let rate: Rate = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(rate).unwrap(), text);
        }
        for bad in [
            "",
            "8",
            "8/",
            "/2s",
            "0/1s",
            "8/0s",
            "-1/1s",
            "+1/1s",
            "1000000/1s",
            "8/2w",
            "8 / 2s",
        ] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }
}
