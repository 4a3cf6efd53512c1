//! Which task may run: tasks of one conversation in the order they came, conversations side by side. Pure. A lane
//! exists exactly while one of its tasks runs, so nothing is left behind and nothing is requeued.

use std::collections::{HashMap, VecDeque};

/// Messages that may wait behind the running one of a conversation: more than a person or an agent sends before it
/// reads an answer.
pub const WAITING: usize = 32;
/// Tasks that may be open in all conversations: each holds a message of up to 1 MiB.
pub const OPEN: usize = 512;

/// Too many are waiting already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// In this conversation.
    Conversation,
    /// In all of them.
    Agent,
}

/// The lanes, by conversation.
#[derive(Debug)]
pub struct Lanes<T> {
    waiting: HashMap<String, VecDeque<T>>,
    open: usize,
    /// Places that were promised to tasks on their way here.
    promised: usize,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self {
            waiting: HashMap::new(),
            open: 0,
            promised: 0,
        }
    }
}

impl<T> Lanes<T> {
    /// Promises a place to one more task; [`Self::redeem`] gives the promise back.
    ///
    /// # Errors
    /// Says which bound is reached.
    pub fn promise(&mut self, conversation: &str) -> Result<(), Full> {
        if self.open + self.promised >= OPEN {
            return Err(Full::Agent);
        }
        if self
            .waiting
            .get(conversation)
            .is_some_and(|waiting| waiting.len() >= WAITING)
        {
            return Err(Full::Conversation);
        }
        self.promised += 1;
        Ok(())
    }

    /// The task that was promised a place comes now, or never.
    pub fn redeem(&mut self) {
        self.promised = self.promised.saturating_sub(1);
    }

    /// Adds a task. When nothing of its conversation runs it is handed back: run it now.
    pub fn add(&mut self, conversation: &str, task: T) -> Option<T> {
        self.open += 1;
        match self.waiting.get_mut(conversation) {
            Some(waiting) => {
                waiting.push_back(task);
                None
            }
            None => {
                self.waiting.insert(conversation.to_owned(), VecDeque::new());
                Some(task)
            }
        }
    }

    /// The running task of the conversation has ended: the next one, if any waits.
    pub fn next(&mut self, conversation: &str) -> Option<T> {
        self.open = self.open.saturating_sub(1);
        let next = self.waiting.get_mut(conversation)?.pop_front();
        if next.is_none() {
            self.waiting.remove(conversation);
        }
        next
    }

    /// Whether nothing runs and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_conversation_in_order_and_two_side_by_side() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.add("a", 1), Some(1));
        assert_eq!(lanes.add("a", 2), None);
        assert_eq!(lanes.add("a", 3), None);
        assert_eq!(lanes.add("b", 4), Some(4));
        assert_eq!(lanes.next("a"), Some(2));
        assert_eq!(lanes.next("b"), None);
        assert_eq!(lanes.next("a"), Some(3));
        assert!(!lanes.is_idle());
        assert_eq!(lanes.next("a"), None);
        assert!(lanes.is_idle());
        assert_eq!(lanes.add("a", 5), Some(5));
    }

    #[test]
    fn bounds_hold_and_are_given_back() {
        let mut lanes = Lanes::default();
        let take = |lanes: &mut Lanes<usize>, conversation: &str, task| {
            lanes.promise(conversation)?;
            lanes.redeem();
            lanes.add(conversation, task);
            Ok(())
        };
        for task in 0..=WAITING {
            assert_eq!(take(&mut lanes, "a", task), Ok(()));
        }
        assert_eq!(take(&mut lanes, "a", 0), Err(Full::Conversation));
        for task in WAITING + 1..OPEN {
            assert_eq!(take(&mut lanes, &format!("c{task}"), task), Ok(()));
        }
        assert_eq!(lanes.promise("b"), Err(Full::Agent));
        lanes.next("a");
        assert_eq!(lanes.promise("b"), Ok(()));
        assert_eq!(lanes.promise("b"), Err(Full::Agent), "a promise counts");
        lanes.redeem();
        assert_eq!(lanes.promise("b"), Ok(()));
    }
}
