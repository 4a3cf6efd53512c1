//! How many messages a principal may send, by the rate of its entry. One that several entries match may send what any
//! of them lets it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use agentd_base::rate::Rate;

/// What was sent, by the name of the entry: the moment from which on its allowance is whole again.
#[derive(Debug, Default)]
pub(crate) struct Quotas(Mutex<HashMap<String, Instant>>);

impl Quotas {
    /// Takes one message out of the allowance of the first entry that has one left; one without a rate always has.
    ///
    /// # Errors
    /// The time after which there is one, where none has.
    pub(crate) fn take<'a>(
        &self,
        entries: impl Iterator<Item = (&'a str, Option<Rate>)>,
        now: Instant,
    ) -> Result<(), Duration> {
        let mut whole_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing is kept of an allowance that is whole.
        whole_at.retain(|_, at| *at > now);
        let mut soonest = None;
        for (name, rate) in entries {
            let Some(rate) = rate else {
                return Ok(());
            };
            let per = rate.per.0;
            // At most the whole of it is used up, also where the rate was another one before.
            let used = whole_at
                .get(name)
                .map_or(Duration::ZERO, |at| at.duration_since(now).min(per));
            let after = used + per / rate.burst;
            match after.checked_sub(per).filter(|wait| !wait.is_zero()) {
                None => {
                    whole_at.insert(name.to_owned(), now + after);
                    return Ok(());
                }
                Some(wait) => soonest = Some(soonest.map_or(wait, |soonest: Duration| soonest.min(wait))),
            }
        }
        soonest.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn so_many_at_once_and_as_many_again_in_that_time() {
        let (quotas, start) = (Quotas::default(), Instant::now());
        let rate: Rate = "3/6s".parse().unwrap();
        let take = |name, after| quotas.take([(name, Some(rate))].into_iter(), start + after);
        for _ in 0..3 {
            assert_eq!(take("a", Duration::ZERO), Ok(()));
        }
        assert_eq!(take("a", Duration::ZERO), Err(SECOND * 2));
        assert_eq!(take("a", SECOND), Err(SECOND));
        assert_eq!(take("b", SECOND), Ok(()), "another principal's is its own");
        assert_eq!(take("a", SECOND * 2), Ok(()));
        assert_eq!(
            take("a", SECOND * 2),
            Err(SECOND * 2),
            "what was refused took nothing"
        );
        for _ in 0..3 {
            assert_eq!(take("a", SECOND * 60), Ok(()));
        }
        assert_eq!(take("a", SECOND * 60), Err(SECOND * 2));
        assert_eq!(quotas.0.lock().unwrap().len(), 1, "nothing is kept of b");
    }

    #[test]
    fn any_entry_is_enough_and_one_without_a_rate_bounds_nothing() {
        let (quotas, now) = (Quotas::default(), Instant::now());
        let rates = |texts: [&str; 2]| texts.map(|text| Some(text.parse::<Rate>().unwrap()));
        let [slow, fast] = rates(["1/60s", "2/10s"]);
        let both = || [("slow", slow), ("fast", fast)].into_iter();
        for _ in 0..3 {
            assert_eq!(quotas.take(both(), now), Ok(()));
        }
        assert_eq!(quotas.take(both(), now), Err(SECOND * 5));
        assert_eq!(quotas.take(both().chain([("free", None)]), now), Ok(()));
        // A rate that is another one now has no longer wait than its own time.
        let [quick, _] = rates(["1/2s", "1/2s"]);
        assert_eq!(quotas.take([("slow", quick)].into_iter(), now), Err(SECOND * 2));
        assert_eq!(
            quotas.take(std::iter::empty(), now),
            Ok(()),
            "an operator of a listener in development"
        );
    }
}
