//! `agentd store check|export`: looks into the store of an agent, which may run meanwhile. Nothing is changed: no claim,
//! no migration, no repair.

use std::collections::BTreeMap;

use agentd_base::class::exit;
use agentd_base::text::clip;
use agentd_config::Document;
use agentd_config::document::{LogLevel, StoreKind};
use agentd_config::load::{Layers, merged};
use agentd_mcp::Outbound;
use agentd_state::{EntryKind, StoreError};
use agentd_store::inspect::{Found, Overview, Visit};
use agentd_store::{Kv, kv, sqlite};
use serde_json::{Value, json};

use super::{answered, invalid};
use crate::cli::StoreVerb;
use crate::supervisor::storage::{self, Place};
use crate::{logging, output};

/// Unreadable records that are named one by one.
const NAMED: usize = 1000;
/// Of an id in an answer.
const ID_CHARS: usize = 512;

/// Runs the verb; the exit code.
pub async fn run(verb: StoreVerb, layers: Layers) -> u8 {
    logging::install("cli", LogLevel::Warn);
    let mut document = match merged(&layers.hold()) {
        Ok(document) => document,
        Err(errors) => return invalid(&errors),
    };
    // What has no other store has none to look into.
    document.store.kind.get_or_insert(StoreKind::File);
    let looked = match verb {
        StoreVerb::Check => check(&document).await,
        StoreVerb::Export => export(&document).await,
    };
    looked.unwrap_or_else(|error| {
        tracing::error!(event = "store.open.fail", err = %error);
        match error {
            StoreError::Unavailable(_) | StoreError::Lost(_) => exit::DEPENDENCY,
            StoreError::Conflict(_)
            | StoreError::Full(_)
            | StoreError::Refused(_)
            | StoreError::Corrupt(_) => exit::FAILURE,
        }
    })
}

/// Counts the records and names what cannot be read.
async fn check(document: &Document) -> Result<u8, StoreError> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let (mut bad, mut unreadable) = (Vec::new(), 0_usize);
    let (place, overview) = look(document, &mut |found| {
        *counts.entry(found.kind.clone()).or_default() += 1;
        if let Err(why) = found.record {
            unreadable += 1;
            if bad.len() < NAMED {
                bad.push(json!({ "kind": found.kind, "id": clip(&found.id, ID_CHARS), "error": why }));
            }
        }
        true
    })
    .await?;
    let sound = overview.faults.is_empty() && unreadable == 0;
    let answer = json!({
        "store": place,
        "ok": sound,
        "schema": overview.schema.0,
        "schema_known": overview.schema.1,
        "faults": overview.faults,
        "counts": counts,
        "unreadable": unreadable,
        "unreadable_records": bad,
    });
    let code = if sound { exit::DONE } else { exit::FAILURE };
    Ok(answered(&format!("{answer:#}"), code))
}

/// Every record as one line.
async fn export(document: &Document) -> Result<u8, StoreError> {
    let (mut failed, mut unreadable) = (None, 0_u64);
    let (_, overview) = look(document, &mut |found| {
        unreadable += u64::from(found.record.is_err());
        let written = output::print(&line(found).to_string());
        failed = written.err();
        failed.is_none()
    })
    .await?;
    if let Some(error) = failed {
        tracing::error!(event = "proc.fail", err = %error, "the records could not be written to standard output");
        return Ok(exit::FAILURE);
    }
    for fault in &overview.faults {
        tracing::error!(event = "store.fault", err = %fault);
    }
    if unreadable > 0 {
        tracing::error!(
            event = "store.record.corrupt",
            unreadable,
            "these have an `error` in place of a record"
        );
    }
    let whole = overview.faults.is_empty() && unreadable == 0;
    Ok(if whole { exit::DONE } else { exit::FAILURE })
}

/// A record as a line. What an agent made and called sensitive is said to be so, for whoever keeps the export.
fn line(found: Found) -> Value {
    let Found { kind, id, record } = found;
    match record {
        Err(error) => json!({ "kind": kind, "id": id, "error": error }),
        Ok(mut record) => {
            if kind == EntryKind::Push.name() {
                hide(&mut record);
            }
            let sensitive = record.pointer("/value/sensitive") == Some(&Value::Bool(true));
            let mut line = json!({ "kind": kind, "id": id, "record": record });
            if sensitive && let Value::Object(members) = &mut line {
                members.insert("sensitive".to_owned(), true.into());
            }
            line
        }
    }
}

/// What a caller's endpoint asks for is sent there, and shown to nobody.
fn hide(record: &mut Value) {
    for place in ["/value/config/token", "/value/config/authentication/credentials"] {
        if let Some(secret) = record.pointer_mut(place) {
            *secret = "(hidden)".into();
        }
    }
}

/// Finds the store and shows its records; where it is.
async fn look(document: &Document, visit: Visit<'_>) -> Result<(String, Overview), StoreError> {
    let instance = document.instance(|name| std::env::var(name).ok());
    let outbound = Outbound {
        tls_ca: document.security.tls_ca.clone(),
        ..Outbound::default()
    };
    match storage::place(document, &instance, &outbound).await? {
        Place::Memory => Err(StoreError::Unavailable(
            "store.kind is memory: it is gone with the agent's process".to_owned(),
        )),
        // It blocks this process alone.
        Place::Folder(folder) => {
            let place = folder.display().to_string();
            Ok((place, sqlite::inspect(&folder, visit)?))
        }
        Place::Mcp(kv) => remote(*kv, document, &instance, visit).await,
        Place::Http(kv) => remote(*kv, document, &instance, visit).await,
    }
}

async fn remote(
    kv: impl Kv,
    document: &Document,
    instance: &str,
    visit: Visit<'_>,
) -> Result<(String, Overview), StoreError> {
    let overview = kv::inspect(&kv, &storage::owner(document, instance), visit).await?;
    Ok((kv.place(), overview))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_callers_endpoint_asks_for_is_hidden() {
        let record = |token: &str| {
            json!({ "value": { "owner": "o", "config": {
            "id": "a", "url": "https://x", "token": token,
            "authentication": { "scheme": "Bearer", "credentials": token }, "version": "1.0" } } })
        };
        let found = Found {
            kind: "push".into(),
            id: "push t/a".into(),
            record: Ok(record("hush")),
        };
        assert_eq!(
            line(found),
            json!({ "kind": "push", "id": "push t/a", "record": record("(hidden)") })
        );
    }

    #[test]
    fn what_was_called_sensitive_is_said_to_be() {
        let found = |record| Found {
            kind: "artifact".into(),
            id: "s k".into(),
            record,
        };
        let secret = json!({ "value": { "sensitive": true } });
        assert_eq!(
            line(found(Ok(secret.clone()))),
            json!({ "kind": "artifact", "id": "s k", "record": secret, "sensitive": true })
        );
        for value in [json!({}), json!({ "sensitive": false }), json!("sensitive")] {
            let plain = json!({ "value": value });
            assert_eq!(
                line(found(Ok(plain.clone()))),
                json!({ "kind": "artifact", "id": "s k", "record": plain })
            );
        }
        assert_eq!(
            line(found(Err("odd".into()))),
            json!({ "kind": "artifact", "id": "s k", "error": "odd" })
        );
    }
}
