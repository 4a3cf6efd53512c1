//! A remote store in the test's own memory, with compare-and-set, that fails when it is told to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use agentd_base::clock::FixedClock;
use agentd_state::StoreError;
use agentd_store::kv::{KeyPage, KvError};
use agentd_store::{Kv, KvStore, Owner};
use async_trait::async_trait;
use tokio::sync::Notify;

/// What the server holds: it outlives its clients.
pub type Held = Arc<Mutex<BTreeMap<String, (u64, String)>>>;

/// When a client of it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The change is not carried out.
    Before,
    /// It is, and nobody hears of it.
    After,
}

/// A connection to it.
#[derive(Clone)]
pub struct TestKv {
    pub held: Held,
    pub deletes: bool,
    /// Changes that are still carried out, and how the one after them ends. `None`: all are.
    pub fuse: Arc<Mutex<Option<(usize, End)>>>,
    /// The fuse has burnt.
    pub dead: Arc<Notify>,
    /// Answers to the next changes, each of which is not carried out.
    pub answers: Arc<Mutex<Vec<KvError>>>,
    /// Changes that were carried out.
    pub changes: Arc<Mutex<Vec<String>>>,
    /// The next changes are carried out, and this is said of them.
    pub after: Arc<Mutex<Vec<KvError>>>,
    /// What it says of a text that it never takes.
    pub refuses: fn(&str) -> Option<KvError>,
    pub limit: usize,
    /// Keys whose value it does not give so often.
    pub hides: Arc<Mutex<BTreeMap<String, usize>>>,
    /// It says of no page that there is another.
    pub ends_early: bool,
    /// What it makes of a text that it gives back.
    pub rewrites: fn(String) -> String,
}

/// The store in it, which keeps everything.
pub async fn open(kv: impl Kv) -> Result<KvStore, StoreError> {
    let owner = Owner {
        prefix: "agentd".into(),
        instance: "test".into(),
    };
    let clock = Arc::new(FixedClock::new(jiff::Timestamp::UNIX_EPOCH));
    KvStore::open(kv, &owner, super::ALL, clock).await
}

impl TestKv {
    pub fn new(held: &Held) -> Self {
        Self {
            held: held.clone(),
            deletes: true,
            fuse: Arc::default(),
            dead: Arc::default(),
            answers: Arc::default(),
            changes: Arc::default(),
            rewrites: |text| text,
            after: Arc::default(),
            refuses: |_| None,
            hides: Arc::default(),
            ends_early: false,
            limit: 8 * 1024 * 1024,
        }
    }

    pub fn ends_after(self, changes: usize, end: End) -> Self {
        *self.fuse.lock().unwrap() = Some((changes, end));
        self
    }

    fn change(
        &self,
        what: String,
        change: impl FnOnce(&mut BTreeMap<String, (u64, String)>) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        if let Some(answer) = self.answers.lock().unwrap().pop() {
            return Err(answer);
        }
        let mut fuse = self.fuse.lock().unwrap();
        let burnt = match &mut *fuse {
            None => None,
            Some((0, end)) => Some(std::mem::replace(end, End::Before)),
            Some((left, _)) => {
                *left -= 1;
                None
            }
        };
        if burnt.is_some() {
            self.dead.notify_one();
        }
        if burnt == Some(End::Before) {
            return Err(KvError::Unknown("dead".into()));
        }
        change(&mut self.held.lock().unwrap())?;
        self.changes.lock().unwrap().push(what);
        if let Some(answer) = self.after.lock().unwrap().pop() {
            return Err(answer);
        }
        burnt.map_or(Ok(()), |_| Err(KvError::Unknown("dead".into())))
    }
}

#[async_trait]
impl Kv for TestKv {
    async fn put(&self, key: &str, seq: u64, text: &str) -> Result<(), KvError> {
        if let Some(refusal) = (self.refuses)(text) {
            return Err(refusal);
        }
        self.change(format!("put {key}#{seq}"), |held| {
            let at = held.get(key).map_or(0, |(at, _)| *at);
            if at + 1 != seq {
                return Err(KvError::Conflict(format!("{key} is at {at}")));
            }
            held.insert(key.to_owned(), (seq, text.to_owned()));
            Ok(())
        })
    }

    async fn get(&self, key: &str) -> Result<Option<String>, KvError> {
        if let Some(times) = self.hides.lock().unwrap().get_mut(key)
            && *times > 0
        {
            *times -= 1;
            return Ok(None);
        }
        let held = self.held.lock().unwrap();
        Ok(held.get(key).map(|(_, text)| (self.rewrites)(text.clone())))
    }

    async fn list(&self, prefix: &str, next: Option<&str>) -> Result<KeyPage, KvError> {
        let held = self.held.lock().unwrap();
        let after = next.unwrap_or_default();
        let keys = held
            .keys()
            .filter(|key| key.starts_with(prefix) && key.as_str() > after);
        let keys: Vec<String> = keys.take(7).cloned().collect();
        let next = (keys.len() == 7 && !self.ends_early).then(|| keys[6].clone());
        Ok(KeyPage { keys, next })
    }

    fn limit(&self) -> usize {
        self.limit
    }

    fn deletes(&self) -> bool {
        self.deletes
    }

    async fn delete(&self, key: &str, seq: u64) -> Result<(), KvError> {
        assert!(self.deletes);
        self.change(format!("delete {key}#{seq}"), |held| match held.get(key) {
            Some((at, _)) if *at != seq => Err(KvError::Conflict(format!("{key} is at {at}"))),
            _ => {
                held.remove(key);
                Ok(())
            }
        })
    }

    fn place(&self) -> String {
        "the test's server".into()
    }
}
