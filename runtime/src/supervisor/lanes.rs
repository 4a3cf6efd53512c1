//! Which task may run: tasks of one conversation in the order they came, conversations side by side. Pure. A lane
//! exists exactly while one of its tasks runs, so nothing is left behind and nothing is requeued. What waits is known
//! here by its id and size only: the messages are in the store.

use std::collections::{HashMap, VecDeque};

/// Messages that may wait behind the running one of a conversation: more than a person or an agent sends before it
/// reads an answer.
pub const WAITING: usize = 32;
/// Tasks that may be open in all conversations: hours of work for the turns that run at once.
pub const OPEN: usize = 512;
/// Tasks of one principal that may be open: half, so that nobody fills the agent alone.
pub const OPEN_OF_ONE: usize = OPEN / 2;
/// What the open tasks may take in the store: a part of its volume, and of memory where the store is there, that an
/// agent can always spare. Messages that people write are a thousandth of this.
pub const OPEN_BYTES: u64 = 32 * 1024 * 1024;
/// What the open tasks of one principal may take: a few of the largest messages, or thousands of usual ones.
pub const OPEN_BYTES_OF_ONE: u64 = OPEN_BYTES / 4;

/// A task that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// Who sent it.
    pub owner: String,
    /// The conversation's key.
    pub conversation: String,
    /// What it takes in the store.
    pub bytes: u64,
}

/// Too many are waiting already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// In this conversation.
    #[error("too many messages of this conversation wait already")]
    Conversation,
    /// Of this principal.
    #[error("too many messages of this caller wait already")]
    Principal,
    /// In all.
    #[error("too many messages wait already")]
    Agent,
}

/// What is open, or promised a place.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Usage {
    tasks: usize,
    bytes: u64,
}

impl Usage {
    /// Whether one more of this size is within the bounds. A single task always is: a bound must not refuse for ever
    /// what it lets through at another time.
    fn takes(self, bytes: u64, tasks_bound: usize, bytes_bound: u64) -> bool {
        self.tasks < tasks_bound && (self.tasks == 0 || self.bytes.saturating_add(bytes) <= bytes_bound)
    }

