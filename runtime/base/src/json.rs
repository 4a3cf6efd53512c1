//! What a JSON text from a stranger would cost, before anything is built of it. Pure.

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

#[cfg(test)]
mod tests {
    use super::*;

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
