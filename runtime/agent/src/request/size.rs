//! Sizes as people write them: `512M`, `1.5GiB`, or a number of bytes (contract/runtime.md section 2). Multiples are of
//! 1024. Pure.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The pattern of the string form, for schemas.
pub(crate) const PATTERN: &str = r"^[0-9]{1,9}(\.[0-9]{1,3})?(K|M|G|KiB|MiB|GiB)$";

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    fn parse(text: &str) -> Option<Self> {
        let split = text.find(|c: char| c.is_ascii_alphabetic())?;
        let (number, unit) = text.split_at_checked(split)?;
        let shift = match unit {
            "K" | "KiB" => 10,
            "M" | "MiB" => 20,
            "G" | "GiB" => 30,
            _ => return None,
        };
        let (whole, part) = match number.split_once('.') {
            Some((_, "")) => return None,
            Some(split) => split,
            None => (number, "0"),
        };
        let digits = |text: &str, most: usize| {
            let fits = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
            fits.then(|| text.parse::<u64>().ok()).flatten()
        };
        let (whole, thousandths) = (digits(whole, 9)?, digits(&format!("{part:0<3}"), 3)?);
        let unit = 1_u64 << shift;
        Some(Self(
            whole.checked_mul(unit)?.checked_add(unit * thousandths / 1000)?,
        ))
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as 512M, 1.5GiB, or a number of bytes")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Size, E> {
                Size::parse(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
            fn visit_u64<E: serde::de::Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (written, bytes) in [
            (json!("512M"), Some(512 << 20)),
            (json!("1.5GiB"), Some(3 << 29)),
            (json!("2.125K"), Some(2176)),
            (json!("0K"), Some(0)),
            (json!(7), Some(7)),
            (json!("7"), None),
            (json!("M"), None),
            (json!(".5M"), None),
            (json!("1.M"), None),
            (json!("1.0001M"), None),
            (json!("-1M"), None),
            (json!("1T"), None),
            (json!("ä1M"), None),
            (json!(-1), None),
        ] {
            let read = serde_json::from_value::<Size>(written.clone()).ok();
            assert_eq!(read, bytes.map(Size), "{written}");
        }
    }
}
