//! What a server gives back of an envelope, whatever it made of it: as it was sealed, or corrupt and said so shortly.

use agentd_noise::{Edits, json, words};
use agentd_state::StoreError;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::envelope::{Intent, Names, seq_of};

const TIME: &str = "2026-12-01T10:00:00Z";

fn states() -> Vec<Value> {
    vec![
        json!({ "id": "c", "owner": "spiffe://td/a", "created_at": TIME, "transcript": { "n": [1, 1.5] } }),
        json!({
            "id": "t", "context_id": "c", "owner": "spiffe://td/a", "state": "working", "updated_at": TIME,
            "created_at": TIME, "status_message": null, "artifacts": [], "hops": 1,
            "history": [{ "id": "m", "role": "user", "parts": [{ "text": "hi" }] }],
        }),
        json!({ "owner": "spiffe://td/a", "message_id": "m", "task_id": "t", "digest": "d" }),
        json!({ "kind": "memory", "scope": "s", "key": "k", "value": [1], "expires_at": TIME, "updated_at": TIME }),
        json!({ "generation": 1, "keys": 2, "steps": [{ "key": "a/i/task/t", "seq": 1, "text": "{}" }] }),
    ]
}

fn said(error: &StoreError) {
    assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
    words(&error.to_string());
}

proptest! {
    #[test]
    fn envelopes(
        state in json(states()),
        kind in prop::sample::select(vec!["context", "task", "inbox", "memory", "manifest", "other"]),
        edits in Edits::any(0..3),
    ) {
        let names = Names::new("a", "i");
        let key = format!("{}{kind}/x", names.root());
        let state: Value = serde_json::from_slice(&state).unwrap_or(Value::Null);
        let sealed = names.seal(&key, 7, Timestamp::UNIX_EPOCH, state.clone());
        // As it was given, it is what it was.
        let opened = names.open(&key, &sealed).unwrap();
        prop_assert_eq!(&opened.state, &state);
        if let Err(error) = names.open(&key, &sealed).and_then(Intent::of) {
            said(&error);
        }
        if let Err(error) = opened.write() {
            said(&error);
        }
        // What somebody made of it is refused, or says the same.
        let mut bytes = sealed.into_bytes();
        edits.apply(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        match names.open(&key, &text) {
            Ok(envelope) => prop_assert_eq!(&envelope.state, &state),
            Err(error) => said(&error),
        }
        seq_of(&text);
    }
}
