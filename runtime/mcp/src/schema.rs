//! JSON Schemas of servers, used without trust: nothing is fetched, patterns are matched in linear time, and a schema
//! whose check could take long (references that refer to each other, thousands of rules) is not used. Pure.

use agentd_base::limit::MESSAGE_CHARS;
use agentd_base::text::clip;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

/// Rules of a schema, each counted as often as it is referred to: ten times those of the largest tool we met.
const RULES: usize = 5_000;
/// Levels of a schema, references included. A reference to what it stands in has no end, so it ends here.
const LEVELS: usize = 48;
/// References are followed here alone.
const LOCAL: &str = "#/";
/// References that depend on where they are reached from, and new bases for the others: who checks them well can be
/// made to go round.
const UNUSED: [&str; 4] = ["$dynamicRef", "$recursiveRef", "$id", "id"];

/// Why a schema is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    /// Too many rules, or rules that refer to each other.
    #[error("the schema is too large to be checked")]
    TooLarge,
    /// A reference out of the schema, or of a kind that is not followed.
    #[error("the schema has a reference that is not followed: {0}")]
    Reference(String),
    /// No schema.
    #[error("the schema is none: {0}")]
    Invalid(String),
}

/// A schema that is ready to use.
#[derive(Debug)]
pub(crate) struct Checker(Validator);

impl Checker {
    /// `formats`: whether `format` is a rule or a remark.
    pub(crate) fn of(schema: &Map<String, Value>, formats: bool) -> Result<Self, Unfit> {
        let schema = Value::Object(schema.clone());
        let mut left = RULES;
        weigh(&schema, &schema, 0, &mut left)?;
        let options = jsonschema::options()
            .offline()
            .should_validate_formats(formats)
            .with_pattern_options(PatternOptions::regex());
        options
            .build(&schema)
            .map(Self)
            .map_err(|error| Unfit::Invalid(clip(&error.to_string(), MESSAGE_CHARS)))
    }

    /// What is wrong with a value: the first fault, and where it is. The value itself is not repeated.
    pub(crate) fn fault(&self, value: &Value) -> Option<String> {
        let fault = self.0.validate(value).err()?;
        let place = fault.instance_path().as_str();
        let place = if place.is_empty() { "the value" } else { place };
        Some(clip(&format!("{place}: {}", fault.masked()), MESSAGE_CHARS))
    }
}

/// Counts the rules down.
fn weigh(root: &Value, part: &Value, level: usize, left: &mut usize) -> Result<(), Unfit> {
    if level > LEVELS {
        return Err(Unfit::TooLarge);
    }
    *left = left.checked_sub(1).ok_or(Unfit::TooLarge)?;
    match part {
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| weigh(root, item, level + 1, left)),
        Value::Object(rules) => rules.iter().try_for_each(|(key, rule)| match rule {
            Value::String(to) if key == "$ref" => {
                let unknown = || Unfit::Reference(clip(to, MESSAGE_CHARS));
                let path = if to == "#" {
                    Some("")
                } else {
                    to.strip_prefix('#').filter(|_| to.starts_with(LOCAL))
                };
                let target = root.pointer(path.ok_or_else(unknown)?).ok_or_else(unknown)?;
                weigh(root, target, level + 1, left)
            }
            Value::String(_) if UNUSED.contains(&key.as_str()) => Err(Unfit::Reference(key.clone())),
            rule => weigh(root, rule, level + 1, left),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(schema: Value) -> Result<Checker, Unfit> {
        Checker::of(schema.as_object().unwrap(), false)
    }

    fn fault(schema: Value, value: Value) -> Option<String> {
        of(schema).unwrap().fault(&value)
    }

    #[test]
    fn a_value_fits_or_its_fault_is_named_without_the_value() {
        let schema = json!({"$defs": {"t": {"type": "number"}}, "type": "object", "required": ["t"],
            "properties": {"t": {"$ref": "#/$defs/t"}, "p": {"type": "string", "pattern": "^a+$"}}});
        assert_eq!(fault(schema.clone(), json!({"t": 22.5})), None);
        let wrong = fault(schema.clone(), json!({"t": "secret"})).unwrap();
        assert!(wrong.starts_with("/t: ") && !wrong.contains("secret"), "{wrong}");
        assert!(fault(schema.clone(), json!({"t": 1, "p": "b"})).is_some());
        assert!(fault(schema, json!({})).unwrap().starts_with("the value: "));
    }

    #[test]
    fn nothing_is_fetched_and_nothing_goes_round() {
        for reference in [
            "http://127.0.0.1:1/x",
            "file:///etc/passwd",
            "other.json",
            "#anchor",
            "#/none",
        ] {
            let schema = json!({"properties": {"a": {"$ref": reference}}});
            assert_eq!(of(schema).unwrap_err(), Unfit::Reference(reference.into()));
        }
        for key in UNUSED {
            assert_eq!(of(json!({key: "x"})).unwrap_err(), Unfit::Reference(key.into()));
        }
        let round = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]});
        assert_eq!(of(round).unwrap_err(), Unfit::TooLarge);
        assert_eq!(of(json!({"$ref": "#"})).unwrap_err(), Unfit::TooLarge);
        // Each doubles the one before: a few lines that are millions of rules.
        let mut defs = json!({"d0": {"type": "string"}});
        for level in 1..30 {
            let below = json!({"$ref": format!("#/$defs/d{}", level - 1)});
            defs[format!("d{level}")] = json!({"allOf": [below, below]});
        }
        assert_eq!(
            of(json!({"$defs": defs, "$ref": "#/$defs/d29"})).unwrap_err(),
            Unfit::TooLarge
        );
        let mut deep = json!({"type": "string"});
        for _ in 0..60 {
            deep = json!({"not": deep});
        }
        assert_eq!(of(deep).unwrap_err(), Unfit::TooLarge);
    }

    #[test]
    fn what_is_no_schema_is_not_used() {
        assert!(matches!(of(json!({"type": "nonsense"})), Err(Unfit::Invalid(_))));
        assert!(matches!(of(json!({"pattern": "("})), Err(Unfit::Invalid(_))));
        assert!(matches!(
            of(json!({"$schema": "http://127.0.0.1/x"})),
            Err(Unfit::Invalid(_))
        ));
        assert!(of(json!({})).is_ok());
        assert!(of(json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"})).is_ok());
    }
}
