//! What the model may cost, kept for the whole agent: turns ask before each call and say afterwards what it took. One
//! ledger, one writer. Guarantees: what was settled outlives the process; a turn that ends leaves nothing reserved; who
//! has to wait is granted as soon as there is room, and waits no longer than its turn may last.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentd_agent::budget::{Counters, Decision, Ledger, Per, Plan, Tactic, Window};
use agentd_agent::request::Reservation;
use agentd_base::clock::SharedClock;
use agentd_base::json::why;
use agentd_config::Document;
use agentd_config::document::{self, Exhausted};
use agentd_state::{Entry, EntryKind, Store, StoreError, Write};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::settings::{SettingsWatch, current};

/// The counters are those of the instance; there is one entry.
const SCOPE: &str = "instance";
const KEY: &str = "counters";
/// Who waits looks at the clock so often: somebody may set it.
const LOOK: Duration = Duration::from_secs(60);

/// See the module.
pub struct Budget {
    state: Mutex<State>,
    /// Held while the counters are written, so that a later state never comes before an earlier one.
    writing: tokio::sync::Mutex<()>,
    /// Counts up when something was given back.
    changed: watch::Sender<u64>,
    settings: SettingsWatch,
    store: Arc<dyn Store>,
    clock: SharedClock,
}

#[derive(Default)]
struct State {
    ledger: Ledger,
    /// The run of each reservation.
    runs: BTreeMap<u64, String>,
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").finish_non_exhaustive()
    }
}

impl Budget {
    /// Goes on from what was spent before.
    ///
    /// # Errors
    /// When the store cannot be read, or holds what are no counters: spending from nothing again would not be a limit.
    pub async fn open(
        store: Arc<dyn Store>,
        clock: SharedClock,
        settings: SettingsWatch,
    ) -> Result<Self, StoreError> {
        let entry = store.entry(EntryKind::Budget, SCOPE, KEY, clock.now()).await?;
        let counters = match entry {
            None => Counters::default(),
            Some(entry) => serde_json::from_value(entry.value).map_err(|error| {
                StoreError::Corrupt(format!("the counters of the budget: {}", why(&error)))
            })?,
        };
        Ok(Self::new(counters, store, clock, settings))
    }

