//! The commit: one key, the intent, holds what is being written. An answer with an error says nothing of what became of
//! it, so the key itself is looked at; one of which nobody knows whether it arrived has something empty put in its
//! place before anything else is written, so that what callers were told is true.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::clock::SharedClock;
use agentd_state::StoreError;
use tokio::sync::watch;

use super::contract::{Kv, KvError};
use super::envelope::{Intent, Names, Step};
use super::writer::unavailable;

/// Tries to learn whether an intent arrived, and the first pause between two of them.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);
/// An intent of this length is replaced by an empty one when its records are in their places: whoever opens the store
/// next need not read it.
const LONG: usize = 256 * 1024;

/// Why an intent was not written.
pub(super) enum Unwritten {
    /// The server does not take this one; it is not there.
    Refused(KvError),
    /// The store cannot be used now.
    Failed(StoreError),
}

/// Whether the store is still ours.
pub(super) struct Ours(watch::Sender<Option<String>>);

impl Ours {
    pub(super) fn new(lost: watch::Sender<Option<String>>) -> Self {
        Self(lost)
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        match &*self.0.borrow() {
            Some(why) => Err(StoreError::Lost(why.clone())),
            None => Ok(()),
        }
    }

    /// Two processes have the store, and we are the one that goes.
    pub(super) fn lose(&self, place: &str, key: &str) -> StoreError {
        let why = format!(
            "{place}: {key} was written by another process; two agents have the same name and store: stop one of them, \
             or give it another agent.name or store.prefix"
        );
        tracing::error!(event = "store.conflict", err = %why);
        self.0.send_replace(Some(why.clone()));
        StoreError::Lost(why)
    }
}

/// An intent of which nobody knows whether it arrived.
struct Doubt {
    text: String,
    /// What is put in its place.
    instead: String,
}

/// What stands at the intent's key.
enum Seen {
    /// The one of these texts.
    There(usize),
    /// What was there before.
    Before,
    /// What somebody else wrote.
    Foreign,
}

/// See the module.
pub(super) struct Log<K> {
    kv: Arc<K>,
    names: Names,
    clock: SharedClock,
    pub(super) ours: Ours,
    /// The last intent.
    seq: u64,
    generation: u64,
    long: bool,
    doubted: Option<Doubt>,
}

impl<K: Kv> Log<K> {
    pub(super) fn new(
        kv: Arc<K>,
        names: Names,
        clock: SharedClock,
        ours: Ours,
        seq: u64,
        generation: u64,
    ) -> Self {
        Self {
            kv,
            names,
            clock,
            ours,
            seq,
            generation,
            long: false,
            doubted: None,
        }
    }

    /// Commits. `before` and `after`: keys that are there without the steps and with them.
    pub(super) async fn write(&mut self, steps: Vec<Step>, before: u64, after: u64) -> Result<(), Unwritten> {
        let (key, seq) = (self.names.intent(), self.seq + 1);
        let text = self.seal(steps, after);
        if text.len() > self.kv.limit() {
            return Err(Unwritten::Refused(KvError::TooLarge(format!(
                "it takes {} bytes at once, and of more than {} nobody knows whether they can be read back",
                text.len(),
                self.kv.limit()
            ))));
        }
        let mut tries = 0;
        loop {
            let error = match self.kv.put(&key, seq, &text).await {
                Ok(()) => {
                    self.arrived(&text);
                    return Ok(());
                }
                Err(error @ KvError::Unsent(_)) if tries == 0 => {
                    return Err(Unwritten::Failed(unavailable(&*self.kv, &error)));
                }
                Err(error @ (KvError::Unsent(_) | KvError::Unknown(_))) => error,
                Err(error) => match self.look(&[&text]).await {
                    Ok(Seen::There(_)) => {
                        self.arrived(&text);
                        return Ok(());
                    }
                    Ok(Seen::Foreign) => return Err(Unwritten::Failed(self.lose(&key))),
                    Ok(Seen::Before) if tries == 0 => return Err(Unwritten::Refused(error)),
                    // It says nothing of the time before.
                    Ok(Seen::Before) => error,
                    Err(unread) => unread,
                },
            };
            tries += 1;
            tracing::warn!(event = "store.put.unknown", err = %error, tries);
            if tries == TRIES {
                let instead = self.seal(Vec::new(), before);
                self.doubted = Some(Doubt { text, instead });
                return Err(Unwritten::Failed(unavailable(&*self.kv, &error)));
            }
            tokio::time::sleep(PAUSE * 2_u32.pow(tries)).await;
        }
    }

