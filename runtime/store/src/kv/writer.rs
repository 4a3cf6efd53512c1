//! The one writer. A group of batches is written down as one intent, which commits it: one request, whole or not at all.
//! Then its records are put one by one; whoever opens the store after a crash finishes what the last intent says. The
//! next intent is written when the records of the last one are in their places. A group that the server refuses is
//! written batch by batch: one that it never takes does not keep the others from it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentd_base::clock::SharedClock;
use agentd_state::{Retention, StoreError, Write};
use futures::stream::{self, StreamExt as _};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

use super::contract::{Kv, KvError};
use super::envelope::{Names, Step, inbox};
use super::load::{CONCURRENT, Loaded};
use super::log::{Log, Ours, Unwritten};
use super::place::{Placed, place};
use crate::working::{Change, Key, Working, end_of, time_of};

/// Batches of one intent.
const GROUP: usize = 64;
/// Records that one intent lets go of beside what it writes: after a long rest there may be many.
const DROPS: usize = 500;

/// Who waits for a batch.
type Done = oneshot::Sender<Result<(), StoreError>>;

/// What is to be written, and who waits for it. No writes: whether a write would succeed.
pub(super) struct Job {
    pub(super) batch: Vec<Write>,
    pub(super) done: Done,
}

/// A batch that can be applied.
struct Accepted {
    changes: Vec<Change>,
    done: Done,
}

pub(super) struct Writer<K> {
    pub(super) kv: Arc<K>,
    pub(super) names: Names,
    pub(super) clock: SharedClock,
    pub(super) retention: Retention,
    pub(super) working: Arc<Mutex<Working>>,
    pub(super) seqs: HashMap<String, u64>,
    /// The same of records that cannot be read.
    pub(super) spoilt: HashMap<String, u64>,
    log: Log<K>,
    /// Steps of the last intent that are not in their places.
    pending: Vec<Step>,
    /// Records that retention let go of, and that are still there.
    dropped: Vec<String>,
    /// How many of them an intent lets go of: fewer where the server took no more.
    drops: usize,
    /// A group failed and nobody knows for which batch: batches go alone until one succeeds.
    careful: bool,
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
        let ours = Ours::new(lost);
        let (seq, generation) = (loaded.intent_seq, loaded.generation);
        Self {
            log: Log::new(kv.clone(), names.clone(), clock.clone(), ours, seq, generation),
            kv,
            names,
            clock,
            retention,
            working: Arc::new(Mutex::new(loaded.working)),
            seqs: loaded.seqs,
            spoilt: loaded.spoilt,
            pending: Vec::new(),
            dropped: loaded.dropped,
            drops: DROPS,
            careful: false,
        }
    }

    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut first = None;
        // What it takes when it is sealed is known then.
        let most = self.kv.limit() / 2;
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
                if bytes > most {
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
            return answer(group.into_iter().map(|job| job.done), &error);
        }
        let group = self.claimed(group).await;
        let accepted = self.accept(group);
        let mut rounds: VecDeque<Vec<Accepted>> = if self.careful {
            accepted.into_iter().map(|one| vec![one]).collect()
        } else {
            VecDeque::from([accepted])
        };
        while let Some(round) = rounds.pop_front() {
            if round.is_empty() {
                continue;
            }
            if let Err(error) = self.ready().await {
                let rest = round.into_iter().chain(rounds.into_iter().flatten());
                return answer(rest.map(|one| one.done), &error);
            }
            let drops = self.drops.min(self.dropped.len());
            let error = match self.write(&round).await {
                Ok(()) => {
                    self.careful = false;
                    self.keep(round);
                    // Whoever writes next waits for it and hears of a failure.
                    if self.ready().await.is_ok() {
                        let keys = self.keys();
                        self.log.tidy(keys).await;
                    }
                    continue;
                }
                Err(Unwritten::Refused(KvError::TooLarge(_))) if drops > 0 => {
                    self.drops = drops / 2;
                    rounds.push_front(round);
                    continue;
                }
                Err(Unwritten::Refused(_)) if round.len() > 1 => {
                    for one in round.into_iter().rev() {
                        rounds.push_front(vec![one]);
                    }
                    continue;
                }
                Err(Unwritten::Refused(KvError::TooLarge(why))) => {
                    StoreError::Full(format!("{}: {why}", self.kv.place()))
                }
                Err(Unwritten::Refused(error)) => {
                    StoreError::Refused(format!("{}: {error}", self.kv.place()))
                }
                Err(Unwritten::Failed(error)) if round.len() > 1 => {
                    self.careful = true;
                    error
                }
                Err(Unwritten::Failed(error)) => {
                    let keys = self.keys();
                    self.log.told_apart(error, keys).await
                }
            };
            answer(round.into_iter().map(|one| one.done), &error);
        }
    }

    /// Commits what was accepted.
    async fn write(&mut self, round: &[Accepted]) -> Result<(), Unwritten> {
        let steps = self.steps(round);
        let before = self.keys();
        let new = |step: &&Step| step.text.is_some() && !self.seqs.contains_key(&step.key);
        let new = steps.iter().filter(new).count() as u64;
        let gone = steps.iter().filter(|step| step.text.is_none()).count() as u64;
        self.log.write(steps.clone(), before, before + new - gone).await?;
        let written: HashSet<String> = round
            .iter()
            .flat_map(|one| &one.changes)
            .map(|change| self.names.of(&change.key()))
            .collect();
        self.dropped.drain(..self.drops.min(self.dropped.len()));
        self.dropped.retain(|key| !written.contains(key));
        for step in &steps {
            match step.text {
                Some(_) => self.seqs.insert(step.key.clone(), step.seq),
                None => self.seqs.remove(&step.key),
            };
        }
        self.pending = steps;
        Ok(())
    }

    /// Keys that are there and can be read.
    fn keys(&self) -> u64 {
        self.seqs.len() as u64
    }

    /// The batches that can be applied, one after the other.
    fn accept(&mut self, group: Vec<Job>) -> Vec<Accepted> {
        let (mut all, mut accepted): (Vec<Change>, Vec<Accepted>) = (Vec::new(), Vec::new());
        let mut gone = Vec::new();
        for Job { batch, done } in group {
            let batch: Result<Vec<Change>, StoreError> = batch.into_iter().map(Change::of).collect();
            let checked = batch.and_then(|batch| {
                let mut working = lock(&self.working);
                if let Some(now) = time_of(&batch) {
                    gone.extend(working.expire(now));
                }
                let before = all.len();
                all.extend(batch.iter().cloned());
                let checked = working.check(&all, self.retention);
                if checked.is_err() {
                    all.truncate(before);
                }
                checked.map(|()| batch)
            });
            match checked {
                Ok(changes) => accepted.push(Accepted { changes, done }),
                Err(error) => {
                    let _ = done.send(Err(error));
                }
            }
        }
        self.dropped.extend(gone.iter().map(|key| self.names.of(key)));
        accepted
    }

    /// One step a key: the last change of it, and what retention let go of before.
    fn steps(&self, round: &[Accepted]) -> Vec<Step> {
        let mut states: BTreeMap<String, Option<Value>> = BTreeMap::new();
        for key in self.dropped.iter().take(self.drops) {
            states.insert(key.clone(), None);
        }
        for change in round.iter().flat_map(|one| &one.changes) {
            states.insert(self.names.of(&change.key()), change.state());
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
    fn keep(&mut self, round: Vec<Accepted>) {
        let (mut changes, mut waiting) = (Vec::new(), Vec::new());
        for one in round {
            changes.extend(one.changes);
            waiting.push(one.done);
        }
        let end = end_of(&changes);
        let mut working = lock(&self.working);
        for change in changes {
            working.apply(change);
        }
        if let Some(now) = end {
            let gone = working.retain(self.retention, now);
            self.dropped.extend(gone.iter().map(|key| self.names.of(key)));
        }
        drop(working);
        for done in waiting {
            let _ = done.send(Ok(()));
        }
    }

    /// Finishes the last intent, unless the store is no longer ours.
    async fn ready(&mut self) -> Result<(), StoreError> {
        let keys = self.keys();
        self.log.settle(keys).await?;
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
                Ok(Placed::Foreign) => return Err(self.log.ours.lose(&kv.place(), &step.key)),
                Err(error) => {
                    self.pending.push(step);
                    failed = Some(error);
                }
            }
        }
        failed.map_or(Ok(()), |error| Err(unavailable(&*self.kv, &error)))
    }
}

