//! What models and servers write into a turn, whatever it is: answers that have to fit a schema, contents of resources,
//! references to skills and lists of them, and what is restored of a stored conversation.

use agentd_mcp::{Content, Prompt, Resource};
use agentd_noise::{changed_text, json, value, words};
use proptest::prelude::*;
use serde_json::{Value, json as object};

use crate::answer::Shape;
use crate::offer::ServerOffer;
use crate::reading;
use crate::skills::{Settings, Skills, Source, of, references};

/// Names that mean something in a schema.
const RULES: &[&str] = &[
    "type",
    "properties",
    "items",
    "enum",
    "const",
    "pattern",
    "$ref",
    "$defs",
    "allOf",
    "anyOf",
    "not",
    "required",
    "n",
];

const ANSWERS: &[&str] = &[
    "{\"n\": 1}",
    "Here you are:\n```json\n{\"n\": 1, \"s\": \"a\"}\n```\nAnything else? [1] {braces}",
    "[[{\"n\": [\"[\", \"{\"]}]] and {\"n\": 7}",
    "7",
];

fn schema() -> Value {
    object!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://x/s", "type": "object",
        "$defs": {"t": {"type": "integer"}}, "required": ["n"],
        "properties": {"n": {"$ref": "#/$defs/t"}, "s": {"type": "string", "pattern": "^a+$"}}})
}

fn schemas() -> BoxedStrategy<Value> {
    let nearly =
        json(vec![schema()]).prop_map(|bytes| serde_json::from_slice(&bytes).unwrap_or_else(|_| schema()));
    prop_oneof![nearly, value(RULES)].boxed()
}

fn settings(prefix: &str) -> Settings {
    let source = |prompts| Source {
        server: "s".into(),
        prompts,
        resources: true,
        filter: Default::default(),
    };
    Settings {
        sources: vec![source(true), source(false)],
        prefix: prefix.into(),
        max_loaded: 3,
        max_bytes: 4,
        max_total: 9,
    }
}

/// A text for a model: lines and tabs, and no other control characters.
fn readable(text: &str) {
    assert!(
        !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')),
        "{text:?}"
    );
}

proptest! {
    #![proptest_config(agentd_noise::cases(128))]

    /// What was found in a text fits, and is found again; else it is said in a few words what is wrong.
    #[test]
    fn answers_fit_or_are_asked_for_again(schema in schemas(), text in changed_text(ANSWERS)) {
        let shape = match Shape::new(schema) {
            Ok(shape) => shape,
            Err(why) => return { words(&why); Ok(()) },
        };
        match shape.check(&text) {
            Ok(found) => prop_assert!(shape.check(&found).is_ok(), "{}", found),
            Err(fault) => {
                words(&fault);
                prop_assert!(shape.ask_again(&fault).chars().count() <= 20 * 1024 + 4096);
            }
        }
    }

    #[test]
    fn contents_are_text_or_named(
        uri in changed_text(&["file:///a", "x:1"]),
        text in changed_text(&["a\nb\tc", "\u{1b}[31m\r\n"]),
        mime_type in prop::option::of(changed_text(&["text/plain; charset=utf-8", "application/json", "image/svg+xml"])),
        base64 in changed_text(&["aGVsbG8gd29ybGQ=", "AAECAw=="]),
    ) {
        let contents = [
            Content::Text { uri: uri.clone(), mime_type: mime_type.clone(), text: text.clone() },
            Content::Blob { uri: uri.clone(), mime_type, base64: base64.clone() },
        ];
        for some in [&contents[..], &contents[..1], &contents[1..], &[]] {
            let told = reading::words("x:1", some);
            readable(&told);
            prop_assert!(told.chars().count() <= text.chars().count() + base64.len() + 4096);
            prop_assert!(!some.is_empty() || told == "[the resource is empty]");
        }
    }

    #[test]
    fn references_are_names(text in changed_text(&["Use @skill:review, then @skill:a/b-c.", "@@skill:é::"])) {
        for prefix in ["@skill:", "@", "é", ""] {
            for name in references(&text, prefix) {
                prop_assert!(!name.is_empty() && name.chars().count() <= 128 && text.contains(name));
                prop_assert!(!prefix.is_empty() && !name.contains(char::is_control));
            }
        }
    }

    #[test]
    fn skills_that_are_listed_can_be_named(
        name in changed_text(&["review", "a/b", " "]),
        label in prop::option::of(changed_text(&["Looks at changes.\nTwice."])),
    ) {
        let offer = ServerOffer {
            server: "s".into(),
            prompts: vec![Prompt { name: name.clone(), description: label.clone() }],
            resources: vec![Resource { uri: "x:1".into(), name, title: None, description: label, mime_type: None, size: None }],
            ..ServerOffer::default()
        };
        for source in &settings("@").sources {
            for skill in of(source, &offer) {
                prop_assert!(!skill.name.trim().is_empty() && skill.name.chars().count() <= 128);
                prop_assert!(!skill.name.contains(char::is_control));
                let label = skill.label.unwrap_or_default();
                prop_assert!(label.chars().count() <= 160 && !label.contains(char::is_control));
            }
        }
    }

    /// Whatever was stored, no more is loaded than may be, and it is stored as it is.
    #[test]
    fn stored_skills(stored in json(vec![object!({"items": [], "skills": [
        {"name": "a", "server": "s", "text": "1234"}, {"name": "b", "server": "s", "text": "12"},
        {"name": "c", "server": "s", "text": "1"}, {"name": "d", "server": "t", "text": ""}]})])) {
        let Ok(stored) = serde_json::from_slice::<Value>(&stored) else { return Ok(()) };
        let mut kept = object!({});
        Skills::restored(settings("@"), &stored).keep(&mut kept);
        let loaded = kept["skills"].as_array().cloned().unwrap_or_default();
        let bytes: usize = loaded.iter().map(|one| one["text"].as_str().unwrap().len()).sum();
        prop_assert!(loaded.len() <= 3 && bytes <= 9);
        prop_assert!(loaded.iter().all(|one| one["server"] == "s"));
        let mut again = object!({});
        Skills::restored(settings("@"), &kept).keep(&mut again);
        prop_assert_eq!(again, kept);
    }
}

/// A model writes schemas too: for subagents, and for what it thinks apart.
#[test]
fn a_schema_that_goes_round_costs_nobody_a_process() {
    for schema in [
        object!({"$ref": "#"}),
        object!({"allOf": [{"$ref": "#"}]}),
        object!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        object!({"$ref": "http://127.0.0.1:1/x"}),
        object!({"$ref": "file:///etc/passwd"}),
        object!({"type": "string", "pattern": format!("({})+$", "a|".repeat(20_000))}),
    ] {
        words(&Shape::new(schema).err().unwrap());
    }
    let slow = object!({"type": "string", "pattern": "^(a|a)*(a|a)*(a|a)*$"});
    let began = std::time::Instant::now();
    let shape = Shape::new(slow).unwrap();
    assert!(shape.check(&format!("\"{}!\"", "a".repeat(20_000))).is_err());
    assert!(shape.check(&format!("{}\"", "[\"[\", ".repeat(10_000))).is_err());
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}
