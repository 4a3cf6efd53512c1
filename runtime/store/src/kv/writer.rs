//! The one writer. A group of batches is written down as one intent, which commits it: one request, whole or not at all.
//! Then its records are put one by one; whoever opens the store after a crash finishes what the last intent says. The
//! next intent is written when the records of the last one are in their places.
//!
//! An intent of which nobody knows whether it arrived is sent again a few times; then its callers are told that nothing
//! was stored, and before anything else is written it is sent once more and replaced by the next intent, so that what
//! they were told is true. What is sent under one key and number is always the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentd_base::clock::SharedClock;
use agentd_state::{Retention, StoreError, Write};
use futures::stream::{self, StreamExt as _};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

use super::contract::{Kv, KvError};
use super::envelope::{Intent, Names, Step, inbox};
use super::load::{CONCURRENT, Loaded};
use super::place::{Placed, place, write_over};
use crate::working::{Change, Key, Working, end_of, time_of};

/// Batches of one intent, and what they take: servers bound a value.
const GROUP: usize = 64;
const GROUP_BYTES: usize = 4 * 1024 * 1024;
/// Tries to learn whether an intent arrived, and the first pause between two of them.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);

/// What is to be written, and who waits for it. No writes: whether a write would succeed.
pub(super) struct Job {
    pub(super) batch: Vec<Write>,
    pub(super) done: oneshot::Sender<Result<(), StoreError>>,
}

pub(super) struct Writer<K> {
    pub(super) kv: Arc<K>,
    pub(super) names: Names,
    pub(super) clock: SharedClock,
    pub(super) retention: Retention,
    pub(super) working: Arc<Mutex<Working>>,
    seqs: HashMap<String, u64>,
    /// The same of records that cannot be read.
    spoilt: HashMap<String, u64>,
    intent_seq: u64,
    generation: u64,
    /// The intent after `intent_seq`, of which nobody knows whether it arrived.
    doubted: Option<String>,
    /// Steps of the last intent that are not in their places.
    pending: Vec<Step>,
    /// Records that retention let go of, and that are still there.
    dropped: Vec<String>,
    lost: watch::Sender<Option<String>>,
}

/// What the store cannot do now.
pub(super) fn unavailable<K: Kv>(kv: &K, error: &KvError) -> StoreError {
    StoreError::Unavailable(format!("{}: {error}", kv.place()))
}

