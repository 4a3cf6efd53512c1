//! Outside bytes that are nearly right: right samples in which something was cut, doubled, nested, made huge or written
//! over. One piece for the harnesses of all crates; `tests/FUZZ.md` says which parser each of them is at.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

/// Nobody may say this: samples have it where a secret stands.
pub const SECRET: &str = "s3cr3t-0f-a-fuzz-h4rness";
/// Whatever came in, an error about it is one line of at most so many characters.
pub const WORDS: usize = 4096;
/// Levels of what is nested too deep.
const DEEP: usize = 10_000;
/// Characters of what is too long.
const LONG: usize = 70_000;

/// So many cases in the normal run of a harness whose cases cost more than others, and as many as `PROPTEST_CASES` says
/// in a long one.
pub fn cases(normal: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(normal),
    }
}

/// Texts that begin, end, nest or name something in one of the formats that are read here.
const TOKENS: &[&str] = &[
    "\0",
    "\r\n",
    "\n\n",
    "\u{feff}",
    "\u{202e}",
    "é",
    "\u{1F600}",
    "%00",
    "%2e%2e%2f",
    "../",
    "%",
    "&",
    "=",
    "?",
    "#",
    "://",
    "@",
    ":",
    ";",
    ",",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    "{}",
    "[]",
    "null",
    "1e999",
    "-0",
    "-1",
    "99999999999999999999",
    "{{secret:",
    "}}",
    "${A",
    "---\n",
    "&a [*a]",
    "<<: *a",
    "!!binary aa",
    "? ",
    "data:",
    "event: x\n",
    "id: \0\n",
    "retry: 99999999999999999999\n",
    "\"id\":null",
    "-----BEGIN CERTIFICATE-----\n",
    "-----END CERTIFICATE-----\n",
    "AAAA",
    "=",
    "v1.",
    "0x",
    "nan",
    "inf",
];

/// JSON that is put in the place of a value. It is text: some of it no value can hold.
fn raw() -> impl Strategy<Value = String> {
    let plain = select(vec![
        "null",
        "true",
        "0",
        "-0",
        "-1",
        "0.5",
        "1e999",
        "-1e400",
        "1e-400",
        "18446744073709551616",
        "-9223372036854775809",
        "9007199254740993",
        "9223372036854775807",
        "\"\"",
        "\" \"",
        "\"0\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\\udfff\\ud800\"",
        "\"\\u202e\"",
        "\"\\r\\nX: y\"",
        "\"../../etc/passwd\"",
        "\"%00\"",
        "\"{{secret:X}}\"",
        "\"${X}\"",
        "\"http://169.254.169.254/\"",
        "\"file:///etc/passwd\"",
        "\"é\"",
        "[]",
        "{}",
        "[null]",
        "[[]]",
        "{\"\":0}",
        "{\"a\":1,\"a\":2}",
        "NaN",
        "'x'",
        "01",
        "",
    ])
    .prop_map(str::to_owned);
    let huge = select(vec![0, 1, 2, 3, 4, 5]).prop_map(|kind| match kind {
        0 => format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP)),
        1 => format!("{}1{}", "{\"a\":".repeat(DEEP), "}".repeat(DEEP)),
        2 => format!("\"{}\"", "x".repeat(LONG)),
        3 => format!("\"{}\"", "\u{1F600}\\n".repeat(LONG / 10)),
        4 => format!("[{}]", vec!["0"; 2000].join(",")),
        _ => "9".repeat(2000),
    });
    prop_oneof![6 => plain, 1 => huge, 2 => value(&["a"]).prop_map(|value| value.to_string())]
}

/// JSON of any shape, with keys that mean something to whoever reads it, and others.
pub fn value(keys: &'static [&'static str]) -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    let key = prop_oneof![4 => select(keys.to_vec()).prop_map(str::to_owned), 1 => ".{0,8}"];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec((key.clone(), inner), 0..6).prop_map(|pairs| pairs.into_iter().collect()),
        ]
    })
    .boxed()
}

/// Bytes in which something was written over, left out, doubled, moved, flipped or cut off.
pub fn changed(samples: Vec<Vec<u8>>) -> BoxedStrategy<Vec<u8>> {
    edited(select(samples), 0..6)
}

/// The same of text: what is no UTF-8 any more is replaced.
pub fn changed_text(samples: &[&str]) -> BoxedStrategy<String> {
    let samples = samples.iter().map(|text| text.as_bytes().to_vec()).collect();
    changed(samples)
        .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .boxed()
}

/// The text of a JSON sample in which values were replaced, keys doubled and members left out; sometimes its bytes were
/// changed too.
pub fn json(samples: Vec<Value>) -> BoxedStrategy<Vec<u8>> {
    let edits = vec((any::<Index>(), 0_u8..4, raw()), 0..4);
    let text = (select(samples), edits).prop_map(|(sample, edits)| {
        let mut sample = sample;
        let mut raws = Vec::new();
        for (place, kind, raw) in edits {
            let mut at = place.index(nodes(&sample));
            edit(&mut sample, &mut at, kind, raw, &mut raws);
        }
        let mut text = sample.to_string();
        for (number, raw) in raws.iter().enumerate() {
            text = text.replacen(&Value::from(mark(number)).to_string(), raw, 1);
        }
        text.into_bytes()
    });
    let text = text.boxed();
    prop_oneof![3 => text.clone(), 1 => edited(text, 1..4)].boxed()
}

