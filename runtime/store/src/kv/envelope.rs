//! The form of what a remote store keeps (contract/runtime.md section 10): keys of percent-encoded segments, records in
//! an envelope whose hash tells whether the server gave back what it was given. Pure.

use agentd_base::json::why;
use agentd_base::text::clip;
use agentd_state::{Conversation, Entry, StoreError, Task, Write};
use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fault::unreadable;
use crate::working::Key;

/// The version of the envelope.
pub(super) const VERSION: u32 = 1;
/// Longer ids are replaced by their hash: servers bound their keys.
const ID_BYTES: usize = 200;
/// Whole numbers up to here are the same in every reader of JSON.
const EXACT: u64 = (1 << 53) - 1;
/// No key is written so often. A greater number is not one of ours, and there would be none after it.
const MOST: u64 = EXACT;
/// Of a key that a server names, in messages.
pub(super) const KEY_CHARS: usize = 512;
/// The kind and id of the record of what is being written.
const INTENT: (&str, &str) = ("manifest", "intent");

/// What is kept under a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Envelope {
    v: u32,
    pub(super) kind: String,
    pub(super) id: String,
    /// How often the key was written.
    pub(super) seq: u64,
    ts: Timestamp,
    instance: String,
    pub(super) hash: String,
    /// The record; `null` in place of one that was dropped; its text where [`kept`] says so.
    pub(super) state: Value,
}

/// The keys of one agent.
#[derive(Debug, Clone)]
pub(super) struct Names {
    root: String,
    instance: String,
}

/// A step of an intent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Step {
    pub(super) key: String,
    /// After a put; of what is deleted, before.
    pub(super) seq: u64,
    /// The text; `None` to delete.
    pub(super) text: Option<String>,
}

/// What is being written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Intent {
    /// Counts the processes that had the store.
    pub(super) generation: u64,
    /// How many keys there are beside it when the steps are carried out. `None`: nobody counted.
    #[serde(default)]
    pub(super) keys: Option<u64>,
    pub(super) steps: Vec<Step>,
}

impl Names {
    pub(super) fn new(prefix: &str, instance: &str) -> Self {
        Self {
            root: format!("{}/{}/", segments(prefix), encode(instance)),
            instance: instance.to_owned(),
        }
    }

    /// What all keys begin with.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    pub(super) fn intent(&self) -> String {
        format!("{}{}/{}", self.root, INTENT.0, INTENT.1)
    }

    /// The key of a record.
    pub(super) fn of(&self, key: &Key) -> String {
        let (kind, id) = kind_and_id(key);
        format!("{}{kind}/{id}", self.root)
    }

    /// Kind and id of a key of ours.
    pub(super) fn split<'a>(&self, key: &'a str) -> (&'a str, &'a str) {
        let rest = key.strip_prefix(&self.root);
        rest.and_then(|rest| rest.split_once('/')).unwrap_or_default()
    }

    /// The text to keep under a key.
    pub(super) fn seal(&self, key: &str, seq: u64, ts: Timestamp, state: Value) -> String {
        let (kind, id) = self.split(key);
        let state = kept(state);
        let envelope = Envelope {
            v: VERSION,
            kind: kind.to_owned(),
            id: id.to_owned(),
            seq,
            ts,
            instance: self.instance.clone(),
            hash: hash(&state),
            state,
        };
        // An envelope is made of what JSON has.
        serde_json::to_string(&envelope).unwrap_or_default()
    }

    /// Reads what is kept under a key, and checks that it is what was given.
    pub(super) fn open(&self, key: &str, text: &str) -> Result<Envelope, StoreError> {
        let corrupt = |why: String| StoreError::Corrupt(format!("{}: {why}", clip(key, KEY_CHARS)));
        let unread = |error: serde_json::Error| corrupt(why(&error));
        let mut envelope: Envelope = serde_json::from_str(text).map_err(unread)?;
        if envelope.v != VERSION {
            let why = format!(
                "envelope of version {}, this version knows {VERSION}; start the newer agentd that wrote it",
                envelope.v
            );
            return Err(corrupt(why));
        }
        if envelope.seq > MOST {
            return Err(corrupt(
                "its sequence number is none that a writer comes to".to_owned(),
            ));
        }
        let own = format!("{}{}/{}", self.root, envelope.kind, envelope.id);
        if own != key || envelope.instance != self.instance {
            return Err(corrupt("it is the record of another key".to_owned()));
        }
        if envelope.hash != hash(&envelope.state) {
            return Err(corrupt("its hash does not fit: the server changed it".to_owned()));
        }
        if let Value::String(text) = &envelope.state {
            envelope.state = serde_json::from_str(text).map_err(unread)?;
        }
        Ok(envelope)
    }
}

