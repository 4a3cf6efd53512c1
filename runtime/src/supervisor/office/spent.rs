//! What a turn and the subagents below it used, as far as the supervisor was told: with each call, not at the end, so
//! that `limits.run` bounds the whole tree of a turn while it grows. Pure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentd_agent::{Status, TurnLimits};

/// See the module. What is added to one is added to all above it.
#[derive(Debug)]
pub struct Spent {
    limits: TurnLimits,
    steps: AtomicU64,
    tokens: AtomicU64,
    /// The share of subagents.
    below: AtomicU64,
    above: Option<Arc<Spent>>,
}

impl Spent {
    /// Nothing yet, of what a turn may use up; `above` is that of the turn which began it and waits for it.
    pub fn new(limits: TurnLimits, above: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            steps: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            below: AtomicU64::new(0),
            above,
        })
    }

    /// What its turn may use up.
    pub fn limits(&self) -> TurnLimits {
        self.limits
    }

    /// Adds to it, and to all above it.
    pub fn add(&self, steps: u64, tokens: u64) {
        self.count(steps, tokens);
        let mut above = self.above.as_ref();
        while let Some(spent) = above {
            spent.count(steps, tokens);
            spent.below.fetch_add(1, Ordering::Relaxed);
            above = spent.above.as_ref();
        }
    }

    fn count(&self, steps: u64, tokens: u64) {
        self.steps.fetch_add(steps, Ordering::Relaxed);
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    /// Steps that are left of its own limits.
    pub fn steps_left(&self) -> u64 {
        u64::from(self.limits.steps).saturating_sub(self.steps.load(Ordering::Relaxed))
    }

    /// Tokens that are left of its own limits.
    pub fn tokens_left(&self) -> u64 {
        self.limits
            .tokens
            .saturating_sub(self.tokens.load(Ordering::Relaxed))
    }

    /// What the tree that it is part of has used up. A turn without subagents sees to its own limits itself.
    pub fn is_used_up(&self) -> Option<Status> {
        let mut next = Some(self);
        while let Some(spent) = next {
            if spent.below.load(Ordering::Relaxed) > 0 {
                if spent.tokens_left() == 0 {
                    return Some(Status::ExhaustedTokens);
                }
                if spent.steps_left() == 0 {
                    return Some(Status::ExhaustedSteps);
                }
            }
            next = spent.above.as_deref();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_a_grandchild_uses_is_used_of_all_above_it() {
        let limits = |steps, tokens| TurnLimits {
            steps,
            tokens,
            deadline: Duration::from_secs(1),
        };
        let root = Spent::new(limits(10, 100), None);
        let child = Spent::new(limits(5, 50), Some(root.clone()));
        let grandchild = Spent::new(limits(5, 50), Some(child.clone()));
        root.add(1, 10);
        child.add(1, 10);
        grandchild.add(2, 30);
        assert_eq!((root.steps_left(), root.tokens_left()), (6, 50));
        assert_eq!((child.steps_left(), child.tokens_left()), (2, 10));
        assert_eq!((grandchild.steps_left(), grandchild.tokens_left()), (3, 20));
        assert_eq!(grandchild.is_used_up(), None);
        // The child has nothing left: what is below it ends too, what is above it does not.
        child.add(0, 10);
        assert_eq!(
            (root.is_used_up(), child.is_used_up(), grandchild.is_used_up()),
            (None, Some(Status::ExhaustedTokens), Some(Status::ExhaustedTokens))
        );
        root.add(5, 0);
        assert_eq!(root.is_used_up(), None);
        root.add(1, 0);
        assert_eq!(root.is_used_up(), Some(Status::ExhaustedSteps));
        // One that has no subagents is no business of its supervisor.
        let alone = Spent::new(limits(1, 1), None);
        alone.add(9, 9);
        assert_eq!(alone.is_used_up(), None);
    }
}