pub(super) fn lock(working: &Mutex<Working>) -> MutexGuard<'_, Working> {
    working.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Kv> Writer<K> {
    pub(super) fn new(
        kv: Arc<K>,
        names: Names,
        clock: SharedClock,
        retention: Retention,
        loaded: Loaded,
        lost: watch::Sender<Option<String>>,
    ) -> Self {
        Self {
            kv,
            names,
            clock,
            retention,
            working: Arc::new(Mutex::new(loaded.working)),
            seqs: loaded.seqs,
            spoilt: loaded.spoilt,
            intent_seq: loaded.intent_seq,
            generation: loaded.generation,
            doubted: None,
            pending: Vec::new(),
            dropped: loaded.dropped,
            lost,
        }
    }

    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut first = None;
        loop {
            let next = match first.take() {
                Some(job) => Some(job),
                None => jobs.recv().await,
            };
            let Some(job) = next else { return };
            let mut bytes = size_of(&job.batch);
            let mut group = vec![job];
            while group.len() < GROUP
                && let Ok(job) = jobs.try_recv()
            {
                bytes += size_of(&job.batch);
                if bytes > GROUP_BYTES {
                    first = Some(job);
                    break;
                }
                group.push(job);
            }
            self.commit(group).await;
        }
    }

    /// Answers everybody of the group.
    async fn commit(&mut self, group: Vec<Job>) {
        if let Err(error) = self.ready().await {
            tracing::error!(event = "store.put.fail", err = %error, batches = group.len());
            for job in group {
                let _ = job.done.send(Err(again(&error)));
            }
            return;
        }
        let group = self.claimed(group).await;
        let (changes, waiting) = self.accept(group);
        if waiting.is_empty() {
            return;
        }
        let steps = self.steps(&changes);
        let written = self.write_intent(steps.clone()).await;
        if let Err(error) = &written {
            tracing::error!(event = "store.put.fail", err = %error, batches = waiting.len());
            for done in waiting {
                let _ = done.send(Err(again(error)));
            }
            return;
        }
        for step in &steps {
            match step.text {
                Some(_) => self.seqs.insert(step.key.clone(), step.seq),
                None => self.seqs.remove(&step.key),
            };
        }
        self.dropped.clear();
        self.pending = steps;
        self.keep(changes);
        for done in waiting {
            let _ = done.send(Ok(()));
        }
        // Whoever writes next waits for it and hears of a failure.
        let _ = self.ready().await;
    }

    /// Without the batches that write what the server lets nobody write over.
    async fn claimed(&mut self, group: Vec<Job>) -> Vec<Job> {
        let mut claimed = Vec::with_capacity(group.len());
        for job in group {
            match self.claim(&job.batch).await {
                Ok(()) => claimed.push(job),
                Err(error) => {
                    tracing::error!(event = "store.put.fail", err = %error);
                    let _ = job.done.send(Err(error));
                }
            }
        }
        claimed
    }

    /// Puts something that can be read in place of what cannot, before a write of it is acknowledged.
    async fn claim(&mut self, batch: &[Write]) -> Result<(), StoreError> {
        if self.spoilt.is_empty() {
            return Ok(());
        }
        for write in batch {
            let key = self.names.of(&key_of(write));
            let Some(at) = self.spoilt.get(&key).copied() else {
                continue;
            };
            let failed = |error: KvError| unavailable(&*self.kv, &error);
            let seq = match self.kv.get(&key).await.map_err(failed)? {
                // Somebody removed it.
                None => None,
                Some(found) => match self.names.open(&key, &found) {
                    Ok(envelope) => Some(envelope.seq),
                    Err(why) => {
                        let (now, seq) = (self.clock.now(), at + 1);
                        let text = Some(self.names.seal(&key, seq, now, Value::Null));
                        let step = Step {
                            key: key.clone(),
                            seq,
                            text,
                        };
                        let placed = write_over(&*self.kv, &self.names, now, &step, &why, &found);
                        match placed.await.map_err(failed)? {
                            Placed::At(seq) => Some(seq),
                            Placed::Spoilt(_) | Placed::Foreign => return Err(why),
                        }
                    }
                },
            };
            self.spoilt.remove(&key);
            if let Some(seq) = seq {
                self.seqs.insert(key, seq);
            }
        }
        Ok(())
    }

    /// The changes of the batches that can be applied, one after the other, and who waits for them.
    fn accept(&mut self, group: Vec<Job>) -> (Vec<Change>, Vec<oneshot::Sender<Result<(), StoreError>>>) {
        let (mut changes, mut waiting): (Vec<Change>, Vec<_>) = (Vec::new(), Vec::new());
        let mut gone = Vec::new();
        for Job { batch, done } in group {
            let batch: Result<Vec<Change>, StoreError> = batch.into_iter().map(Change::of).collect();
            let checked = batch.and_then(|batch| {
                let mut working = lock(&self.working);
                if let Some(now) = time_of(&batch) {
                    gone.extend(working.expire(now));
                }
                let before = changes.len();
                changes.extend(batch);
                let checked = working.check(&changes, self.retention);
                if checked.is_err() {
                    changes.truncate(before);
                }
                checked
            });
            match checked {
                Ok(()) => waiting.push(done),
                Err(error) => {
                    let _ = done.send(Err(error));
                }
            }
        }
        self.dropped.extend(gone.iter().map(|key| self.names.of(key)));
        (changes, waiting)
    }

    /// One step a key: the last change of it, and what retention let go of before.
    fn steps(&self, changes: &[Change]) -> Vec<Step> {
        let mut states: BTreeMap<String, Option<Value>> = BTreeMap::new();
        for key in &self.dropped {
            states.insert(key.clone(), None);
        }
        for change in changes {
            let (key, state) = change.state();
            states.insert(self.names.of(&key), state);
        }
        let now = self.clock.now();
        let mut steps = Vec::new();
        for (key, state) in states {
            let before = self.seqs.get(&key).copied();
            match (state, before) {
                // It was never there.
                (None, None) => {}
                (None, Some(seq)) if self.kv.deletes() => steps.push(Step { key, seq, text: None }),
                (state, before) => {
                    let seq = before.unwrap_or_default() + 1;
                    let text = self.names.seal(&key, seq, now, state.unwrap_or_default());
                    steps.push(Step {
                        key,
                        seq,
                        text: Some(text),
                    });
                }
            }
        }
        steps
    }

    /// Applies what is committed, and lets go of what is to go by now.
    fn keep(&mut self, changes: Vec<Change>) {
        let end = end_of(&changes);
        let mut working = lock(&self.working);
        for change in changes {
            working.apply(change);
        }
        if let Some(now) = end {
            let gone = working.retain(self.retention, now);
            drop(working);
            self.dropped.extend(gone.iter().map(|key| self.names.of(key)));
        }
    }

    /// The commit.
    async fn write_intent(&mut self, steps: Vec<Step>) -> Result<(), StoreError> {
        let intent = Intent {
            generation: self.generation,
            steps,
        };
        let (key, seq) = (self.names.intent(), self.intent_seq + 1);
        let state = serde_json::to_value(&intent).unwrap_or_default();
        let text = self.names.seal(&key, seq, self.clock.now(), state);
        let mut tries = 0;
        loop {
            match self.put_intent(&key, &text).await? {
                Ok(()) => return Ok(()),
                Err(error @ KvError::Refused(_)) if tries == 0 => return Err(unavailable(&*self.kv, &error)),
                // Once it was sent, a refusal to take it again says nothing of the first time.
                Err(error) => {
                    tries += 1;
                    tracing::warn!(event = "store.put.unknown", err = %error, tries);
                    if tries == TRIES {
                        self.doubted = Some(text);
                        return Err(unavailable(&*self.kv, &error));
                    }
                }
            }
            tokio::time::sleep(PAUSE * 2_u32.pow(tries)).await;
        }
    }

    /// Sends an intent. An error of the store's: somebody else has it.
    async fn put_intent(&mut self, key: &str, text: &str) -> Result<Result<(), KvError>, StoreError> {
        let seq = self.intent_seq + 1;
        let put = match self.kv.put(key, seq, text).await {
            Err(KvError::Conflict(_)) => match self.is_ours(key, text).await {
                Ok(true) => Ok(()),
                Ok(false) => return Err(self.lose(key)),
                // It is not known to be refused.
                Err(error) => Err(KvError::Unknown(error.to_string())),
            },
            put => put,
        };
        if put.is_ok() {
            self.intent_seq = seq;
        }
        Ok(put)
    }

    /// Finishes the last intent, unless the store is no longer ours.
    async fn ready(&mut self) -> Result<(), StoreError> {
        if let Some(why) = self.lost.borrow().clone() {
            return Err(StoreError::Lost(why));
        }
        if let Some(text) = self.doubted.take() {
            let key = self.names.intent();
            if let Err(error) = self.put_intent(&key, &text).await? {
                self.doubted = Some(text);
                return Err(unavailable(&*self.kv, &error));
            }
        }
        let steps = std::mem::take(&mut self.pending);
        let (kv, names, now) = (&*self.kv, &self.names, self.clock.now());
        let outcomes: Vec<(Step, Result<Placed, KvError>)> = stream::iter(steps)
            .map(|step| async move {
                let placed = place(kv, names, now, &step).await;
                (step, placed)
            })
            .buffer_unordered(CONCURRENT)
            .collect()
            .await;
        let mut failed = None;
        for (step, outcome) in outcomes {
            match outcome {
                Ok(Placed::At(seq)) => {
                    if step.text.is_some() {
                        self.seqs.insert(step.key, seq);
                    }
                }
                Ok(Placed::Spoilt(at)) => {
                    self.seqs.remove(&step.key);
                    self.spoilt.insert(step.key, at);
                }
                Ok(Placed::Foreign) => return Err(self.lose(&step.key)),
                Err(error) => {
                    self.pending.push(step);
                    failed = Some(error);
                }
            }
        }
        failed.map_or(Ok(()), |error| Err(unavailable(&*self.kv, &error)))
    }

    /// Whether what is under the key is what we put there.
    async fn is_ours(&self, key: &str, text: &str) -> Result<bool, KvError> {
        let found = self.kv.get(key).await?;
        let same = |found: String| {
            let ours = self.names.open(key, text).ok();
            ours.is_some() && self.names.open(key, &found).ok() == ours
        };
        Ok(found.is_some_and(same))
    }

    /// Two processes have the store, and we are the one that goes.
    fn lose(&self, key: &str) -> StoreError {
        let why = format!(
            "{}: {key} was written by another process; two agents have the same name and store: stop one of them, or \
             give it another agent.name or store.prefix",
            self.kv.place()
        );
        tracing::error!(event = "store.conflict", err = %why);
        self.lost.send_replace(Some(why.clone()));
        StoreError::Lost(why)
    }
}