/// What is done to bytes that are right.
#[derive(Debug, Clone)]
pub struct Edits(Vec<(Index, usize, Vec<u8>, u8)>);

impl Edits {
    /// Some.
    pub fn any(count: std::ops::Range<usize>) -> BoxedStrategy<Self> {
        let noise = prop_oneof![
            2 => vec(any::<u8>(), 0..8),
            2 => "[-{}\\[\\]&*!|>'\"%@`#:,?~ \t\n$a-z0-9._\\\\]{0,12}".prop_map(String::into_bytes),
            1 => "\\PC{0,6}".prop_map(String::into_bytes),
            4 => select(TOKENS.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
            1 => (select(b"x[{ \0\"9-".to_vec()), select(vec![200_usize, 5_000, DEEP]))
                .prop_map(|(byte, times)| vec![byte; times]),
        ];
        let edit = (any::<Index>(), 0_usize..40, noise, 0_u8..8);
        vec(edit, count).prop_map(Self).boxed()
    }

    /// Whether the bytes stay as they are.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Edits these.
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        for (at, length, noise, kind) in &self.0 {
            let at = at.index(bytes.len() + 1);
            let end = (at + length).min(bytes.len());
            let noise = noise.iter().copied();
            match kind {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
                3 => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << (length % 8);
                    }
                }
                4 => drop(bytes.splice(at..at, noise)),
                _ => drop(bytes.splice(at..end, noise)),
            }
        }
    }
}

fn edited(
    base: impl Strategy<Value = Vec<u8>> + 'static,
    count: std::ops::Range<usize>,
) -> BoxedStrategy<Vec<u8>> {
    (base, Edits::any(count))
        .prop_map(|(mut bytes, edits)| {
            edits.apply(&mut bytes);
            bytes
        })
        .boxed()
}

/// What stands for the raw text of this number until the sample is written.
fn mark(number: usize) -> String {
    format!("\u{E000}{number}")
}

/// How many values there are in a value.
fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(members) => members.values().map(nodes).sum(),
        _ => 0,
    }
}

/// Edits the value that is `at` places on. True when it was here.
fn edit(value: &mut Value, at: &mut usize, kind: u8, raw: String, raws: &mut Vec<String>) -> bool {
    if *at == 0 {
        raws.push(raw);
        *value = mark(raws.len() - 1).into();
        return true;
    }
    *at -= 1;
    match value {
        Value::Array(items) => {
            for index in 0..items.len() {
                if *at == 0 && kind == 1 {
                    items.remove(index);
                    return true;
                }
                if *at == 0 && kind == 2 {
                    let again = items[index].clone();
                    items.insert(index, again);
                    return true;
                }
                if edit(&mut items[index], at, kind, raw.clone(), raws) {
                    return true;
                }
            }
        }
        Value::Object(members) => {
            let keys: Vec<String> = members.keys().cloned().collect();
            for key in keys {
                if *at == 0 && kind == 1 {
                    members.remove(&key);
                    return true;
                }
                let Some(member) = members.get_mut(&key) else {
                    continue;
                };
                if *at == 0 && kind == 2 {
                    // The same key twice, which no value can hold.
                    raws.push(format!("{member},{}:{raw}", Value::from(key.as_str())));
                    *member = mark(raws.len() - 1).into();
                    return true;
                }
                if *at == 0 && kind == 3 {
                    let moved = members.remove(&key).unwrap_or_default();
                    members.insert(raw.chars().take(40).collect(), moved);
                    return true;
                }
                if edit(member, at, kind, raw.clone(), raws) {
                    return true;
                }
            }
        }
        _ => {}
    }
    false
}

/// Panics unless this can be shown to people: something, one line, bounded, and without the secret.
pub fn words(said: &str) {
    let start: String = said.chars().take(200).collect();
    assert!(!said.trim().is_empty(), "an error without words");
    assert!(
        said.chars().count() <= WORDS,
        "{} characters: {start}",
        said.len()
    );
    assert!(!said.contains(SECRET), "the secret is in it: {start}");
    assert!(!said.chars().any(char::is_control), "more than a line: {start:?}");
}

#[cfg(test)]
mod tests {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    use serde_json::json;

    use super::*;

    /// The samples are of use only while most of what comes of them is nearly right, and some of it is not right at all.
    #[test]
    fn of_a_sample_come_readable_and_unreadable_texts() {
        let sample = json!({"a": [1, {"b": "text"}], "c": {"d": null, "e": true}});
        let mut runner = TestRunner::deterministic();
        let strategy = json(vec![sample.clone()]);
        let (mut same, mut read, mut deep, mut twice) = (0, 0, 0, 0);
        for _ in 0..2000 {
            let bytes = strategy.new_tree(&mut runner).unwrap().current();
            match serde_json::from_slice::<Value>(&bytes) {
                Ok(value) if value == sample => same += 1,
                Ok(_) => read += 1,
                Err(error) if error.to_string().contains("recursion") => deep += 1,
                Err(_) => {}
            }
            let text = String::from_utf8_lossy(&bytes);
            twice += usize::from(text.matches("\"c\":").count() > 1);
        }
        assert!(same > 100 && read > 500, "{same} {read}");
        assert!(deep > 10 && twice > 5, "{deep} {twice}");
    }
}
