//! JSON Schemas of servers and models, used without trust: nothing is fetched, patterns are matched in linear time, and a schema
//! whose check could take long (references that refer to each other, thousands of rules) is not used. Pure.

use agentd_base::limit::MESSAGE_CHARS;
use agentd_base::text::clip;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

/// Rules of a schema, each counted as often as it is referred to: ten times those of the largest tool we met.
const RULES: usize = 5_000;
/// Patterns of a schema, how long they are together, and what each may become: compiling one costs up to a thousand times
/// what it costs to write it.
const PATTERNS: usize = 64;
const PATTERN_BYTES: usize = 8 * 1024;
const COMPILED_BYTES: usize = 256 * 1024;
/// Levels of a schema, references included. A reference to what it stands in has no end, so it ends here.
const LEVELS: usize = 48;
/// References are followed here alone.
const LOCAL: &str = "#/";
/// References that depend on where they are reached from, and new bases for the others: who checks them well can be
/// made to go round.
const UNUSED: [&str; 4] = ["$dynamicRef", "$recursiveRef", "$id", "id"];

/// Why a schema is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
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
pub struct Checker(Validator);

impl Checker {
    /// `formats`: whether `format` is a rule or a remark.
    ///
    /// # Errors
    /// See [`Unfit`].
    pub fn of(schema: &Map<String, Value>, formats: bool) -> Result<Self, Unfit> {
        let schema = Value::Object(schema.clone());
        let mut left = Left {
            rules: RULES,
            patterns: PATTERNS,
            bytes: PATTERN_BYTES,
        };
        weigh(&schema, &schema, 0, &mut left)?;
        let options = jsonschema::options()
            .offline()
            .should_validate_formats(formats)
            .with_pattern_options(PatternOptions::regex().size_limit(COMPILED_BYTES));
        options
            .build(&schema)
            .map(Self)
            .map_err(|error| Unfit::Invalid(clip(&error.to_string(), MESSAGE_CHARS)))
    }

    /// What is wrong with a value: the first fault, and where it is. The value itself is not repeated.
    pub fn fault(&self, value: &Value) -> Option<String> {
        let fault = self.0.validate(value).err()?;
        let place = fault.instance_path().as_str();
        let place = if place.is_empty() { "the value" } else { place };
        Some(clip(&format!("{place}: {}", fault.masked()), MESSAGE_CHARS))
    }

    /// At most so many faults of a value, which are of as many characters each and repeat of the value what they are about.
    pub fn faults(&self, value: &Value, most: usize, characters: usize) -> Vec<String> {
        let faults = self.0.iter_errors(value).take(most);
        let told = faults.map(|fault| {
            let place = fault.instance_path().as_str();
            let place = if place.is_empty() { "the value" } else { place };
            clip(&format!("{place}: {fault}"), characters)
        });
        told.collect()
    }
}

/// What a schema may still have.
struct Left {
    rules: usize,
    patterns: usize,
    bytes: usize,
}

impl Left {
    fn rule(&mut self) -> Result<(), Unfit> {
        self.rules = self.rules.checked_sub(1).ok_or(Unfit::TooLarge)?;
        Ok(())
    }

    fn pattern(&mut self, pattern: &str) -> Result<(), Unfit> {
        self.patterns = self.patterns.checked_sub(1).ok_or(Unfit::TooLarge)?;
        self.bytes = self.bytes.checked_sub(pattern.len()).ok_or(Unfit::TooLarge)?;
        Ok(())
    }
}

/// Counts down what there is.
fn weigh(root: &Value, part: &Value, level: usize, left: &mut Left) -> Result<(), Unfit> {
    if level > LEVELS {
        return Err(Unfit::TooLarge);
    }
    left.rule()?;
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
            Value::String(pattern) if key == "pattern" => left.rule().and(left.pattern(pattern)),
            Value::Object(patterns) if key == "patternProperties" => {
                left.rule()?;
                patterns.iter().try_for_each(|(pattern, rule)| {
                    left.pattern(pattern)?;
                    weigh(root, rule, level + 2, left)
                })
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
    fn m22_patterns_are_few_and_small() {
        let many = |count: usize, pattern: &str| -> Map<String, Value> {
            (0..count)
                .map(|n| (format!("p{n}"), json!({"type": "string", "pattern": pattern})))
                .collect()
        };
        let properties = |count, pattern: &str| of(json!({"properties": many(count, pattern)}));
        assert!(properties(PATTERNS, "^a{1,50}$").is_ok());
        assert_eq!(properties(PATTERNS + 1, "a").unwrap_err(), Unfit::TooLarge);
        let long = "a".repeat(PATTERN_BYTES / PATTERNS + 1);
        assert_eq!(properties(PATTERNS, &long).unwrap_err(), Unfit::TooLarge);
        // Few characters that are megabytes once compiled.
        assert!(matches!(
            properties(1, r"(?:\p{L}a|\p{N}b){200}c"),
            Err(Unfit::Invalid(_))
        ));
        let keys: Map<String, Value> = (0..=PATTERNS).map(|n| (format!("^x{n}"), json!({}))).collect();
        assert_eq!(
            of(json!({"patternProperties": keys})).unwrap_err(),
            Unfit::TooLarge
        );
        // The same one, referred to often.
        let refs = json!({"$defs": {"p": {"pattern": "a"}}, "allOf": vec![json!({"$ref": "#/$defs/p"}); PATTERNS + 1]});
        assert_eq!(of(refs).unwrap_err(), Unfit::TooLarge);
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