/// What is written.
fn key_of(write: &Write) -> Key {
    match write {
        Write::Conversation(record) => Key::Conversation(record.id.clone()),
        Write::Task(record) => Key::Task(record.id.clone()),
        Write::MessageId {
            owner, message_id, ..
        } => Key::Message(owner.clone(), message_id.clone()),
        Write::Entry(entry) => Key::Entry((entry.kind, entry.scope.clone(), entry.key.clone())),
        Write::DropEntry { kind, scope, key } => Key::Entry((*kind, scope.clone(), key.clone())),
    }
}

impl Change {
    /// The key and the state to keep; none for what is dropped.
    fn state(&self) -> (Key, Option<Value>) {
        match self {
            Self::Conversation(id, record) => (Key::Conversation(id.clone()), Some(record.value())),
            Self::Task(id, row) => (Key::Task(id.clone()), Some(row.value())),
            Self::MessageId((owner, message_id), noted) => (
                Key::Message(owner.clone(), message_id.clone()),
                Some(inbox(owner, message_id, &noted.task_id, &noted.digest)),
            ),
            Self::Entry(name, row) => (Key::Entry(name.clone()), Some(row.value())),
            Self::DropEntry(name) => (Key::Entry(name.clone()), None),
        }
    }
}

/// The same error for another caller.
fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Conflict(text) => StoreError::Conflict(text.clone()),
        StoreError::Full(text) => StoreError::Full(text.clone()),
        StoreError::Lost(text) => StoreError::Lost(text.clone()),
        StoreError::Unavailable(text) => StoreError::Unavailable(text.clone()),
        StoreError::Corrupt(text) => StoreError::Corrupt(text.clone()),
    }
}

/// What a batch takes, roughly.
fn size_of(batch: &[Write]) -> usize {
    let bytes: u64 = batch.iter().map(super::size_of_write).sum();
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
