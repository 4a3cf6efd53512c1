//! Who may begin a subagent now: depth, breadth, total of those that live, and how fast. Pure. What has ended is not
//! counted.

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
}

/// Those that live, by handle, with their parents.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    parents: HashMap<String, String>,
    /// What is left of the burst, and as of when.
    tokens: Option<(f64, Instant)>,
}

impl Ledger {
    /// Takes one in, or says why not.
    pub(super) fn admit(
        &mut self,
        handle: &str,
        parent: &str,
        depth: u32,
        bounds: &Bounds,
        now: Instant,
    ) -> Result<(), String> {
        if depth > bounds.depth {
            return Err(format!(
                "subagents go {} generations deep (limits.subagents.depth)",
                bounds.depth
            ));
        }
        let own = self.parents.values().filter(|known| *known == parent).count();
        if own >= bounds.breadth {
            return Err(format!(
                "{own} subagents of yours live, and no more may (limits.subagents.breadth); wait for one or end one"
            ));
        }
        if self.parents.len() >= bounds.total {
            return Err(format!(
                "{} subagents of this agent live, and no more may (limits.subagents.total)",
                self.parents.len()
            ));
        }
        let burst = f64::from(bounds.rate.burst);
        let (left, since) = self.tokens.unwrap_or((burst, now));
        let per_second = burst / bounds.rate.per.0.as_secs_f64().max(0.001);
        let refilled = left + now.saturating_duration_since(since).as_secs_f64() * per_second;
        let left = refilled.min(burst);
        if left < 1.0 {
            self.tokens = Some((left, now));
            return Err("subagents are begun too fast (limits.subagents.rate); wait a moment".to_owned());
        }
        self.tokens = Some((left - 1.0, now));
        self.parents.insert(handle.to_owned(), parent.to_owned());
        Ok(())
    }

    /// It has ended.
    pub(super) fn release(&mut self, handle: &str) {
        self.parents.remove(handle);
    }

    /// How many live.
    pub(super) fn live(&self) -> usize {
        self.parents.len()
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
        }
    }

    #[tokio::test(start_paused = true)]
    async fn m2_depth_breadth_total_and_rate_of_those_that_live() {
        let mut ledger = Ledger::default();
        let now = Instant::now();
        let mut admit =
            |handle: &str, parent: &str, depth| ledger.admit(handle, parent, depth, &bounds(), now);
        assert!(admit("deep", "c", 3).unwrap_err().contains("depth"));
        admit("1", "c", 1).unwrap();
        admit("2", "c", 1).unwrap();
        assert!(admit("3", "c", 1).unwrap_err().contains("breadth"));
        admit("4", "1", 2).unwrap();
        assert!(admit("5", "d", 1).unwrap_err().contains("total"));
        ledger.release("4");
        ledger.admit("6", "d", 1, &bounds(), now).unwrap();
        ledger.release("6");
        let refused = ledger.admit("7", "d", 1, &bounds(), now).unwrap_err();
        assert!(refused.contains("rate"), "{refused}");
        let later = now + Duration::from_millis(500);
        ledger.admit("7", "d", 1, &bounds(), later).unwrap();
        assert_eq!(ledger.live(), 3);
    }
}