/// How often a key was written whose record cannot be read, as far as that can be told.
pub(super) fn seq_of(text: &str) -> Option<u64> {
    let record: Value = serde_json::from_str(text).ok()?;
    record.get("seq")?.as_u64().filter(|seq| *seq <= MOST)
}

/// The state as it is kept: as a text where a server that reads JSON may write a number of it in another way.
fn kept(state: Value) -> Value {
    if is_plain(&state) && !state.is_string() {
        state
    } else {
        Value::String(state.to_string())
    }
}

/// Whether all numbers are whole, and none is too great for a reader to whom all numbers are fractions.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64().is_some_and(|whole| whole.unsigned_abs() <= EXACT),
        Value::Array(items) => items.iter().all(is_plain),
        Value::Object(members) => members.values().all(is_plain),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

impl Intent {
    /// What is being written, as it stands in an envelope.
    pub(super) fn of(envelope: Envelope) -> Result<Self, StoreError> {
        let (kind, id) = (envelope.kind, envelope.id);
        let intent: Self =
            serde_json::from_value(envelope.state).map_err(|error| unreadable(&kind, &id, &error))?;
        let steps = intent.steps.iter().map(|step| step.seq);
        match steps.chain([intent.generation]).all(|number| number <= MOST) {
            true => Ok(intent),
            false => Err(StoreError::Corrupt(format!(
                "{kind} {id}: it has a number that no writer comes to"
            ))),
        }
    }
}

impl Envelope {
    /// The record as a write; `None` for one that was dropped, and for kinds that are not records.
    pub(super) fn write(self) -> Result<Option<Write>, StoreError> {
        if self.state.is_null() {
            return Ok(None);
        }
        let corrupt = |error: serde_json::Error| unreadable(&self.kind, &self.id, &error);
        Ok(Some(match self.kind.as_str() {
            "context" => {
                let record: Conversation = serde_json::from_value(self.state).map_err(corrupt)?;
                Write::Conversation(record)
            }
            "task" => {
                let record: Task = serde_json::from_value(self.state).map_err(corrupt)?;
                Write::Task(record)
            }
            "inbox" => {
                let record: Inbox = serde_json::from_value(self.state).map_err(corrupt)?;
                Write::MessageId {
                    owner: record.owner,
                    message_id: record.message_id,
                    task_id: record.task_id,
                    digest: record.digest,
                }
            }
            "memory" | "artifact" | "plan" | "subagent" | "budget" => {
                let record: Entry = serde_json::from_value(self.state).map_err(corrupt)?;
                Write::Entry(record)
            }
            _ => return Ok(None),
        }))
    }
}

/// The record of a message id.
#[derive(Serialize, Deserialize)]
struct Inbox {
    owner: String,
    message_id: String,
    task_id: String,
    digest: String,
}

/// The state of a message id.
pub(super) fn inbox(owner: &str, message_id: &str, task_id: &str, digest: &str) -> Value {
    json!({ "owner": owner, "message_id": message_id, "task_id": task_id, "digest": digest })
}

fn kind_and_id(key: &Key) -> (&'static str, String) {
    match key {
        Key::Conversation(id) => ("context", id_of(&[id])),
        Key::Task(id) => ("task", id_of(&[id])),
        Key::Message(owner, message_id) => ("inbox", id_of(&[owner, message_id])),
        Key::Entry((kind, scope, key)) => (kind.name(), id_of(&[scope, key])),
    }
}

/// One segment of several parts. An encoded part has no comma.
fn id_of(parts: &[&str]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| encode(part)).collect();
    let id = parts.join(",");
    if id.len() <= ID_BYTES {
        return id;
    }
    format!("sha256-{}", hex(digest(&SHA256, id.as_bytes()).as_ref()))
}

fn segments(prefix: &str) -> String {
    let segments: Vec<String> = prefix
        .split('/')
        .filter(|part| !part.is_empty())
        .map(encode)
        .collect();
    segments.join("/")
}

