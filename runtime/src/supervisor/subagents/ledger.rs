//! Who may begin a subagent now: depth, breadth, total of those that live, how fast, and how much of that one principal
//! may have. Pure. What has ended is not counted; what only waits for a message makes room.

use std::collections::HashMap;

use agentd_base::rate::Rate;
use tokio::time::Instant;

/// What is allowed (`limits.subagents`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bounds {
    /// Generations below a conversation.
    pub(super) depth: u32,
    /// Live ones of one parent.
    pub(super) breadth: usize,
    /// Live ones of the agent.
    pub(super) total: usize,
    /// How fast.
    pub(super) rate: Rate,
    /// Whether several principals share the total and the rate: each has at most half.
    pub(super) is_shared: bool,
}

impl Bounds {
    fn total_of_one(&self) -> usize {
        if self.is_shared {
            self.total.div_ceil(2)
        } else {
            self.total
        }
    }

    fn burst_of_one(&self) -> f64 {
        let burst = f64::from(self.rate.burst);
        if self.is_shared {
            (burst / 2.0).max(1.0)
        } else {
            burst
        }
    }
}

/// One that asks to live.
#[derive(Debug, Clone, Copy)]
pub(super) struct Newcomer<'a> {
    pub(super) handle: &'a str,
    /// The principal of its conversation.
    pub(super) owner: &'a str,
    /// The conversation or the subagent that begins it.
    pub(super) parent: &'a str,
    pub(super) depth: u32,
}

/// One that lives.
#[derive(Debug)]
struct Living {
    owner: String,
    parent: String,
    depth: u32,
    /// Since when it only waits for a message.
    waits: Option<Instant>,
}

/// What is left of a burst, and as of when.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    since: Instant,
}

impl Bucket {
    /// As of now, of a burst that fills so fast.
    fn at(bucket: Option<Self>, burst: f64, per_second: f64, now: Instant) -> Self {
        let before = bucket.unwrap_or(Self {
            left: burst,
            since: now,
        });
        let refilled = now.saturating_duration_since(before.since).as_secs_f64() * per_second;
        Self {
            left: (before.left + refilled).min(burst),
            since: now,
        }
    }
}

/// Those that live, by handle.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    living: HashMap<String, Living>,
    all: Option<Bucket>,
    /// Of principals whose share of the burst is not full.
    each: HashMap<String, Bucket>,
}

impl Ledger {
    /// Takes one in, or says why not. Where there is no room the one that waited longest for a message gives its place
    /// up: it is to be ended.
    pub(super) fn admit(
        &mut self,
        new: Newcomer<'_>,
        bounds: &Bounds,
        now: Instant,
    ) -> Result<Option<String>, String> {
        if new.depth > bounds.depth {
            return Err(format!(
                "subagents go {} generations deep (limits.subagents.depth)",
                bounds.depth
            ));
        }
        let own = self
            .living
            .values()
            .filter(|one| one.parent == new.parent)
            .count();
        if own >= bounds.breadth {
            return Err(format!(
                "{own} subagents of yours live, and no more may (limits.subagents.breadth); wait for one or end one"
            ));
        }
        let leaves = self.room(new, bounds)?;
        let burst = f64::from(bounds.rate.burst);
        let per_second = burst / bounds.rate.per.0.as_secs_f64().max(0.001);
        let all = Bucket::at(self.all, burst, per_second, now);
        let (share, of_one) = (bounds.burst_of_one(), self.each.get(new.owner).copied());
        let one = Bucket::at(of_one, share, per_second * share / burst, now);
        let begins = all.left >= 1.0 && one.left >= 1.0;
        let taken = |bucket: Bucket| Bucket {
            left: bucket.left - f64::from(u8::from(begins)),
            ..bucket
        };
        self.all = Some(taken(all));
        self.each.insert(new.owner.to_owned(), taken(one));
        self.each.retain(|_, bucket| {
            Bucket::at(Some(*bucket), share, per_second * share / burst, now).left < share
        });
        if !begins {
            return Err("subagents are begun too fast (limits.subagents.rate); wait a moment".to_owned());
        }
        if let Some(leaves) = &leaves {
            self.living.remove(leaves);
        }
        let living = Living {
            owner: new.owner.to_owned(),
            parent: new.parent.to_owned(),
            depth: new.depth,
            waits: None,
        };
        self.living.insert(new.handle.to_owned(), living);
        Ok(leaves)
    }

    /// Who leaves for a newcomer, if anybody must: of its own principal where that has its share already, else of
    /// whoever has the most.
    fn room(&self, new: Newcomer<'_>, bounds: &Bounds) -> Result<Option<String>, String> {
        let has = |owner: &str| self.living.values().filter(|one| one.owner == owner).count();
        let own = has(new.owner);
        let is_over = own >= bounds.total_of_one();
        if !is_over && self.living.len() < bounds.total {
            return Ok(None);
        }
        let mut waiting: Vec<(&String, &Living, Instant)> = self
            .living
            .iter()
            .filter_map(|(handle, one)| Some((handle, one, one.waits?)))
            .filter(|(_, one, _)| !is_over || one.owner == new.owner)
            .collect();
        waiting.sort_by_key(|(_, one, since)| (std::cmp::Reverse(has(&one.owner)), *since));
        match waiting.first() {
            Some((handle, ..)) => Ok(Some((*handle).clone())),
            None if is_over => Err(format!(
                "{own} subagents of this principal live, and no more may (limits.subagents.total)"
            )),
            None => Err(format!(
                "{} subagents of this agent live, and no more may (limits.subagents.total)",
                self.living.len()
            )),
        }
    }

