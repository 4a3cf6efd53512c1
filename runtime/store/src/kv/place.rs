//! Brings a step of a committed intent into its place. A record that nobody can read is written over: it is no sign of
//! another process, and what was acknowledged counts.

use agentd_state::StoreError;
use jiff::Timestamp;

use super::contract::{Kv, KvError};
use super::envelope::{Envelope, Names, Step, seq_of};

/// Numbers that are tried where none is told.
const GUESSES: usize = 8;

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placed {
    /// It is there, and the key is at this number.
    At(u64),
    /// The server took something for it that nobody can read, and takes nothing else. The number, as far as that can
    /// be told.
    Spoilt(u64),
    /// There is what another process wrote.
    Foreign,
}

/// Carries out a step; one that was carried out before does no harm.
pub(super) async fn place<K: Kv>(
    kv: &K,
    names: &Names,
    now: Timestamp,
    step: &Step,
) -> Result<Placed, KvError> {
    let sent = match &step.text {
        Some(text) => kv.put(&step.key, step.seq, text).await,
        None => kv.delete(&step.key, step.seq).await,
    };
    match sent {
        Ok(()) => return Ok(Placed::At(step.seq)),
        Err(KvError::Conflict(_)) => {}
        Err(error) => return Err(error),
    }
    let own = step
        .text
        .as_ref()
        .and_then(|text| names.open(&step.key, text).ok());
    let Some(found) = kv.get(&step.key).await? else {
        // Deleted is deleted.
        let gone = own.map_or(Placed::At(step.seq), |_| Placed::Foreign);
        return Ok(gone);
    };
    match names.open(&step.key, &found) {
        Ok(found) if own.as_ref() == Some(&found) => Ok(Placed::At(step.seq)),
        Ok(_) => Ok(Placed::Foreign),
        Err(error) => write_over(kv, names, now, step, &error, &found).await,
    }
}

/// Carries out a step where a record stands that cannot be read.
pub(super) async fn write_over<K: Kv>(
    kv: &K,
    names: &Names,
    now: Timestamp,
    step: &Step,
    why: &StoreError,
    found: &str,
) -> Result<Placed, KvError> {
    tracing::error!(event = "store.record.corrupt", err = %why);
    let at = seq_of(found);
    let Some(own) = step
        .text
        .as_ref()
        .and_then(|text| names.open(&step.key, text).ok())
    else {
        let deleted = kv.delete(&step.key, at.unwrap_or(step.seq)).await;
        return match deleted {
            Ok(()) => Ok(Placed::At(step.seq)),
            Err(KvError::Conflict(_)) => Ok(Placed::Spoilt(at.unwrap_or_default())),
            Err(error) => Err(error),
        };
    };
    // Where its number is not told, the step was not carried out, or it was and then spoilt, and so with each start.
    let first = at.map_or(step.seq, |at| step.seq.max(at + 1));
    let tries = if at.is_some() { 1 } else { GUESSES };
    for seq in (first..).take(tries) {
        let text = names.seal(&step.key, seq, now, own.state.clone());
        match kv.put(&step.key, seq, &text).await {
            Ok(()) | Err(KvError::Conflict(_)) => {}
            Err(error) => return Err(error),
        }
        // A server may take a number that it has for the same text sent again.
        if let Some(there) = readable(kv, names, &step.key).await?
            && there.state == own.state
        {
            return Ok(Placed::At(there.seq));
        }
    }
    tracing::error!(
        event = "store.record.lost",
        key = step.key,
        err = "the server takes nothing in place of a record that cannot be read; remove it there"
    );
    Ok(Placed::Spoilt(at.unwrap_or_default()))
}

/// What is there, if it can be read.
async fn readable<K: Kv>(kv: &K, names: &Names, key: &str) -> Result<Option<Envelope>, KvError> {
    let found = kv.get(key).await?;
    Ok(found.and_then(|found| names.open(key, &found).ok()))
}
