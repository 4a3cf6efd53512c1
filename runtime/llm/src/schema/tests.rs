//! Golden files of schemas as servers write them, and properties of any.

use proptest::prelude::*;

use super::*;

const PROFILES: [(&str, Profile); 4] = [
    ("openai", Profile::Openai),
    ("gemini", Profile::Gemini),
    ("anthropic", Profile::Anthropic),
    ("bedrock", Profile::Bedrock),
];

fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

/// Schemas of tools as servers write them.
fn cases() -> Vec<(&'static str, Value)> {
    vec![
        ("nothing", json!({})),
        (
            "plain",
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "title": "T",
            "properties": {"a": {"type": "integer", "format": "int64", "exclusiveMinimum": 0}, "b": {"type": ["string", "null"], "default": null}},
            "required": ["a"], "additionalProperties": false}),
        ),
        (
            "references",
            json!({"type": "object", "properties": {"tree": {"$ref": "#/$defs/Node", "description": "The tree."}, "far": {"$ref": "https://example.invalid/x"}},
            "$defs": {"Node": {"type": "object", "properties": {"name": {"$ref": "#/$defs/Name"}, "map": {"type": "object", "additionalProperties": {"type": "string"}}}}, "Name": {"type": "string", "maxLength": 9}}}),
        ),
        (
            "choice",
            json!({"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "string"}}, "required": ["kind", "x"]},
            {"$ref": "#/definitions/B"}],
            "definitions": {"B": {"type": "object", "properties": {"kind": {"const": "b"}, "y": {"enum": [1, "two"]}}, "required": ["kind"]}}}),
        ),
        (
            "all",
            json!({"type": "object", "properties": {"own": {}}, "required": ["own"], "allOf": [
            {"properties": {"p": {"type": "array"}}, "required": ["p"]}, {"properties": {"q": {"enum": ["u", "v"]}}}]}),
        ),
        (
            "names",
            json!({"type": "object", "properties": {"a b": {"type": "string"}, "ok": true, "": {}}, "required": ["a b", "ok", 7]}),
        ),
        (
            "old",
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "id": "x", "properties": {
            "n": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "required": true},
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
            "definitions": {"type": "string"}, "$ref": {"type": "string"}}, "required": ["definitions", "$ref"]}),
        ),
        (
            "wrong",
            json!({"type": "array", "properties": [], "required": "no", "anyOf": {}}),
        ),
    ]
}

#[test]
fn every_provider_gets_what_it_takes() {
    let mut seen = Map::new();
    for (name, schema) in cases() {
        let schema = object(schema);
        let fitted = PROFILES
            .iter()
            .map(|(profile, which)| ((*profile).to_owned(), fit(&schema, *which)));
        seen.insert(name.to_owned(), Value::Object(fitted.collect()));
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&seen).unwrap());
}

#[test]
fn a_schema_without_end_has_one() {
    let itself =
        object(json!({"type": "object", "properties": {"next": {"$ref": "#"}, "more": {"$ref": "#"}}}));
    let chain = object(
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
    );
    let wide: Vec<_> = (0..100).map(|_| json!({"$ref": "#/$defs/w"})).collect();
    let wide = object(
        json!({"type": "object", "properties": {"w": {"$ref": "#/$defs/w"}}, "$defs": {"w": {"anyOf": wide}}}),
    );
    for schema in [itself, chain, wide] {
        for (_, profile) in PROFILES {
            let fitted = fit(&schema, profile);
            assert!(fitted.to_string().len() < 1_000_000);
            assert_eq!(fitted["type"], "object");
        }
    }
}

#[test]
fn strict_is_said_of_what_is() {
    for (schema, expected) in [
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}),
            true,
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
            false,
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}),
            false,
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}, "required": ["a"], "additionalProperties": false}),
            false,
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}, "required": ["a"], "additionalProperties": false}),
            false,
        ),
        (
            json!({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": false}),
            false,
        ),
    ] {
        assert_eq!(is_strict(&schema), expected, "{schema}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "type",
        "properties",
        "required",
        "$ref",
        "$defs",
        "anyOf",
        "oneOf",
        "allOf",
        "items",
        "enum",
        "const",
        "a",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        Just(json!("#/$defs/a")),
        Just(json!("#")),
        Just(json!("object")),
        Just(json!(["a", "b"])),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_becomes_one_of_an_object(schema in any_json()) {
        let schema = schema.as_object().cloned().unwrap_or_default();
        for (_, profile) in PROFILES {
            let fitted = fit(&schema, profile);
            prop_assert_eq!(&fitted["type"], "object");
            prop_assert!(fitted["properties"].is_object());
            for word in ["oneOf", "anyOf", "allOf"] {
                prop_assert!(fitted.get(word).is_none() || profile == Profile::Openai && !fitted[word].is_array());
            }
        }
    }
}
