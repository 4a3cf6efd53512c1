//! A look into a remote store that takes nothing over: what its agent has committed, with the last intent's records
//! where they are not yet in their places. An agent that writes meanwhile may change what is seen from key to key.

use std::collections::BTreeMap;

use agentd_state::StoreError;
use futures::stream::{self, StreamExt as _};
use serde_json::Value;

use super::Owner;
use super::contract::Kv;
use super::envelope::{Intent, Names, VERSION};
use super::load::{CONCURRENT, PAGES};
use super::writer::unavailable;
use crate::inspect::{Found, Overview, Visit, judge_value};

/// Looks into the keys of `owner`.
///
/// # Errors
/// [`StoreError::Unavailable`] when the server does not answer.
pub async fn inspect<K: Kv>(kv: &K, owner: &Owner, visit: Visit<'_>) -> Result<Overview, StoreError> {
    let names = Names::new(&owner.prefix, &owner.instance);
    let mut overview = Overview {
        schema: (u64::from(VERSION), u64::from(VERSION)),
        faults: Vec::new(),
    };
    let mut steps: BTreeMap<String, Option<String>> = match intent(kv, &names).await? {
        Some(Ok(intent)) => intent
            .steps
            .into_iter()
            .map(|step| (step.key, step.text))
            .collect(),
        Some(Err(why)) => {
            overview.faults.push(why);
            BTreeMap::new()
        }
        None => {
            overview
                .faults
                .push(format!("there is nothing of an agent under {}", names.root()));
            BTreeMap::new()
        }
    };
    let mut next = None;
    for _ in 0..PAGES {
        let page = kv.list(names.root(), next.as_deref()).await;
        let page = page.map_err(|error| unavailable(kv, &error))?;
        let keys = page.keys.into_iter().filter(|key| key.starts_with(names.root()));
        let mut texts = stream::iter(keys)
            .map(|key| async move {
                let text = kv.get(&key).await;
                (key, text)
            })
            .buffered(CONCURRENT);
        while let Some((key, text)) = texts.next().await {
            let stored = text.map_err(|error| unavailable(kv, &error))?;
            // The last intent is what counts.
            let text = steps.remove(&key).unwrap_or(stored);
            if let Some(text) = text
                && !show(&names, &key, &text, visit)
            {
                return Ok(overview);
            }
        }
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    for (key, text) in steps {
        if let Some(text) = text
            && !show(&names, &key, &text, visit)
        {
            break;
        }
    }
    Ok(overview)
}

async fn intent<K: Kv>(kv: &K, names: &Names) -> Result<Option<Result<Intent, String>>, StoreError> {
    let key = names.intent();
    let text = kv.get(&key).await.map_err(|error| unavailable(kv, &error))?;
    Ok(text.map(|text| {
        let envelope = names.open(&key, &text).map_err(|error| error.to_string())?;
        Intent::of(envelope).map_err(|error| error.to_string())
    }))
}

/// False when no more is wanted.
fn show(names: &Names, key: &str, text: &str, visit: Visit<'_>) -> bool {
    if key == names.intent() {
        return true;
    }
    let (kind, id) = names.split(key);
    let found = |record| Found {
        kind: kind.to_owned(),
        id: id.to_owned(),
        record,
    };
    match names.open(key, text) {
        Err(error) => visit(found(Err(error.to_string()))),
        Ok(envelope) if envelope.state == Value::Null => true,
        Ok(envelope) => visit(found(judge_value(kind, envelope.state))),
    }
}