    fn add(&mut self, bytes: u64) {
        self.tasks += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn remove(&mut self, bytes: u64) {
        self.tasks = self.tasks.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// The lanes, by conversation.
#[derive(Debug, Default)]
pub struct Lanes {
    waiting: HashMap<String, VecDeque<Entry>>,
    all: Usage,
    by_owner: HashMap<String, Usage>,
}

impl Lanes {
    /// Promises a place to a task that is on its way here; [`Self::redeem`] gives the promise back.
    ///
    /// # Errors
    /// Says which bound is reached.
    pub fn promise(&mut self, entry: &Entry) -> Result<(), Full> {
        if !self.all.takes(entry.bytes, OPEN, OPEN_BYTES) {
            return Err(Full::Agent);
        }
        let own = self.by_owner.get(&entry.owner).copied().unwrap_or_default();
        if !own.takes(entry.bytes, OPEN_OF_ONE, OPEN_BYTES_OF_ONE) {
            return Err(Full::Principal);
        }
        let waiting = self.waiting.get(&entry.conversation);
        if waiting.is_some_and(|waiting| waiting.len() >= WAITING) {
            return Err(Full::Conversation);
        }
        self.count(entry);
        Ok(())
    }

    /// The task that was promised a place comes now, or never.
    pub fn redeem(&mut self, entry: &Entry) {
        self.discount(entry);
    }

    /// Adds a task. When nothing of its conversation runs it is handed back: run it now.
    pub fn add(&mut self, entry: Entry) -> Option<Entry> {
        self.count(&entry);
        match self.waiting.get_mut(&entry.conversation) {
            Some(waiting) => {
                waiting.push_back(entry);
                None
            }
            None => {
                self.waiting.insert(entry.conversation.clone(), VecDeque::new());
                Some(entry)
            }
        }
    }

    /// This task, which ran, has ended: the next one of its conversation, if any waits.
    pub fn next(&mut self, ended: &Entry) -> Option<Entry> {
        self.discount(ended);
        let next = self.waiting.get_mut(&ended.conversation)?.pop_front();
        if next.is_none() {
            self.waiting.remove(&ended.conversation);
        }
        next
    }

    /// How many tasks there are, and of how many conversations one runs or is about to.
    pub fn open(&self) -> (usize, usize) {
        (self.all.tasks, self.waiting.len())
    }

    fn count(&mut self, entry: &Entry) {
        self.all.add(entry.bytes);
        let own = self.by_owner.entry(entry.owner.clone()).or_default();
        own.add(entry.bytes);
    }

    fn discount(&mut self, entry: &Entry) {
        self.all.remove(entry.bytes);
        if let Some(own) = self.by_owner.get_mut(&entry.owner) {
            own.remove(entry.bytes);
            if own.tasks == 0 {
                self.by_owner.remove(&entry.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(owner: &str, conversation: &str, id: usize, bytes: u64) -> Entry {
        Entry {
            id: id.to_string(),
            owner: owner.into(),
            conversation: format!("{owner} {conversation}"),
            bytes,
        }
    }

    fn take(lanes: &mut Lanes, entry: Entry) -> Result<(), Full> {
        lanes.promise(&entry)?;
        lanes.redeem(&entry);
        lanes.add(entry);
        Ok(())
    }

    #[test]
    fn one_conversation_in_order_and_two_side_by_side() {
        let mut lanes = Lanes::default();
        let [one, two, three, five] = [1, 2, 3, 5].map(|id| entry("o", "a", id, 1));
        let four = entry("o", "b", 4, 1);
        assert_eq!(lanes.add(one.clone()), Some(one.clone()));
        assert_eq!(lanes.add(two.clone()), None);
        assert_eq!(lanes.add(three.clone()), None);
        assert_eq!(lanes.add(four.clone()), Some(four.clone()));
        assert_eq!(lanes.next(&one), Some(two.clone()));
        assert_eq!(lanes.next(&four), None);
        assert_eq!(lanes.next(&two), Some(three.clone()));
        assert_eq!(lanes.next(&three), None);
        assert!(lanes.waiting.is_empty() && lanes.by_owner.is_empty());
        assert_eq!(lanes.all, Usage::default());
        assert_eq!(lanes.add(five.clone()), Some(five));
    }

    #[test]
    fn the_number_is_bounded_in_a_conversation_for_a_principal_and_in_all() {
        let mut lanes = Lanes::default();
        let first = entry("alice", "a", 0, 1);
        assert_eq!(take(&mut lanes, first.clone()), Ok(()));
        for id in 1..=WAITING {
            assert_eq!(take(&mut lanes, entry("alice", "a", id, 1)), Ok(()));
        }
        assert_eq!(
            lanes.promise(&entry("alice", "a", 99, 1)),
            Err(Full::Conversation)
        );
        for id in WAITING + 1..OPEN_OF_ONE {
            assert_eq!(take(&mut lanes, entry("alice", &format!("c{id}"), id, 1)), Ok(()));
        }
        assert_eq!(lanes.promise(&entry("alice", "new", 0, 1)), Err(Full::Principal));
        for id in OPEN_OF_ONE..OPEN {
            let owner = format!("o{}", id % 4);
            assert_eq!(take(&mut lanes, entry(&owner, &format!("c{id}"), id, 1)), Ok(()));
        }
        let more = entry("carol", "c", 0, 1);
        assert_eq!(lanes.promise(&more), Err(Full::Agent));
        lanes.next(&first);
        assert_eq!(lanes.promise(&more), Ok(()));
        assert_eq!(lanes.promise(&more), Err(Full::Agent), "a promise counts");
        lanes.redeem(&more);
        assert_eq!(lanes.promise(&more), Ok(()));
    }

    #[test]
    fn the_bytes_are_bounded_for_a_principal_and_in_all_and_given_back() {
        let mut lanes = Lanes::default();
        let large = OPEN_BYTES_OF_ONE / 2;
        let first = entry("alice", "1", 0, large);
        assert_eq!(take(&mut lanes, first.clone()), Ok(()));
        assert_eq!(take(&mut lanes, entry("alice", "2", 0, large)), Ok(()));
        assert_eq!(lanes.promise(&entry("alice", "3", 0, 1)), Err(Full::Principal));
        for owner in ["bob", "carol", "dave"] {
            for context in ["1", "2"] {
                assert_eq!(take(&mut lanes, entry(owner, context, 0, large)), Ok(()));
            }
        }
        assert_eq!(lanes.promise(&entry("erin", "1", 0, 1)), Err(Full::Agent));
        lanes.next(&first);
        assert_eq!(lanes.promise(&entry("erin", "1", 0, large)), Ok(()));
        // Whatever was admitted before a restart is counted, and nobody is refused for ever.
        let mut lanes = Lanes::default();
        let huge = entry("alice", "1", 0, OPEN_BYTES * 2);
        assert_eq!(take(&mut lanes, huge.clone()), Ok(()));
        assert_eq!(lanes.promise(&entry("bob", "1", 0, 1)), Err(Full::Agent));
        lanes.next(&huge);
        assert_eq!(lanes.promise(&entry("bob", "1", 0, 1)), Ok(()));
    }
}