/// Tells everybody the same error.
fn answer(waiting: impl Iterator<Item = Done>, error: &StoreError) {
    let mut batches = 0;
    for done in waiting {
        batches += 1;
        let _ = done.send(Err(again(error)));
    }
    tracing::error!(event = "store.put.fail", err = %error, batches);
}

impl Change {
    /// What is changed.
    fn key(&self) -> Key {
        match self {
            Self::Conversation(id, _) => Key::Conversation(id.clone()),
            Self::Task(id, _) => Key::Task(id.clone()),
            Self::MessageId((owner, message_id), _) => Key::Message(owner.clone(), message_id.clone()),
            Self::Entry(name, _) | Self::DropEntry(name) => Key::Entry(name.clone()),
        }
    }

    /// The state to keep; none for what is dropped.
    fn state(&self) -> Option<Value> {
        match self {
            Self::Conversation(_, record) => Some(record.value()),
            Self::Task(_, row) => Some(row.value()),
            Self::MessageId((owner, message_id), noted) => {
                Some(inbox(owner, message_id, &noted.task_id, &noted.digest))
            }
            Self::Entry(_, row) => Some(row.value()),
            Self::DropEntry(_) => None,
        }
    }
}

/// The same error for another caller.
fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Conflict(text) => StoreError::Conflict(text.clone()),
        StoreError::Full(text) => StoreError::Full(text.clone()),
        StoreError::Refused(text) => StoreError::Refused(text.clone()),
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
