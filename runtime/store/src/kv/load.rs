//! Opens what is stored: takes the store over from the process before, finishes what that one had begun, reads all
//! records.

use std::collections::HashMap;

use agentd_base::text::clip;
use agentd_state::{Retention, StoreError};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;

use super::contract::{Kv, KvError};
use super::envelope::{Envelope, Intent, KEY_CHARS, Names, Step, seq_of};
use super::place::write_over;
use super::writer::unavailable;
use crate::working::{Change, Working, end_of, time_of};

/// Requests at once.
pub(super) const CONCURRENT: usize = 8;
/// Pages of the list of keys.
pub(super) const PAGES: usize = 10_000;
/// All records together: they are kept in memory. More than the bounds of what is kept, for what is open beside it.
const LOAD_BYTES: u64 = 256 * 1024 * 1024;

/// What was found.
pub(super) struct Loaded {
    pub(super) working: Working,
    /// Of each key: how often it was written.
    pub(super) seqs: HashMap<String, u64>,
    /// The same of records that cannot be read, as far as that can be told.
    pub(super) spoilt: HashMap<String, u64>,
    pub(super) intent_seq: u64,
    pub(super) generation: u64,
    /// Keys of records that are to go.
    pub(super) dropped: Vec<String>,
    /// The newest time of a record, and of a task's end: retention goes by the writes' own times.
    time: Option<Timestamp>,
    end: Option<Timestamp>,
}

/// Takes the store over and reads it.
pub(super) async fn load<K: Kv>(
    kv: &K,
    names: &Names,
    retention: Retention,
    now: Timestamp,
) -> Result<Loaded, StoreError> {
    let (intent_seq, intent) = take_over(kv, names, now).await?;
    let (generation, keys) = (intent.generation, intent.keys);
    let steps = stream::iter(intent.steps).map(|step| async move { replay(kv, names, now, &step).await });
    steps.buffer_unordered(CONCURRENT).try_collect::<()>().await?;
    let mut loaded = Loaded {
        working: Working::default(),
        seqs: HashMap::new(),
        spoilt: HashMap::new(),
        intent_seq,
        generation,
        dropped: Vec::new(),
        time: None,
        end: None,
    };
    let (mut next, mut bytes) = (None, 0_u64);
    for _ in 0..PAGES {
        let page = kv.list(names.root(), next.as_deref()).await;
        let page = page.map_err(|error| unavailable(kv, &error))?;
        let is_record = |key: &String| key.starts_with(names.root()) && *key != names.intent();
        let mut texts = stream::iter(page.keys.into_iter().filter(is_record))
            .map(|key| async move {
                let text = listed(kv, &key).await;
                (key, text)
            })
            .buffer_unordered(CONCURRENT);
        while let Some((key, text)) = texts.next().await {
            let text = text?;
            bytes += text.len() as u64;
            loaded.take(names, &key, &text);
            if bytes > LOAD_BYTES {
                return Err(StoreError::Unavailable(format!(
                    "{}: there are more than {} MiB under {}; keep less, or use the store kind `file`",
                    kv.place(),
                    LOAD_BYTES / 1024 / 1024,
                    names.root()
                )));
            }
        }
        next = page.next;
        if next.is_none() {
            loaded.is_all(kv, names, keys)?;
            // What the last write let go of may still be there.
            let expired = loaded
                .time
                .map(|now| loaded.working.expire(now))
                .unwrap_or_default();
            let ended = loaded
                .end
                .map(|now| loaded.working.retain(retention, now))
                .unwrap_or_default();
            loaded.dropped = expired.iter().chain(&ended).map(|key| names.of(key)).collect();
            return Ok(loaded);
        }
    }
    Err(StoreError::Unavailable(format!(
        "{}: the list of keys does not end",
        kv.place()
    )))
}

impl Loaded {
    /// A list that ends early is not all there is.
    fn is_all<K: Kv>(&self, kv: &K, names: &Names, keys: Option<u64>) -> Result<(), StoreError> {
        let found = (self.seqs.len() + self.spoilt.len()) as u64;
        let Some(keys) = keys.filter(|keys| found < *keys) else {
            return Ok(());
        };
        Err(StoreError::Unavailable(format!(
            "{}: its list has {found} of {keys} keys under {}; when it comes in pages, list.next must say where in the \
             answer the next one begins. If records were removed by hand, remove {} too",
            kv.place(),
            names.root(),
            names.intent()
        )))
    }

