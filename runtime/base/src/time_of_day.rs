//! Times of a day as people write them: `06:30Z`, hours and minutes of UTC (contract/runtime.md section 4).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The pattern of the text, for schemas.
pub const PATTERN: &str = "^([01][0-9]|2[0-3]):[0-5][0-9]Z$";

/// A minute of a day, in UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeOfDay {
    minutes: u16,
}

/// Why a text is none.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a time of the day: write hours and minutes of UTC, such as 06:30Z")]
pub struct ParseError(String);

impl TimeOfDay {
    /// Seconds since midnight, UTC.
    pub const fn seconds(self) -> u32 {
        self.minutes as u32 * 60
    }
}

impl FromStr for TimeOfDay {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let two = |digits: &str| -> Option<u16> {
            let plain = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| plain)
        };
        let parsed = text.strip_suffix('Z').and_then(|time| {
            let (hours, minutes) = time.split_once(':')?;
            let (hours, minutes) = (two(hours)?, two(minutes)?);
            (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
        });
        parsed
            .map(|minutes| Self { minutes })
            .ok_or_else(|| ParseError(crate::text::clip(text, 40)))
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}Z", self.minutes / 60, self.minutes % 60)
    }
}

impl Serialize for TimeOfDay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeOfDay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for TimeOfDay {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TimeOfDay".into()
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
        for (text, seconds) in [("00:00Z", 0), ("06:30Z", 23_400), ("23:59Z", 86_340)] {
            let time: TimeOfDay = serde_json::from_value(text.into()).unwrap();
            assert_eq!(time.seconds(), seconds);
            assert_eq!(serde_json::to_value(time).unwrap(), text);
        }
        for bad in [
            "",
            "06:30",
            "24:00Z",
            "06:60Z",
            "6:30Z",
            "06:3Z",
            "+6:30Z",
            "06:30z",
            "06:30:00Z",
        ] {
            assert!(bad.parse::<TimeOfDay>().is_err(), "{bad}");
        }
    }
}