    /// Makes sure that an intent which its callers take for not stored is not carried out.
    pub(super) async fn settle(&mut self, keys: u64) -> Result<(), StoreError> {
        self.ours.check()?;
        let Some(doubt) = self.doubted.take() else {
            return Ok(());
        };
        let (key, seq) = (self.names.intent(), self.seq + 1);
        let sent = self.kv.put_instead(&key, seq, &doubt.instead).await;
        let failed = match self.look(&[&doubt.instead, &doubt.text]).await {
            Ok(Seen::There(0)) => {
                self.arrived(&doubt.instead);
                return Ok(());
            }
            Ok(Seen::There(_)) => {
                self.arrived(&doubt.text);
                return self.empty(keys).await;
            }
            Ok(Seen::Foreign) => return Err(self.lose(&key)),
            Ok(Seen::Before) => {
                let taken = KvError::Unknown("it does not give back what it took".to_owned());
                sent.err().unwrap_or(taken)
            }
            Err(error) => error,
        };
        self.doubted = Some(doubt);
        Err(unavailable(&*self.kv, &failed))
    }

    /// What became of one batch alone that failed with this. If something empty is taken in its place, the server is
    /// well, and it is this batch that it trips on.
    pub(super) async fn told_apart(&mut self, error: StoreError, keys: u64) -> StoreError {
        match error {
            StoreError::Unavailable(why) if self.doubted.is_some() => match self.settle(keys).await {
                Ok(()) => StoreError::Refused(why),
                Err(lost @ StoreError::Lost(_)) => lost,
                Err(_) => StoreError::Unavailable(why),
            },
            error => error,
        }
    }

    /// Leaves nothing to be read at the next start but what is short. All records are in their places.
    pub(super) async fn tidy(&mut self, keys: u64) {
        if self.long && self.doubted.is_none() {
            // It is as well to have a long one.
            let _ = self.empty(keys).await;
        }
    }

    async fn empty(&mut self, keys: u64) -> Result<(), StoreError> {
        match self.write(Vec::new(), keys, keys).await {
            Ok(()) => Ok(()),
            Err(Unwritten::Refused(error)) => Err(unavailable(&*self.kv, &error)),
            Err(Unwritten::Failed(error)) => Err(error),
        }
    }

    fn seal(&self, steps: Vec<Step>, keys: u64) -> String {
        let intent = Intent {
            generation: self.generation,
            keys: Some(keys),
            steps,
        };
        let state = serde_json::to_value(&intent).unwrap_or_default();
        self.names
            .seal(&self.names.intent(), self.seq + 1, self.clock.now(), state)
    }

    fn arrived(&mut self, text: &str) {
        self.seq += 1;
        self.long = text.len() > LONG;
    }

    async fn look(&self, texts: &[&str]) -> Result<Seen, KvError> {
        let key = self.names.intent();
        let unreadable = |error: StoreError| KvError::Unknown(error.to_string());
        let found = self.kv.get(&key).await?;
        let found = found.ok_or_else(|| KvError::Unknown(format!("{key} is gone")))?;
        let found = self.names.open(&key, &found).map_err(unreadable)?;
        let is_found = |text: &&str| self.names.open(&key, text).is_ok_and(|own| own == found);
        if let Some(at) = texts.iter().position(is_found) {
            return Ok(Seen::There(at));
        }
        let own = found.state.get("generation").and_then(serde_json::Value::as_u64) == Some(self.generation);
        if own && found.seq == self.seq {
            return Ok(Seen::Before);
        }
        Ok(Seen::Foreign)
    }

    fn lose(&self, key: &str) -> StoreError {
        self.ours.lose(&self.kv.place(), key)
    }
}
