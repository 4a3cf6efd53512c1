//! What a store keeps by what a server holds: the records, and over them what the last intent says. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

/// Records by key: their kind and what is in them.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept(BTreeMap<String, (String, Value)>);

/// A task as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored(pub Value);

impl Kept {
    pub fn of(held: &BTreeMap<String, (u64, String)>) -> Self {
        let mut records = BTreeMap::new();
        let mut steps = Vec::new();
        for (key, (_, text)) in held {
            let envelope: Value = serde_json::from_str(text).unwrap();
            if key.ends_with("/manifest/intent") {
                steps = envelope["state"]["steps"].as_array().unwrap().clone();
            } else {
                insert(&mut records, key, &envelope);
            }
        }
        for step in steps {
            let key = step["key"].as_str().unwrap();
            let seq = held.get(key).map_or(0, |(seq, _)| *seq);
            match step["text"].as_str() {
                Some(text) if seq < step["seq"].as_u64().unwrap() => {
                    insert(&mut records, key, &serde_json::from_str(text).unwrap());
                }
                Some(_) => {}
                None => {
                    records.remove(key);
                }
            }
        }
        Self(records)
    }

    /// By the lines of `agentd store export`.
    pub fn exported(lines: &str) -> Self {
        let mut records = BTreeMap::new();
        for line in lines.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let (kind, id) = (line["kind"].as_str().unwrap(), line["id"].as_str().unwrap());
            records.insert(format!("{kind}/{id}"), (kind.to_owned(), line["record"].clone()));
        }
        Self(records)
    }

    fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        let kinds = self.0.values().filter(move |(found, _)| found == kind);
        kinds.map(|(_, state)| state)
    }

    pub fn tasks(&self) -> Vec<Stored> {
        self.of_kind("task").cloned().map(Stored).collect()
    }

    /// The task with this id.
    pub fn task(&self, id: &str) -> Option<Stored> {
        self.tasks().into_iter().find(|task| task.id() == id)
    }

    /// The task that a message led to.
    pub fn task_of(&self, message_id: &str) -> Option<Stored> {
        let noted = self
            .of_kind("inbox")
            .find(|note| note["message_id"] == message_id)?;
        let task = self.task(noted["task_id"].as_str().unwrap());
        assert!(task.is_some(), "a message id without its task: {noted}");
        task
    }

    /// Subagents by handle; those that live are `running` or `waiting`.
    pub fn subagents(&self) -> BTreeMap<String, Value> {
        let records = self.of_kind("subagent").map(|entry| &entry["value"]);
        let records = records.filter(|record| record.is_object());
        let named = records.map(|record| (record["handle"].as_str().unwrap().to_owned(), record.clone()));
        named.collect()
    }

    /// Marks of those that live.
    pub fn marks(&self) -> usize {
        let entries = self.of_kind("subagent");
        entries.filter(|entry| entry["scope"] == "live").count()
    }

    /// Nothing is open.
    pub fn is_settled(&self) -> bool {
        self.tasks().iter().all(Stored::is_over) && self.subagents().values().all(|record| !is_live(record))
    }
}

/// Whether a subagent's record is of one that lives.
pub fn is_live(record: &Value) -> bool {
    ["running", "waiting"].contains(&record["state"].as_str().unwrap_or_default())
}

fn insert(records: &mut BTreeMap<String, (String, Value)>, key: &str, envelope: &Value) {
    let kind = envelope["kind"].as_str().unwrap().to_owned();
    if envelope["state"].is_null() {
        records.remove(key);
    } else {
        records.insert(key.to_owned(), (kind, envelope["state"].clone()));
    }
}

impl Stored {
    pub fn id(&self) -> &str {
        self.0["id"].as_str().unwrap()
    }

    pub fn state(&self) -> &str {
        self.0["state"].as_str().unwrap()
    }

    pub fn is_over(&self) -> bool {
        !["submitted", "working"].contains(&self.state())
    }

    /// What the caller said.
    pub fn asked(&self) -> &str {
        self.0["history"][0]["parts"][0]["text"].as_str().unwrap()
    }

    pub fn answer(&self) -> &str {
        self.0["artifacts"][0]["parts"][0]["text"]
            .as_str()
            .unwrap_or_default()
    }

    pub fn reason(&self) -> &str {
        self.0["status_message"].as_str().unwrap_or_default()
    }
}
