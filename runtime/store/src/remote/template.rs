//! Templates of requests and pointers into answers. Pure.

use serde_json::{Map, Value};

/// What placeholders stand for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Values<'a> {
    pub(super) key: Option<&'a str>,
    pub(super) seq: Option<u64>,
    pub(super) value: Option<&'a str>,
    pub(super) prefix: Option<&'a str>,
    pub(super) after: Option<&'a str>,
}

/// How a value is written into a text.
pub(super) type Escape = fn(&str) -> String;

impl Values<'_> {
    /// What a placeholder stands for; `None` for a name that is none.
    fn of(&self, name: &str) -> Option<Value> {
        let text = |text: Option<&str>| text.map_or(Value::Null, Into::into);
        Some(match name {
            "key" => text(self.key),
            "value" => text(self.value),
            "prefix" => text(self.prefix),
            "after" => text(self.after),
            "seq" => self.seq.map_or(Value::Null, Into::into),
            "previous" => self.seq.map_or(Value::Null, |seq| seq.saturating_sub(1).into()),
            _ => return None,
        })
    }

    /// JSON whose strings may hold placeholders. A string that is exactly one becomes its value; a member whose value
    /// there is none of is left out.
    pub(super) fn fill(&self, template: &Value) -> Value {
        match template {
            Value::String(text) => self
                .only(text)
                .unwrap_or_else(|| self.text(text, str::to_owned).into()),
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(members) => {
                let filled = members
                    .iter()
                    .map(|(name, value)| (name, value, self.fill(value)));
                let there = filled.filter(|(_, before, after)| before.is_null() || !after.is_null());
                let there = there.map(|(name, _, after)| (name.clone(), after));
                Value::Object(there.collect::<Map<_, _>>())
            }
            other => other.clone(),
        }
    }

    fn only(&self, text: &str) -> Option<Value> {
        let name = text.strip_prefix("{{")?.strip_suffix("}}")?;
        self.of(name.trim())
    }

    /// A text with placeholders; what is none of them stays as it is.
    pub(super) fn text(&self, template: &str, escape: Escape) -> String {
        let (mut filled, mut rest) = (String::new(), template);
        while let Some((before, after)) = rest.split_once("{{") {
            filled.push_str(before);
            let value = after
                .split_once("}}")
                .and_then(|(name, tail)| Some((self.of(name.trim())?, tail)));
            match value {
                Some((value, tail)) => {
                    match value {
                        Value::Null => {}
                        Value::String(text) => filled.push_str(&escape(&text)),
                        other => filled.push_str(&other.to_string()),
                    }
                    rest = tail;
                }
                None => {
                    filled.push_str("{{");
                    rest = after;
                }
            }
        }
        filled.push_str(rest);
        filled
    }
}

/// The stored text in an answer: a text, or JSON that the server keeps as such.
pub(super) fn text_at(answer: &Value, pointer: &str) -> Option<String> {
    match answer.pointer(pointer)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// The keys in an answer; `None` when there is no list of texts.
pub(super) fn keys_at(answer: &Value, pointer: &str) -> Option<Vec<String>> {
    let keys = answer.pointer(pointer)?.as_array()?;
    keys.iter().map(|key| key.as_str().map(str::to_owned)).collect()
}

/// For a path: a key keeps its slashes, and a `%` of ours is one that the server shall see.
pub(super) fn in_path(text: &str) -> String {
    escaped(text, b"/-_~.")
}

/// For a query.
pub(super) fn in_query(text: &str) -> String {
    escaped(text, b"-_~.")
}

fn escaped(text: &str, kept: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_placeholder_alone_keeps_its_type_and_one_in_a_text_is_text() {
        let values = Values {
            key: Some("a/b%20c"),
            seq: Some(7),
            value: Some("{\"v\":1}"),
            ..Values::default()
        };
        let template = json!({
            "key": "{{key}}", "n": "{{ seq }}", "was": ["{{previous}}"], "text": "k={{key}} v={{value}} {{other}} {{",
            "after": "{{after}}", "fixed": null, "deep": { "after": "{{after}}", "flag": true },
        });
        assert_eq!(
            values.fill(&template),
            json!({
                "key": "a/b%20c", "n": 7, "was": [6], "text": "k=a/b%20c v={\"v\":1} {{other}} {{",
                "fixed": null, "deep": { "flag": true },
            })
        );
        assert_eq!(
            values.text("/x/{{key}}?s={{seq}}&a={{after}}", in_path),
            "/x/a/b%2520c?s=7&a="
        );
        assert_eq!(values.text("?k={{key}}", in_query), "?k=a%2Fb%2520c");
    }

    #[test]
    fn an_answer_is_read_where_the_pointer_says() {
        let answer =
            json!({ "value": "text", "none": null, "own": { "v": 1 }, "keys": ["a"], "odd": ["a", 1] });
        for (pointer, expected) in [
            ("/value", Some("text")),
            ("/none", None),
            ("/x", None),
            ("/own", Some("{\"v\":1}")),
        ] {
            assert_eq!(text_at(&answer, pointer).as_deref(), expected);
        }
        assert_eq!(keys_at(&answer, "/keys"), Some(vec!["a".to_owned()]));
        assert_eq!(
            (keys_at(&answer, "/odd"), keys_at(&answer, "/value")),
            (None, None)
        );
    }
}
