//! Answers that have to fit a schema: how the JSON is found in what a model wrote, what is wrong with it, and how it is
//! asked again. Pure.

use agentd_base::text::clip;
use agentd_mcp::schema::Checker;
use serde_json::Value;

/// As often a model is asked again before the turn fails.
pub(crate) const RE_ASKS: u32 = 2;
/// A text that is longer is searched at its beginning only.
const SEARCHED_BYTES: usize = 1024 * 1024;
/// Places where a JSON value may begin that are looked at.
const PLACES: usize = 256;
/// Faults that are named.
const FAULTS: usize = 3;
/// One of them.
const FAULT_CHARS: usize = 300;
/// The schema, as it is repeated to the model.
const SCHEMA_CHARS: usize = 16 * 1024;

/// The name of a schema: nothing is read by it here.
const ID: &str = "$id";

/// What an answer has to be. Models write schemas too, so that none is used whose check has no end.
pub(crate) struct Shape {
    schema: Value,
    checker: Checker,
}

impl Shape {
    /// # Errors
    /// What is wrong with the schema, for people.
    pub(crate) fn new(schema: Value) -> Result<Self, String> {
        let unfit = |why: &str| format!("output_schema is no JSON Schema: {}", clip(why, FAULT_CHARS));
        let mut rules = schema
            .as_object()
            .cloned()
            .ok_or_else(|| unfit("it is no object"))?;
        rules.remove(ID);
        let checker = Checker::of(&rules, false).map_err(|why| unfit(&why.to_string()))?;
        Ok(Self { schema, checker })
    }

    /// The value in the text that fits, as JSON; else what is wrong, for the model.
    pub(crate) fn check(&self, text: &str) -> Result<String, String> {
        let mut fault = None;
        for value in self.candidates(text) {
            match self.faults(&value) {
                None => return Ok(value.to_string()),
                // That of the first is of most use: models put the answer before remarks.
                Some(found) => fault = fault.or(Some(found)),
            }
        }
        Err(fault.unwrap_or_else(|| "there is no JSON value in it".to_owned()))
    }

    fn candidates(&self, text: &str) -> Vec<Value> {
        let mut found = found(text);
        // What was asked to be a text is one, also without quotes around it.
        if self.schema.get("type").and_then(Value::as_str) == Some("string") {
            found.push(Value::String(text.trim().to_owned()));
        }
        found
    }

    fn faults(&self, value: &Value) -> Option<String> {
        let faults = self.checker.faults(value, FAULTS, FAULT_CHARS);
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    /// Asks again.
    pub(crate) fn ask_again(&self, fault: &str) -> String {
        format!(
            "Your answer does not fit what was asked for: {fault}\n\nAnswer again, with nothing but one JSON value that \
             fits this schema:\n{}",
            clip(&self.schema.to_string(), SCHEMA_CHARS)
        )
    }
}

/// The JSON values in a text: all of it, else what stands between code fences, else whatever begins like one.
fn found(text: &str) -> Vec<Value> {
    let text = text.trim();
    if let Ok(value) = serde_json::from_str(text) {
        return vec![value];
    }
    let end = text.floor_char_boundary(SEARCHED_BYTES);
    let text = text.get(..end).unwrap_or_default();
    let mut values: Vec<Value> = fenced(text)
        .filter_map(|body| serde_json::from_str(body).ok())
        .collect();
    let mut rest = text;
    for _ in 0..PLACES {
        let Some(begin) = rest.find(['{', '[']) else {
            break;
        };
        rest = rest.get(begin..).unwrap_or_default();
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let step = match stream.next() {
            Some(Ok(value)) => {
                values.push(value);
                stream.byte_offset()
            }
            _ => 1,
        };
        rest = rest.get(step..).unwrap_or_default();
    }
    values
}

/// What stands between lines of three backticks.
fn fenced(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split("```").skip(1).step_by(2);
    parts.map(|part| part.split_once('\n').map_or(part, |(_, body)| body))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shape() -> Shape {
        Shape::new(json!({
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
            "additionalProperties": false,
        }))
        .unwrap()
    }

    #[test]
    fn the_value_is_found_wherever_the_model_put_it() {
        for text in [
            r#"{"n": 1}"#,
            "\n {\"n\":1}\n",
            "```json\n{\"n\": 1}\n```",
            "Here you are:\n```\n{\"n\": 1}\n```\nAnything else?",
            "The answer is {\"n\": 1}, as [1] says.",
            "By [1] and {braces} it is {\"n\": 1}",
            "First {\"x\": 0}, better: {\"n\": 1}",
            "```json\n{\"n\": oops}\n```\n{\"n\": 1}",
        ] {
            assert_eq!(shape().check(text), Ok(r#"{"n":1}"#.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_fault_is_named() {
        for (text, fault) in [
            ("", "there is no JSON value in it"),
            ("I cannot say.", "there is no JSON value in it"),
            ("{\"n\": 1", "there is no JSON value in it"),
            ("{}", "the value: \"n\" is a required property"),
            (
                "```json\n{\"n\": \"1\"}\n```",
                "/n: \"1\" is not of type \"integer\"",
            ),
        ] {
            assert_eq!(shape().check(text), Err(fault.to_owned()), "{text}");
        }
        assert!(shape().ask_again("x").contains("\"required\":[\"n\"]"));
    }

    #[test]
    fn a_text_that_was_asked_for_needs_no_quotes() {
        let text = Shape::new(json!({"type": "string", "maxLength": 5})).unwrap();
        assert_eq!(text.check("\"hi\""), Ok("\"hi\"".to_owned()));
        assert_eq!(text.check(" hi\n"), Ok("\"hi\"".to_owned()));
        assert!(text.check("far too long").is_err());
        let number = Shape::new(json!({"type": "number"})).unwrap();
        assert_eq!(number.check("7"), Ok("7".to_owned()));
    }

    #[test]
    fn a_schema_that_is_none_is_told() {
        let fault = Shape::new(json!({"type": "what"})).err().unwrap();
        assert!(fault.starts_with("output_schema is no JSON Schema: "), "{fault}");
    }

    #[test]
    fn nothing_that_a_model_writes_takes_long_or_ends_us() {
        for text in [
            "[".repeat(2_000_000),
            "{\"a\":[1,".repeat(200_000),
            "ä{".repeat(500_000),
            "```".repeat(100_000),
        ] {
            assert!(shape().check(&text).is_err());
        }
    }
}