/// Percent-encodes all but the unreserved characters of RFC 3986. A part that is only dots would be a path of its own.
fn encode(part: &str) -> String {
    let dots = part.bytes().all(|byte| byte == b'.');
    let mut encoded = String::with_capacity(part.len());
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) || byte == b'.' && !dots {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Of the state, however its keys are ordered: a server may keep it as JSON of its own.
fn hash(state: &Value) -> String {
    let text = canonical(state).to_string();
    hex(digest(&SHA256, text.as_bytes()).as_ref())
}

/// The same value with its keys in order.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            pairs
                .into_iter()
                .map(|(key, value)| (key.clone(), canonical(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        other => other.clone(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use agentd_state::EntryKind;

    use super::*;

    fn now() -> Timestamp {
        "2026-12-01T10:00:00Z".parse().unwrap()
    }

    #[test]
    fn keys_are_percent_encoded_segments_that_never_meet() {
        let names = Names::new("/a b/c/", "team/x");
        let entry = |scope: &str, key: &str| Key::Entry((EntryKind::Memory, scope.into(), key.into()));
        for (key, expected) in [
            (Key::Task("0193-a".into()), "a%20b/c/team%2Fx/task/0193-a"),
            (
                Key::Message("spiffe://td/a".into(), "m,1".into()),
                "a%20b/c/team%2Fx/inbox/spiffe%3A%2F%2Ftd%2Fa,m%2C1",
            ),
            (entry("s", "ä/.."), "a%20b/c/team%2Fx/memory/s,%C3%A4%2F.."),
            (Key::Conversation("..".into()), "a%20b/c/team%2Fx/context/%2E%2E"),
        ] {
            assert_eq!(names.of(&key), expected);
        }
        assert_ne!(names.of(&entry("a,b", "c")), names.of(&entry("a", "b,c")));
        let long = names.of(&entry("s", &"x".repeat(300)));
        assert!(long.len() < 120, "{long}");
        assert_ne!(long, names.of(&entry("s", &"x".repeat(301))));
    }

    #[test]
    fn an_envelope_is_taken_back_as_it_was_given_or_not_at_all() {
        let names = Names::new("agentd", "a");
        let key = names.of(&Key::Task("t".into()));
        let text = names.seal(&key, 7, now(), json!({ "b": 1, "a": [null, 15] }));
        let envelope = names.open(&key, &text).unwrap();
        assert_eq!((envelope.seq, envelope.kind.as_str()), (7, "task"));
        // A server may order the keys in its own way.
        let reordered = text.replace(r#""b":1,"a":[null,15]"#, r#""a":[null,15],"b":1"#);
        assert_ne!(reordered, text);
        names.open(&key, &reordered).unwrap();
        for (from, to) in [
            (r#""b":1"#, r#""b":2"#),
            (r#""v":1"#, r#""v":2"#),
            (r#""id":"t""#, r#""id":"u""#),
            ("{", "["),
        ] {
            let error = names.open(&key, &text.replacen(from, to, 1)).unwrap_err();
            assert!(
                matches!(&error, StoreError::Corrupt(what) if what.starts_with(&key)),
                "{error}"
            );
        }
        assert!(Names::new("agentd", "b").open(&key, &text).is_err());
    }

    #[test]
    fn a_number_that_readers_of_json_write_in_their_own_way_is_kept_in_a_text() {
        let names = Names::new("agentd", "a");
        let key = names.of(&Key::Task("t".into()));
        for (state, is_text) in [
            (json!({ "n": [1, -7, 9_007_199_254_740_991_u64] }), false),
            (json!({ "n": [1.0] }), true),
            (json!({ "n": [-0.0] }), true),
            (json!([9_007_199_254_740_993_u64]), true),
            (json!([i64::MIN, u64::MAX, 1e300]), true),
        ] {
            let text = names.seal(&key, 1, now(), state.clone());
            let raw: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(raw["state"].is_string(), is_text, "{text}");
            assert_eq!(names.open(&key, &text).unwrap().state, state);
        }
    }

    #[test]
    fn a_record_that_cannot_be_read_may_tell_its_number() {
        for (text, expected) in [
            (r#"{"v":2,"seq":7}"#, Some(7)),
            (r#"{"seq":-1}"#, None),
            ("[]", None),
            ("", None),
        ] {
            assert_eq!(seq_of(text), expected);
        }
    }
}