    /// One bad record does not keep the agent from the others.
    fn take(&mut self, names: &Names, key: &str, text: &str) {
        let opened = names.open(key, text).and_then(|envelope| {
            let seq = envelope.seq;
            let change = envelope.write()?.map(Change::of).transpose()?;
            self.seqs.insert(key.to_owned(), seq);
            Ok(change)
        });
        match opened {
            Ok(Some(change)) => {
                self.time = self.time.max(time_of(std::slice::from_ref(&change)));
                self.end = self.end.max(end_of(std::slice::from_ref(&change)));
                self.working.apply(change);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::error!(event = "store.record.corrupt", err = %error);
                // Whoever writes it next writes over it.
                self.spoilt
                    .insert(key.to_owned(), seq_of(text).unwrap_or_default());
            }
        }
    }
}

/// The value of a key that is in the list.
async fn listed<K: Kv>(kv: &K, key: &str) -> Result<String, StoreError> {
    // Once more: it may have gone while the list was made.
    for _ in 0..2 {
        let text = kv.get(key).await.map_err(|error| unavailable(kv, &error))?;
        if let Some(text) = text {
            return Ok(text);
        }
    }
    Err(StoreError::Unavailable(format!(
        "{}: {} is in the list of keys, and there is no value of it; without it this agent would forget what it \
         acknowledged. If somebody spoilt it, remove the key",
        kv.place(),
        clip(key, KEY_CHARS)
    )))
}

/// There is certainly no intent: it is not in the list either.
async fn is_new<K: Kv>(kv: &K, names: &Names) -> Result<(), StoreError> {
    let (key, mut next) = (names.intent(), None);
    for _ in 0..PAGES {
        let page = kv.list(&key, next.as_deref()).await;
        let page = page.map_err(|error| unavailable(kv, &error))?;
        if page.keys.contains(&key) {
            // It is an error, unless it came meanwhile.
            return listed(kv, &key).await.and(Err(StoreError::Unavailable(format!(
                "{}: {key} was not there and is there",
                kv.place()
            ))));
        }
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    Ok(())
}

/// Writes the intent again as ours, so that whoever had the store before can commit nothing more.
async fn take_over<K: Kv>(kv: &K, names: &Names, now: Timestamp) -> Result<(u64, Intent), StoreError> {
    let key = names.intent();
    let found = read(kv, names, &key).await?;
    if found.is_none() {
        is_new(kv, names).await?;
    }
    let before = found.as_ref().map_or(0, |envelope| envelope.seq);
    let mut intent = found.map(Intent::of).transpose()?.unwrap_or_default();
    intent.generation += 1;
    let seq = before + 1;
    let state = serde_json::to_value(&intent).unwrap_or_default();
    let text = names.seal(&key, seq, now, state);
    match kv.put(&key, seq, &text).await {
        Ok(()) => {
            let kept = read(kv, names, &key).await?;
            if kept.is_none_or(|kept| kept.seq != seq) {
                return Err(StoreError::Unavailable(format!(
                    "{}: it took {key} and does not give it back; does the mapping of get say where the value is?",
                    kv.place()
                )));
            }
            Ok((seq, intent))
        }
        Err(KvError::Conflict(detail)) if read(kv, names, &key).await?.is_none_or(|now| now.seq != seq) => {
            Err(StoreError::Unavailable(format!(
                "{}: {key} is at {before}, and still the server does not take {seq} ({detail}); does it compare \
                 sequence numbers as the contract says?",
                kv.place()
            )))
        }
        Err(KvError::Conflict(_)) => Err(StoreError::Lost(format!(
            "{}: another agent named like this one began at the same time; give each a name of its own",
            kv.place()
        ))),
        Err(error) => Err(unavailable(kv, &error)),
    }
}

async fn read<K: Kv>(kv: &K, names: &Names, key: &str) -> Result<Option<Envelope>, StoreError> {
    let text = kv.get(key).await.map_err(|error| unavailable(kv, &error))?;
    text.map(|text| names.open(key, &text)).transpose()
}

/// Carries out a step that may have been carried out.
async fn replay<K: Kv>(kv: &K, names: &Names, now: Timestamp, step: &Step) -> Result<(), StoreError> {
    let failed = |error: KvError| unavailable(kv, &error);
    let at = match kv.get(&step.key).await.map_err(failed)? {
        None => 0,
        Some(found) => match names.open(&step.key, &found) {
            Ok(envelope) => envelope.seq,
            Err(error) => {
                let placed = write_over(kv, names, now, step, &error, &found).await;
                return placed.map(drop).map_err(failed);
            }
        },
    };
    let done = match &step.text {
        Some(text) if at < step.seq => kv.put(&step.key, step.seq, text).await,
        None if at == step.seq => kv.delete(&step.key, step.seq).await,
        _ => Ok(()),
    };
    done.map_err(failed)
}