    /// It only waits for a message since then, or does so no more.
    pub(super) fn waits(&mut self, handle: &str, since: Option<Instant>) {
        if let Some(one) = self.living.get_mut(handle) {
            one.waits = since;
        }
    }

    /// It has ended.
    pub(super) fn release(&mut self, handle: &str) {
        self.living.remove(handle);
    }

    /// Whose this one is, if it lives.
    pub(super) fn owner(&self, handle: &str) -> Option<&str> {
        self.living.get(handle).map(|one| one.owner.as_str())
    }

    /// How many live.
    pub(super) fn live(&self) -> usize {
        self.living.len()
    }

    /// Generations of those that live, and the most that one parent has.
    pub(super) fn extent(&self) -> (u32, usize) {
        let depth = self.living.values().map(|one| one.depth).max();
        let mut of_parents = HashMap::<&str, usize>::new();
        for one in self.living.values() {
            *of_parents.entry(&one.parent).or_default() += 1;
        }
        let breadth = of_parents.into_values().max();
        (depth.unwrap_or_default(), breadth.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn bounds() -> Bounds {
        Bounds {
            depth: 2,
            breadth: 2,
            total: 3,
            rate: "4/2s".parse().unwrap(),
            is_shared: false,
        }
    }

    fn new<'a>(handle: &'a str, owner: &'a str, parent: &'a str, depth: u32) -> Newcomer<'a> {
        Newcomer {
            handle,
            owner,
            parent,
            depth,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn m2_depth_breadth_total_and_rate_of_those_that_live() {
        let mut ledger = Ledger::default();
        let now = Instant::now();
        let mut admit = |handle: &str, parent: &str, depth| {
            let admitted = ledger.admit(new(handle, "o", parent, depth), &bounds(), now);
            admitted.map(|leaves| assert_eq!(leaves, None))
        };
        assert!(admit("deep", "c", 3).unwrap_err().contains("depth"));
        admit("1", "c", 1).unwrap();
        admit("2", "c", 1).unwrap();
        assert!(admit("3", "c", 1).unwrap_err().contains("breadth"));
        admit("4", "1", 2).unwrap();
        assert!(admit("5", "d", 1).unwrap_err().contains("total"));
        ledger.release("4");
        ledger.admit(new("6", "o", "d", 1), &bounds(), now).unwrap();
        ledger.release("6");
        let refused = ledger.admit(new("7", "o", "d", 1), &bounds(), now).unwrap_err();
        assert!(refused.contains("rate"), "{refused}");
        let later = now + Duration::from_millis(500);
        ledger.admit(new("7", "o", "d", 1), &bounds(), later).unwrap();
        assert_eq!(ledger.live(), 3);
        assert_eq!(ledger.extent(), (1, 2));
        // Nothing is kept of a principal whose burst is full again.
        ledger.release("7");
        let later = later + Duration::from_secs(9);
        ledger.admit(new("8", "p", "e", 1), &bounds(), later).unwrap();
        assert_eq!(ledger.each.keys().collect::<Vec<_>>(), ["p"]);
    }

    #[tokio::test(start_paused = true)]
    async fn m2_one_principal_takes_neither_all_places_nor_the_whole_rate() {
        let bounds = Bounds {
            total: 4,
            is_shared: true,
            ..bounds()
        };
        let mut ledger = Ledger::default();
        let now = Instant::now();
        for handle in ["1", "2"] {
            ledger.admit(new(handle, "a", "c", 1), &bounds, now).unwrap();
        }
        let refused = ledger.admit(new("3", "a", "d", 1), &bounds, now).unwrap_err();
        assert!(refused.contains("of this principal"), "{refused}");
        ledger.release("1");
        // Half of the burst is used up, the other half is for others.
        let refused = ledger.admit(new("3", "a", "d", 1), &bounds, now).unwrap_err();
        assert!(refused.contains("rate"), "{refused}");
        ledger.admit(new("4", "b", "e", 1), &bounds, now).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn m2_whoever_only_waits_makes_room_the_longest_first() {
        let bounds = Bounds {
            total: 4,
            rate: "100/1s".parse().unwrap(),
            is_shared: true,
            ..bounds()
        };
        let mut ledger = Ledger::default();
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        for (handle, owner) in [("1", "a"), ("2", "a"), ("3", "b")] {
            ledger.admit(new(handle, owner, handle, 1), &bounds, now).unwrap();
        }
        ledger.waits("1", Some(later));
        ledger.waits("2", Some(now));
        ledger.waits("3", Some(now));
        // Its own share is full: one of its own goes.
        let leaves = ledger.admit(new("4", "a", "4", 1), &bounds, later).unwrap();
        assert_eq!(leaves.as_deref(), Some("2"));
        // All is full: one of whoever has the most goes.
        ledger.admit(new("5", "c", "5", 1), &bounds, later).unwrap();
        let leaves = ledger.admit(new("6", "c", "6", 1), &bounds, later).unwrap();
        assert_eq!(leaves.as_deref(), Some("1"));
        // One that was spoken to does not wait.
        ledger.waits("3", None);
        let refused = ledger.admit(new("7", "d", "7", 1), &bounds, later).unwrap_err();
        assert!(refused.contains("of this agent"), "{refused}");
        assert_eq!(ledger.live(), 4);
    }
}
