//! What the model may cost: windows of the calendar and a ceiling for ever. Pure: the time is given, what was spent is a
//! value that others keep. Guarantees: what calls take in a window is never more than its limit as long as no call takes
//! more than was reserved for it; a call that failed is not charged; a clock that goes back finds what was spent then.

mod calendar;
mod counters;

use std::collections::BTreeMap;

use agentd_base::time_of_day::TimeOfDay;

pub use self::calendar::Per;
pub use self::counters::Counters;
use self::counters::Spent;

/// `intelligence.budget`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// All of them hold.
    pub windows: Vec<Window>,
    /// Tokens in all, ever.
    pub lifetime_tokens: Option<u64>,
    /// What is done when a window is used up.
    pub tactic: Tactic,
}

/// So much in each stretch of the calendar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The stretch.
    pub per: Per,
    /// When a day or a week begins.
    pub reset: TimeOfDay,
    /// Both ways.
    pub tokens: Option<u64>,
    /// Calls that were answered.
    pub requests: Option<u64>,
}

/// What is done when a window is used up. A ceiling for ever that is used up fails in any case, or refuses.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Tactic {
    /// The call waits until the window opens again.
    #[default]
    Wait,
    /// From this share of a window on calls are spread over its time; then they wait.
    Slow {
        /// Above 0, below 1.
        factor: f64,
    },
    /// Another model answers. What it takes counts for the ceiling, not for the windows.
    Degrade {
        /// Its name.
        model: String,
    },
    /// The turn is refused.
    Refuse,
    /// The turn fails.
    Fail,
}

/// What may be done with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may be made.
    Granted {
        /// Names the reservation.
        id: u64,
        /// The model that answers in the place of the configured one.
        model: Option<String>,
    },
    /// It has to be asked for again later.
    Later {
        /// From when on it may be granted; none: as soon as another call is settled.
        until: Option<i64>,
        /// For people.
        reason: String,
    },
    /// It may not be made.
    Exhausted {
        /// For people.
        reason: String,
        /// The turn is refused; else it fails.
        refuse: bool,
    },
}

/// A call that was granted and is not settled.
#[derive(Debug, Clone)]
struct Open {
    tokens: u64,
    /// The windows it is charged to, by key and beginning. None for a degraded one.
    windows: Vec<(String, i64)>,
}

/// What was spent, and what is about to be.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    counters: Counters,
    open: BTreeMap<u64, Open>,
    last: u64,
}

/// Why a call may not be made now.
enum Blocked {
    /// By what others have reserved and may give back.
    Reserved(String),
    /// Until then.
    Until(i64, String),
    /// For as long as the plan stands.
    Ever(String),
}

impl Ledger {
    /// Goes on from what was spent before.
    pub fn new(counters: Counters) -> Self {
        Self {
            counters,
            ..Self::default()
        }
    }

    /// What was spent: all that outlives the process.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Asks for a call of at most `tokens`, as far as one can know.
    pub fn reserve(&mut self, plan: &Plan, tokens: u64, now: i64) -> Decision {
        let refuse = plan.tactic == Tactic::Refuse;
        match self.ceiling(plan, tokens) {
            Some(Blocked::Reserved(reason)) => return Decision::Later { until: None, reason },
            Some(Blocked::Ever(reason) | Blocked::Until(_, reason)) => {
                return Decision::Exhausted { reason, refuse };
            }
            None => {}
        }
        match self.blocked(plan, tokens, now) {
            None => self.grant(tokens, plan, now, None),
            Some(Blocked::Reserved(reason)) => Decision::Later { until: None, reason },
            Some(Blocked::Until(until, reason)) => match &plan.tactic {
                Tactic::Wait | Tactic::Slow { .. } => Decision::Later {
                    until: Some(until),
                    reason,
                },
                Tactic::Degrade { model } => self.grant(tokens, plan, now, Some(model.clone())),
                Tactic::Refuse | Tactic::Fail => Decision::Exhausted { reason, refuse },
            },
            Some(Blocked::Ever(reason)) => match &plan.tactic {
                Tactic::Degrade { model } => self.grant(tokens, plan, now, Some(model.clone())),
                _ => Decision::Exhausted { reason, refuse },
            },
        }
    }

    /// A call has been answered and took so much. Whether anything is to be kept.
    pub fn settle(&mut self, id: u64, tokens: u64) -> bool {
        let Some(open) = self.open.remove(&id) else {
            return false;
        };
        self.counters.lifetime = self.counters.lifetime.saturating_add(tokens);
        for (key, start) in open.windows {
            self.counters.charge(&key, start, tokens);
        }
        true
    }

    /// Nobody will say what became of a call: it took what was reserved for it. Whether it was known.
    pub fn forfeit(&mut self, id: u64) -> bool {
        let reserved = self.open.get(&id).map(|open| open.tokens);
        reserved.is_some_and(|tokens| self.settle(id, tokens))
    }

    /// A call has failed: nothing was spent. Whether it was known.
    pub fn release(&mut self, id: u64) -> bool {
        self.open.remove(&id).is_some()
    }

