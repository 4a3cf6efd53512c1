//! The invariants of a transcript, whatever was pushed and whatever was loaded.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::collections::BTreeSet;

use agentd_agent::transcript::{Loaded, Transcript};
use agentd_llm::{Arguments, Block, Message, ToolCall};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

/// What every provider takes.
fn check(transcript: &Transcript) {
    let messages = transcript.messages();
    assert!(
        matches!(messages.first(), None | Some(Message::User(_))),
        "it begins with the caller"
    );
    let mut ids = BTreeSet::new();
    let mut open: Vec<String> = Vec::new();
    for (message, next) in messages
        .iter()
        .zip(messages.iter().skip(1).map(Some).chain([None]))
    {
        match message {
            Message::User(_) => {
                assert!(open.is_empty(), "calls before the caller are answered");
                assert!(!matches!(next, Some(Message::User(_))), "the caller speaks once");
                assert!(
                    !matches!(next, Some(Message::Results(_))),
                    "no results without calls"
                );
            }
            Message::Assistant(blocks) => {
                assert!(!blocks.is_empty(), "an answer holds something");
                for block in blocks {
                    match block {
                        Block::Text(text) => assert!(!text.is_empty()),
                        Block::Opaque(_) => {}
                        Block::ToolCall(call) => {
                            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                            assert!((1..=64).contains(&call.name.len()) && call.name.chars().all(plain));
                            assert!((1..=40).contains(&call.id.len()) && call.id.chars().all(plain));
                            assert!(ids.insert(call.id.clone()), "ids are unique");
                            open.push(call.id.clone());
                        }
                    }
                }
                assert_eq!(matches!(next, Some(Message::Results(_))), !open.is_empty());
                assert!(!open.is_empty() || !matches!(next, Some(Message::Assistant(_))));
            }
            Message::Results(results) => {
                let answered: Vec<_> = results.iter().map(|result| result.call_id.clone()).collect();
                assert_eq!(answered, open, "every call has its result, in order");
                open.clear();
            }
        }
    }
    assert!(open.is_empty());
}

/// Text of every kind, the hostile ones included.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z]{1,5}",
        Just("a.b c/ä".to_owned()),
        Just("x".repeat(70)),
        Just("call_1".into())
    ]
}

fn result() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"text": "ok", "is_error": false})),
        Just(Value::Null),
        Just(json!({"text": 7})),
    ]
}

fn piece() -> impl Strategy<Value = Value> {
    let call = (text(), text(), proptest::option::of(result())).prop_map(|(id, name, result)| {
        let mut call = json!({"id": id, "name": name, "arguments": {"object": {}}});
        if let Some(result) = result {
            call["result"] = result;
        }
        json!({"call": call})
    });
    prop_oneof![
        text().prop_map(|text| json!({"text": text})),
        call,
        Just(json!({"image": 1}))
    ]
}

fn item() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|text| json!({"user": text})),
        text().prop_map(|text| json!({"summary": text})),
        vec(piece(), 0..4).prop_map(|pieces| json!({"round": pieces})),
        Just(json!({"system": "x"})),
        Just(Value::Null),
    ]
}