    /// With what was spent so far.
    pub fn new(
        counters: Counters,
        store: Arc<dyn Store>,
        clock: SharedClock,
        settings: SettingsWatch,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                ledger: Ledger::new(counters),
                runs: BTreeMap::new(),
            }),
            writing: tokio::sync::Mutex::default(),
            changed: watch::Sender::default(),
            settings,
            store,
            clock,
        }
    }

    /// Asks for a call of a run that may last until then. Waits where the document says so.
    pub async fn reserve(&self, run_id: &str, tokens: u64, until: Instant) -> Reservation {
        let mut settings = self.settings.clone();
        let mut changed = self.changed.subscribe();
        let mut told = false;
        loop {
            // Before the decision, lest what changes after it goes unseen.
            changed.borrow_and_update();
            let now_in_force = settings.borrow_and_update().clone();
            let Some(plan) = plan(&now_in_force.document) else {
                return Reservation::Granted { id: 0, model: None };
            };
            let now = self.now();
            let decision = self.decide(&plan, run_id, tokens, now);
            let (opens, reason) = match decision {
                Decision::Granted { id, model } => {
                    if let Some(model) = &model {
                        tracing::info!(event = "budget.degraded", run.id = run_id, model);
                    }
                    return Reservation::Granted { id, model };
                }
                Decision::Exhausted { reason, refuse } => {
                    tracing::warn!(event = "budget.refused", run.id = run_id, "{reason}");
                    return Reservation::Exhausted { reason, refuse };
                }
                Decision::Later { until, reason } => (until, reason),
            };
            let wait =
                opens.map(|opens| Duration::from_millis(u64::try_from(opens - now).unwrap_or_default()));
            if let Some(wait) = wait
                && Instant::now().checked_add(wait).is_none_or(|opens| opens > until)
            {
                let at = opens.map(shown).unwrap_or_default();
                let reason = format!(
                    "{reason}; it goes on at {at}, after the time of this turn (limits.run.deadline)"
                );
                tracing::warn!(event = "budget.refused", run.id = run_id, "{reason}");
                return Reservation::Exhausted {
                    reason,
                    refuse: false,
                };
            }
            if !std::mem::replace(&mut told, true) {
                tracing::info!(
                    event = "budget.wait",
                    run.id = run_id,
                    until = opens.map(shown),
                    "{reason}"
                );
            }
            tokio::select! {
                () = tokio::time::sleep(wait.unwrap_or(LOOK).min(LOOK)) => {}
                _ = changed.changed() => {}
                Ok(()) = settings.changed() => {}
            }
        }
    }

    /// A call of a run has ended and took so much; nothing when it failed. Once this returns it is kept.
    pub async fn settle(&self, run_id: &str, id: u64, tokens: u64) {
        let is_kept = {
            let mut state = self.state();
            // A worker speaks for the turn that it was given, and for no other.
            if state.runs.get(&id).is_none_or(|run| run != run_id) {
                return;
            }
            state.runs.remove(&id);
            if tokens == 0 {
                state.ledger.release(id);
                false
            } else {
                state.ledger.settle(id, tokens)
            }
        };
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
        if is_kept {
            self.write(run_id).await;
        }
    }

    /// A turn has ended, and it is kept what its calls took: nobody will say it any more of one that was cut off in its
    /// middle. Providers bill those too, so that it costs what was reserved for it.
    pub async fn close(&self, run_id: &str) {
        if self.forfeit(run_id) {
            self.write(run_id).await;
        }
    }

    /// As [`Budget::close`], for where nothing can be waited for: it is kept with the next call. True when there is
    /// something to keep.
    pub fn forfeit(&self, run_id: &str) -> bool {
        {
            let mut state = self.state();
            let ids: Vec<u64> = state
                .runs
                .iter()
                .filter(|(_, run)| *run == run_id)
                .map(|(id, _)| *id)
                .collect();
            if ids.is_empty() {
                return false;
            }
            for id in ids {
                state.runs.remove(&id);
                state.ledger.forfeit(id);
            }
        }
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
        true
    }

    /// Tokens that are left now; none without a limit of them.
    pub fn remaining(&self) -> Option<u64> {
        let plan = plan(&current(&self.settings).document)?;
        self.state().ledger.remaining(&plan, self.now())
    }

    fn decide(&self, plan: &Plan, run_id: &str, tokens: u64, now: i64) -> Decision {
        let mut state = self.state();
        let decision = state.ledger.reserve(plan, tokens, now);
        if let Decision::Granted { id, .. } = &decision {
            state.runs.insert(*id, run_id.to_owned());
        }
        decision
    }

    async fn write(&self, run_id: &str) {
        let _writing = self.writing.lock().await;
        let counters = serde_json::to_value(self.state().ledger.counters());
        let entry = Entry {
            kind: EntryKind::Budget,
            scope: SCOPE.to_owned(),
            key: KEY.to_owned(),
            value: counters.unwrap_or_default(),
            expires_at: None,
            updated_at: self.clock.now(),
        };
        if let Err(error) = self.store.write(vec![Write::Entry(entry)]).await {
            // What was spent is known as long as the process lives, and is written with the next call.
            tracing::error!(event = "store.put.fail", run.id = run_id, err = %error);
        }
    }

    fn now(&self) -> i64 {
        self.clock.now().as_millisecond()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shown(millis: i64) -> String {
    Timestamp::from_millisecond(millis).map_or_else(|_| millis.to_string(), |at| at.to_string())
}

/// The plan of a document; none when it has none.
fn plan(document: &Document) -> Option<Plan> {
    let budget = document.intelligence.budget.as_ref()?;
    let window = |window: &document::Window| Window {
        per: match window.per {
            document::Per::Second => Per::Second,
            document::Per::Minute => Per::Minute,
            document::Per::Hour => Per::Hour,
            document::Per::Day => Per::Day,
            document::Per::Week => Per::Week,
        },
        reset: window.reset.unwrap_or_default(),
        tokens: window.tokens,
        requests: window.requests,
    };
    let degrade = || budget.degrade.as_ref().map(|degrade| degrade.model.clone());
    Some(Plan {
        windows: budget.windows.iter().map(window).collect(),
        lifetime_tokens: budget.lifetime_tokens,
        tactic: match budget.on_exhausted {
            Exhausted::Wait => Tactic::Wait,
            Exhausted::Slow => Tactic::Slow {
                factor: budget.slow.factor(),
            },
            Exhausted::Degrade => Tactic::Degrade {
                model: degrade().unwrap_or_default(),
            },
            Exhausted::Refuse => Tactic::Refuse,
            Exhausted::Fail => Tactic::Fail,
        },
    })
}

#[cfg(test)]
mod tests;