    /// The tokens that the plan leaves now, whichever limit is the nearest; none without a limit of tokens.
    pub fn remaining(&self, plan: &Plan, now: i64) -> Option<u64> {
        let reserved: u64 = self.open.values().map(|open| open.tokens).sum();
        let ceiling = plan
            .lifetime_tokens
            .map(|limit| limit.saturating_sub(self.counters.lifetime.saturating_add(reserved)));
        let windows = plan.windows.iter().filter_map(|window| {
            let used = self.used(&window.key(), window.per.start(now, window.reset));
            window.tokens.map(|limit| limit.saturating_sub(used.tokens))
        });
        windows.chain(ceiling).min()
    }

    fn grant(&mut self, tokens: u64, plan: &Plan, now: i64, model: Option<String>) -> Decision {
        self.last += 1;
        let windows = match model {
            Some(_) => Vec::new(),
            None => {
                let starts = plan
                    .windows
                    .iter()
                    .map(|window| (window.key(), window.per.start(now, window.reset)));
                // Two limits of the same stretch are one counter.
                let unique: BTreeMap<String, i64> = starts.collect();
                unique.into_iter().collect()
            }
        };
        self.open.insert(self.last, Open { tokens, windows });
        Decision::Granted { id: self.last, model }
    }

    /// Spent and reserved.
    fn used(&self, key: &str, start: i64) -> Spent {
        let here = |open: &&Open| open.windows.iter().any(|(name, at)| name == key && *at == start);
        let open = self.open.values().filter(here);
        open.fold(self.counters.spent(key, start), |used, open| Spent {
            tokens: used.tokens.saturating_add(open.tokens),
            requests: used.requests.saturating_add(1),
            ..used
        })
    }

    fn ceiling(&self, plan: &Plan, tokens: u64) -> Option<Blocked> {
        let limit = plan.lifetime_tokens?;
        let spent = self.counters.lifetime.saturating_add(tokens);
        if spent > limit {
            let left = limit.saturating_sub(self.counters.lifetime);
            return Some(Blocked::Ever(format!(
                "intelligence.budget.lifetime_tokens ({limit}) leaves {left}, and a call may take {tokens}"
            )));
        }
        let reserved: u64 = self.open.values().map(|open| open.tokens).sum();
        (spent.saturating_add(reserved) > limit).then(|| {
            Blocked::Reserved(format!(
                "other calls may take what intelligence.budget.lifetime_tokens ({limit}) leaves"
            ))
        })
    }

    /// By the window that opens last.
    fn blocked(&self, plan: &Plan, tokens: u64, now: i64) -> Option<Blocked> {
        let mut until: Option<(i64, String)> = None;
        let mut reserved = None;
        for window in &plan.windows {
            match self.block(window, &plan.tactic, tokens, now) {
                Some(Blocked::Ever(reason)) => return Some(Blocked::Ever(reason)),
                Some(Blocked::Until(end, _)) if until.as_ref().is_some_and(|(known, _)| *known >= end) => {}
                Some(Blocked::Until(end, reason)) => until = Some((end, reason)),
                Some(Blocked::Reserved(reason)) => reserved = Some(Blocked::Reserved(reason)),
                None => {}
            }
        }
        until
            .map(|(end, reason)| Blocked::Until(end, reason))
            .or(reserved)
    }

    fn block(&self, window: &Window, tactic: &Tactic, tokens: u64, now: i64) -> Option<Blocked> {
        let (key, start) = (window.key(), window.per.start(now, window.reset));
        let (spent, used) = (self.counters.spent(&key, start), self.used(&key, start));
        let what = window.per.label();
        let mut found = None;
        for (unit, limit, want, spent, used) in [
            ("tokens", window.tokens, tokens, spent.tokens, used.tokens),
            ("requests", window.requests, 1, spent.requests, used.requests),
        ] {
            let Some(limit) = limit else { continue };
            if want > limit {
                return Some(Blocked::Ever(format!(
                    "a call may take {want} {unit}, more than intelligence.budget has for a whole {what} ({limit})"
                )));
            }
            if spent.saturating_add(want) > limit {
                let reason = format!("the {unit} of this {what} ({limit}, intelligence.budget) are used up");
                return Some(Blocked::Until(start.saturating_add(window.per.length()), reason));
            }
            let wanted = used.saturating_add(want);
            if wanted > limit {
                found = Some(Blocked::Reserved(format!(
                    "other calls may take the {unit} of this {what} ({limit}, intelligence.budget)"
                )));
            } else if let Tactic::Slow { factor } = tactic
                && let Some(from) = paced(*factor, limit, wanted, start, window.per)
                && from > now
                && found.is_none()
            {
                let reason =
                    format!("the {unit} of this {what} ({limit}, intelligence.budget) are spread over it");
                found = Some(Blocked::Until(from, reason));
            }
        }
        found
    }
}

/// From when on so much of a window may have been used, where the first share of it is free and the rest is spread
/// evenly over its time; none when it is free.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a share of a window's time, rounded by at most a millisecond"
)]
fn paced(factor: f64, limit: u64, wanted: u64, start: i64, per: Per) -> Option<i64> {
    let share = wanted as f64 / limit as f64;
    (share > factor).then(|| start.saturating_add((share * per.length() as f64).floor() as i64))
}

impl Window {
    /// Names its counter. Another limit for the same stretch goes on with what was spent.
    fn key(&self) -> String {
        match self.per {
            Per::Second | Per::Minute | Per::Hour => self.per.label().to_owned(),
            Per::Day | Per::Week => format!("{}@{}", self.per.label(), self.reset),
        }
    }
}

#[cfg(test)]
mod tests;