proptest! {
    #[test]
    fn whatever_is_loaded_is_what_providers_take(items in vec(item(), 0..12), more in text()) {
        let Loaded { mut transcript, .. } = Transcript::load(json!({"version": 1, "items": items}));
        check(&transcript);
        // And stays so: stored and loaded again it is the same, with nothing to mend.
        let again = Transcript::load(serde_json::to_value(&transcript).unwrap());
        prop_assert_eq!(&again.transcript, &transcript);
        prop_assert_eq!(again.repairs, Vec::<String>::new());
        transcript.push_user(more);
        check(&transcript);
    }

    #[test]
    fn what_was_told_before_changes_nothing(items in vec(item(), 0..12), others in vec(item(), 0..12), more in 0..12_usize) {
        let loaded = |items: &[Value]| Transcript::load(json!({"version": 1, "items": items})).transcript;
        let before = items.get(..more.min(items.len())).unwrap();
        for before in [loaded(before), loaded(&others)] {
            let mut told = before.messages();
            let transcript = loaded(&items);
            transcript.tell(&mut told);
            prop_assert_eq!(told, transcript.messages());
        }
    }

    #[test]
    fn nothing_that_is_stored_breaks_the_load(value in json_value()) {
        check(&Transcript::load(value.clone()).transcript);
        check(&Transcript::load(json!({"version": 1, "items": value})).transcript);
        check(&Transcript::load(json!({"version": 1, "items": [value]})).transcript);
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::String),
    ];
    let key = prop_oneof![
        Just("user".to_owned()),
        Just("round".to_owned()),
        Just("call".to_owned()),
        Just("text".to_owned()),
        Just("id".to_owned()),
        Just("result".to_owned()),
        Just("items".to_owned()),
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::Array),
            proptest::collection::btree_map(key.clone(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

#[test]
fn a_whole_transcript_is_loaded_as_it_was() {
    let stored = json!({"version": 1, "items": [
        {"user": "hi"},
        {"round": [
            {"text": "Let me see."},
            {"call": {"id": "a", "name": "one", "arguments": {"object": {"x": 1}}, "result": {"text": "1", "is_error": false}}},
            {"call": {"id": "b", "name": "two", "arguments": {"invalid": "{"}, "result": {"text": "ERROR: no", "is_error": true}}}]},
        {"round": [{"text": "Done."}]},
        {"user": "thanks"}]});
    let loaded = Transcript::load(stored.clone());
    assert_eq!(loaded.repairs, Vec::<String>::new());
    assert_eq!(serde_json::to_value(&loaded.transcript).unwrap(), stored);
    let messages = loaded.transcript.messages();
    assert_eq!(messages.len(), 5);
    let Message::Assistant(blocks) = &messages[1] else {
        panic!()
    };
    let wish = |id: &str, name: &str, arguments| ToolCall {
        id: id.into(),
        name: name.into(),
        arguments,
    };
    let one = Arguments::Object(serde_json::from_value(json!({"x": 1})).unwrap());
    assert_eq!(
        blocks.as_slice(),
        [
            Block::Text("Let me see.".into()),
            Block::ToolCall(wish("a", "one", one)),
            Block::ToolCall(wish("b", "two", Arguments::Invalid("{".into()))),
        ]
    );
}

#[test]
fn what_is_broken_is_mended_and_told() {
    let call = |id: &str| json!({"call": {"id": id, "name": "t.x", "arguments": {"object": {}}}});
    let loaded = Transcript::load(json!({"version": 1, "items": [
        {"round": [{"text": "an answer to nothing"}]},
        {"user": "a"},
        {"user": "b"},
        {"round": [call("x"), call("x")]},
        {"what": 1},
        {"round": [{"text": "one"}]},
        {"round": [{"text": "two"}]}]}));
    assert_eq!(
        loaded.repairs,
        [
            "item 0 was mended",
            "item 3 was mended",
            "item 4 was left out",
            "item 6 was mended"
        ]
    );
    let lost = json!({"text": "ERROR: the result of this call was lost; it may have been carried out", "is_error": true});
    let mended =
        |id: &str| json!({"call": {"id": id, "name": "t_x", "arguments": {"object": {}}, "result": lost}});
    assert_eq!(
        serde_json::to_value(&loaded.transcript).unwrap(),
        json!({"version": 1, "items": [
            {"user": "a\n\nb"},
            {"round": [mended("x"), mended("call_1")]},
            {"round": [{"text": "one"}, {"text": "two"}]}]})
    );
}

#[test]
fn an_absent_one_is_empty_and_a_foreign_one_is_told() {
    let empty = Loaded {
        transcript: Transcript::default(),
        repairs: vec![],
    };
    assert_eq!(Transcript::load(Value::Null), empty);
    assert!(Transcript::default().is_empty());
    for foreign in [
        json!("x"),
        json!([]),
        json!({}),
        json!({"version": 2, "items": []}),
    ] {
        let loaded = Transcript::load(foreign.clone());
        assert!(
            loaded.transcript.is_empty() && !loaded.repairs.is_empty(),
            "{foreign}"
        );
    }
}
