//! Text of a configuration file into a JSON value, and the short forms of lists into their long ones. A key that is
//! written twice is refused: one of the two would be ignored.

use std::fmt;
use std::path::Path;

use agentd_base::limit::DOCUMENT_BYTES;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::fault::Fault;

/// Deeper values are refused; documents nest half as deep.
const DEPTH: usize = 64;

/// The value of a file's text: JSON by `.json`, YAML by `.yaml` and `.yml`. `name` is how faults call the file.
pub(crate) fn text(name: &str, content: &[u8]) -> Result<Value, Fault> {
    let read = match Path::new(name)
        .extension()
        .and_then(|extension| extension.to_str())
    {
        Some("json") => json,
        Some("yaml" | "yml") => yaml,
        _ => return Err(Fault::new(name, "is neither .json nor .yaml", "name it so")),
    };
    keys(name, content, read)
}

/// The value of a pipe's text, which has no name to say which of the two it is.
pub(crate) fn piped(name: &str, content: &[u8]) -> Result<Value, Fault> {
    keys(name, content, either)
}

fn keys(name: &str, content: &[u8], read: fn(&str) -> Result<Value, String>) -> Result<Value, Fault> {
    let fault = |problem: String, remedy: &str| Err(Fault::new(name, problem, remedy));
    if content.len() > DOCUMENT_BYTES {
        return fault(format!("is larger than {DOCUMENT_BYTES} bytes"), "shorten it");
    }
    let Ok(text) = std::str::from_utf8(content) else {
        return fault("is not UTF-8".into(), "save it as UTF-8");
    };
    // Some editors begin every file with a byte order mark.
    match read(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => fault("is not a set of keys".into(), "write `key: value` pairs"),
        Err(problem) => fault(format!("cannot be read ({problem})"), "mend it there"),
    }
}

/// The value of a variable's or flag's text: JSON or YAML. What is wrong is one line.
pub(crate) fn inline(text: &str) -> Result<Value, String> {
    if text.len() > DOCUMENT_BYTES {
        return Err(format!("is larger than {DOCUMENT_BYTES} bytes"));
    }
    either(text)
}

/// JSON first: what is not JSON may still be YAML, but a key that is written twice is so in both.
fn either(text: &str) -> Result<Value, String> {
    json(text).or_else(|_| yaml(text))
}

fn first_line(problem: &str) -> String {
    agentd_base::text::clip(problem.lines().next().unwrap_or_default(), 160)
}

fn json(text: &str) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    Unique(DEPTH)
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| first_line(&error.to_string()))
}

fn yaml(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str(text).map_err(|error| yaml_fault(&error))
}

/// What is wrong with a YAML text, without the library's advice: nobody here can set its options.
fn yaml_fault(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::{Error, MessageFormatter as _, UserMessageFormatter};
    let error = error.without_snippet();
    let what = match error {
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("?");
            format!("key `{}` is written twice", agentd_base::text::clip(key, 80))
        }
        Error::MultipleDocuments { .. } => "it holds more than one document (`---`)".to_owned(),
        Error::Budget { .. } => "it is too large or too deep".to_owned(),
        other => UserMessageFormatter.format_message(other).into_owned(),
    };
    let place = error
        .location()
        .map(|at| format!(" at line {} column {}", at.line(), at.column()));
    first_line(&what) + &place.unwrap_or_default()
}

/// The long form of a list's short form: a comma-separated text, or bare texts as entries.
pub(crate) fn expand(document: &mut Value) -> Result<(), Fault> {
    if let Some(list) = document.pointer_mut("/intelligence/endpoints") {
        split(list);
        each_text(list, |url| Ok(object([("url", url)])))?;
    }
    if let Some(list) = document.pointer_mut("/mcp/servers") {
        split(list);
        each_text(list, server)?;
        for entry in list.as_array_mut().into_iter().flatten() {
            if let Some(tags @ Value::Array(_)) = entry.get_mut("tags") {
                *tags = Value::Object([("*".to_owned(), tags.take())].into_iter().collect());
            }
        }
    }
    if let Some(list) = document.pointer_mut("/tools/disabled") {
        split(list);
    }
    for path in ["/agent/tools/internal", "/agent/tools/mcp"] {
        if let Some(list) = document.pointer_mut(path) {
            match list.as_str().map(str::trim) {
                Some("all") => *list = vec!["*"].into(),
                Some("none") => *list = Value::Array(Vec::new()),
                _ => split(list),
            }
        }
    }
    Ok(())
}

/// `name=endpoint`.
pub(crate) fn server(text: &str) -> Result<Value, Fault> {
    let (name, endpoint) = text.split_once('=').ok_or_else(|| {
        let problem = "an entry is not name=endpoint";
        Fault::new(
            "mcp.servers",
            problem,
            "write such as fs=https://mcp-fs.example/mcp",
        )
    })?;
    Ok(object([("name", name.trim()), ("endpoint", endpoint.trim())]))
}

fn object<const N: usize>(pairs: [(&str, &str); N]) -> Value {
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), Value::String(value.to_owned())))
        .collect()
}

fn split(list: &mut Value) {
    if let Value::String(text) = list {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        *list = parts.map(|part| Value::String(part.to_owned())).collect();
    }
}

fn each_text(list: &mut Value, long: impl Fn(&str) -> Result<Value, Fault>) -> Result<(), Fault> {
    for item in list.as_array_mut().into_iter().flatten() {
        if let Value::String(text) = item {
            *item = long(text)?;
        }
    }
    Ok(())
}

/// A JSON value with no key twice in one object and no more than so many levels.
struct Unique(usize);

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.0 == 0 {
            return Err(D::Error::custom("nested too deep"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Self(self.0 - 1))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if object.contains_key(&key) {
                let key = agentd_base::text::clip(&key, 80);
                return Err(A::Error::custom(format!("key `{key}` is written twice")));
            }
            object.insert(key, map.next_value_seed(Self(self.0 - 1))?);
        }
        Ok(Value::Object(object))
    }
}
