//! Puts a server's question to the person at the terminal, when there is one: stdin and stdout belong to the command's
//! data. Without a terminal nobody said anything.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};

use agentd_mcp::{Answer, Ask, Elicitor, Question};
use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::commands::table::clean;

const TERMINAL: &str = "/dev/tty";
/// Tries at one value.
const TRIES: usize = 3;

/// See the module.
pub(super) struct Terminal;

#[async_trait]
impl Elicitor for Terminal {
    async fn ask(&self, question: Question) -> Answer {
        // Its own thread: who waits for a person must not keep the connection from being answered.
        let asked = tokio::task::spawn_blocking(move || {
            let Ok(terminal) = OpenOptions::new().read(true).write(true).open(TERMINAL) else {
                return Answer::Cancel;
            };
            // An end of the terminal in the middle is no answer.
            converse(terminal, &question).unwrap_or(Answer::Cancel)
        });
        asked.await.unwrap_or(Answer::Cancel)
    }
}

fn converse(mut terminal: File, question: &Question) -> std::io::Result<Answer> {
    let mut lines = BufReader::new(terminal.try_clone()?).lines();
    let mut ask = |terminal: &mut File, prompt: &str| -> std::io::Result<Option<String>> {
        terminal.write_all(prompt.as_bytes())?;
        terminal.flush()?;
        lines.next().transpose()
    };
    let Ask::Form { schema } = &question.ask else {
        // Such questions are not declared here.
        return Ok(Answer::Cancel);
    };
    let words = format!(
        "\n{} asks: {}\nAnswer? [y]es, [d]ecline, [c]ancel: ",
        clean(&question.server),
        clean(&question.message)
    );
    match ask(&mut terminal, &words)?.as_deref().map(str::trim) {
        Some("y" | "yes") => {}
        Some("d" | "decline") => return Ok(Answer::Decline),
        _ => return Ok(Answer::Cancel),
    }
    let mut values = Map::new();
    for field in fields(schema) {
        let mut tries = 0..TRIES;
        let value = loop {
            if tries.next().is_none() {
                return Ok(Answer::Cancel);
            }
            let Some(line) = ask(&mut terminal, &field.prompt())? else {
                return Ok(Answer::Cancel);
            };
            match field.value(line.trim()) {
                Ok(value) => break value,
                Err(problem) => writeln!(terminal, "{problem}")?,
            }
        };
        if let Some(value) = value {
            values.insert(field.name, value);
        }
    }
    Ok(Answer::Accept(values))
}

/// One value that is asked for.
#[derive(Debug, Clone, PartialEq)]
struct Field {
    name: String,
    label: String,
    kind: Kind,
    required: bool,
    has_default: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Text,
    Number,
    Integer,
    Boolean,
    Choice(Vec<String>),
    Choices(Vec<String>),
}

/// The properties of a flat object, in the server's order.
fn fields(schema: &Value) -> Vec<Field> {
    let required: Vec<&str> = strings(schema.get("required"));
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .map(|(name, property)| Field {
            name: name.clone(),
            label: property
                .get("title")
                .or_else(|| property.get("description"))
                .and_then(Value::as_str)
                .unwrap_or(name)
                .to_owned(),
            kind: kind(property),
            required: required.contains(&name.as_str()),
            has_default: property.get("default").is_some(),
        })
        .collect()
}

fn kind(property: &Value) -> Kind {
    let choices = choices(property);
    match property.get("type").and_then(Value::as_str) {
        Some("number") => Kind::Number,
        Some("integer") => Kind::Integer,
        Some("boolean") => Kind::Boolean,
        Some("array") => Kind::Choices(property.get("items").map(self::choices).unwrap_or_default()),
        _ if choices.is_empty() => Kind::Text,
        _ => Kind::Choice(choices),
    }
}

/// `enum`, or `oneOf` or `anyOf` of constants.
fn choices(property: &Value) -> Vec<String> {
    let constants = ["oneOf", "anyOf"]
        .iter()
        .find_map(|key| property.get(*key)?.as_array());
    match constants {
        Some(options) => options
            .iter()
            .filter_map(|option| option.get("const")?.as_str().map(str::to_owned))
            .collect(),
        None => strings(property.get("enum"))
            .into_iter()
            .map(str::to_owned)
            .collect(),
    }
}

fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

impl Field {
    fn prompt(&self) -> String {
        let kind = match &self.kind {
            Kind::Text => "text".to_owned(),
            Kind::Number => "number".to_owned(),
            Kind::Integer => "whole number".to_owned(),
            Kind::Boolean => "yes or no".to_owned(),
            Kind::Choice(options) => format!("one of {}", options.join(", ")),
            Kind::Choices(options) => format!("some of {}, with commas", options.join(", ")),
        };
        let empty = match (self.has_default, self.required) {
            (true, _) => "; empty: the default",
            (false, true) => "",
            (false, false) => "; may be empty",
        };
        clean(&format!("{} ({kind}{empty}): ", self.label))
    }

    /// What was typed, as the schema wants it. Nothing is left out, so that a default can stand in.
    fn value(&self, line: &str) -> Result<Option<Value>, String> {
        if line.is_empty() && (self.has_default || !self.required) {
            return Ok(None);
        }
        let value = match &self.kind {
            Kind::Text => Some(Value::from(line)),
            Kind::Number => line.parse::<serde_json::Number>().ok().map(Value::Number),
            Kind::Integer => line.parse::<i64>().ok().map(Value::from),
            Kind::Boolean => match line.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => Some(Value::Bool(true)),
                "n" | "no" | "false" => Some(Value::Bool(false)),
                _ => None,
            },
            Kind::Choice(options) => options
                .iter()
                .any(|option| option == line)
                .then(|| Value::from(line)),
            Kind::Choices(options) => {
                let chosen: Vec<&str> = line
                    .split(',')
                    .map(str::trim)
                    .filter(|word| !word.is_empty())
                    .collect();
                chosen
                    .iter()
                    .all(|word| options.iter().any(|option| option == word))
                    .then(|| Value::from(chosen))
            }
        };
        value.map(Some).ok_or_else(|| "That is none.".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_typed_becomes_what_the_form_wants() {
        let schema = json!({ "type": "object", "required": ["name", "age"], "properties": {
            "name": { "type": "string", "title": "Your\u{7} name" },
            "age": { "type": "integer" },
            "share": { "type": "number", "default": 0.5 },
            "ok": { "type": "boolean" },
            "colour": { "type": "string", "oneOf": [{ "const": "red" }, { "const": "blue" }] },
            "size": { "type": "string", "enum": ["s", "m"] },
            "tags": { "type": "array", "items": { "anyOf": [{ "const": "a" }, { "const": "b" }] } },
        }});
        let fields = fields(&schema);
        let prompts: Vec<String> = fields.iter().map(Field::prompt).collect();
        assert_eq!(
            prompts,
            [
                "Your\\u{7} name (text): ",
                "age (whole number): ",
                "share (number; empty: the default): ",
                "ok (yes or no; may be empty): ",
                "colour (one of red, blue; may be empty): ",
                "size (one of s, m; may be empty): ",
                "tags (some of a, b, with commas; may be empty): ",
            ]
        );
        for (index, line, expected) in [
            (0, "Ada", Ok(Some(json!("Ada")))),
            (0, "", Ok(Some(json!("")))),
            (1, "12", Ok(Some(json!(12)))),
            (1, "1.5", Err(())),
            (1, "", Err(())),
            (2, "0.25", Ok(Some(json!(0.25)))),
            (2, "", Ok(None)),
            (3, "Yes", Ok(Some(json!(true)))),
            (3, "no", Ok(Some(json!(false)))),
            (3, "perhaps", Err(())),
            (4, "blue", Ok(Some(json!("blue")))),
            (4, "green", Err(())),
            (5, "m", Ok(Some(json!("m")))),
            (6, "a, b", Ok(Some(json!(["a", "b"])))),
            (6, "c", Err(())),
        ] {
            let value = fields[index].value(line).map_err(drop);
            assert_eq!(value, expected, "{index} {line}");
        }
    }
}
