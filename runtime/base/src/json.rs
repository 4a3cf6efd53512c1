//! What a JSON text from a stranger would cost, before anything is built of it, and what is said of one that cannot be
//! read. Pure.

use serde_json::Value;

use crate::text::clip;

/// Of an error's begin, which says what came.
const BEGIN_CHARS: usize = 96;
/// Of its end, which says what was expected, and where.
const END_CHARS: usize = 160;

/// About how many values a JSON text holds, found without building one of them: a value in memory is many times as long
/// as the shortest text of one.
pub fn values(text: &[u8]) -> usize {
    let (mut count, mut quoted, mut escaped) = (0_usize, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b',' | b':' | b'[' | b'{' if !quoted => count = count.saturating_add(1),
            _ => {}
        }
    }
    count
}

/// Why a JSON text cannot be read. The reader repeats a text of the wrong type in whole, which may be a conversation of
/// megabytes: of a long error only its begin and its end are told.
pub fn why(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let count = said.chars().count();
    if count <= BEGIN_CHARS + END_CHARS {
        return clip(&said, BEGIN_CHARS + END_CHARS);
    }
    let begin: String = said.chars().take(BEGIN_CHARS).collect();
    let end: String = said.chars().skip(count - END_CHARS).collect();
    format!("{} … {}", clip(&begin, BEGIN_CHARS), clip(&end, END_CHARS))
}

/// Whether a value has no more than so many levels of lists and objects. It was parsed, so it has some hundred at most;
/// what is kept of it stands deeper in a record than it came, and a record that is too deep can never be read.
#[must_use]
pub fn fits(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| fits(item, levels - 1)),
        Value::Object(object) => levels > 0 && object.values().all(|value| fits(value, levels - 1)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_does_not_repeat_the_whole_text() {
        let error = |text: &str| serde_json::from_str::<u8>(text).unwrap_err();
        assert_eq!(
            why(&error("\"x\"")),
            r#"invalid type: string "x", expected u8 at line 1 column 3"#
        );
        let long = why(&error(&format!("\"{}\"", "x\u{1F600}".repeat(100_000))));
        assert!(long.starts_with("invalid type: string \"x"), "{long}");
        assert!(
            long.ends_with("x\u{1F600}\", expected u8 at line 1 column 500002"),
            "{long}"
        );
        assert!(long.chars().count() < 300, "{long}");
    }

    #[test]
    fn values_are_counted_outside_of_texts() {
        for (text, count) in [
            ("", 0),
            ("7", 0),
            (r#"{"a":[1,2,{}]}"#, 6),
            (r#""[[[,,,:::{{{\"[[[""#, 0),
            (r#"["\\",1]"#, 2),
        ] {
            assert_eq!(values(text.as_bytes()), count, "{text}");
        }
    }
}
