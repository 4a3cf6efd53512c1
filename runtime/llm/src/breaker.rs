//! Which endpoint of an ordered list is asked next. An endpoint that failed three times in a row is left alone for five
//! seconds, twice as long each time after, a minute at most; then one request tries it, and the others wait for what
//! comes of it. The first that may be asked is asked, so that the primary comes back as soon as it is well. Pure: the
//! time is given.

use std::time::Duration;

use tokio::time::Instant;

/// Failures in a row that open a breaker.
const FAILURES: u32 = 3;
/// How long it is open at first.
const FIRST: Duration = Duration::from_secs(5);
/// How long at most.
const LONGEST: Duration = Duration::from_secs(60);

/// The breaker of one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Breaker {
    /// In a row.
    failures: u32,
    /// Open until then; none while it is closed.
    until: Option<Instant>,
    /// How long it is open the next time.
    pause: Duration,
    /// One request is trying it.
    is_probed: bool,
}

/// What a request may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Ask the endpoint at this place.
    Ask {
        /// Its place in the list.
        place: usize,
        /// It is the one try of a half-open breaker: it is not repeated.
        is_probe: bool,
    },
    /// All are left alone until then; none: until the probe of another request has ended.
    Wait(Option<Instant>),
    /// All were asked.
    Over,
}

/// The breakers of a list.
#[derive(Debug, Clone)]
pub(crate) struct Breakers(Vec<Breaker>);

impl Breakers {
    /// All closed.
    pub(crate) fn new(count: usize) -> Self {
        let closed = Breaker {
            failures: 0,
            until: None,
            pause: FIRST,
            is_probed: false,
        };
        Self(vec![closed; count])
    }

    /// The first endpoint that may be asked and was not asked yet. A probe must be followed by one of the three below.
    pub(crate) fn choose(&mut self, asked: &[usize], now: Instant) -> Choice {
        let mut waits = None;
        let mut is_other_probing = false;
        let places = self.0.iter_mut().enumerate();
        for (place, breaker) in places.filter(|(place, _)| !asked.contains(place)) {
            match breaker.until {
                None => {
                    return Choice::Ask {
                        place,
                        is_probe: false,
                    };
                }
                Some(_) if breaker.is_probed => is_other_probing = true,
                Some(until) if until <= now => {
                    breaker.is_probed = true;
                    return Choice::Ask {
                        place,
                        is_probe: true,
                    };
                }
                Some(until) => waits = Some(waits.map_or(until, |first: Instant| first.min(until))),
            }
        }
        match (waits, is_other_probing) {
            (None, false) => Choice::Over,
            (waits, _) => Choice::Wait(waits),
        }
    }

    /// Whether another endpoint than those that were asked may be asked now.
    pub(crate) fn has_other(&self, asked: &[usize], now: Instant) -> bool {
        let mut others = self
            .0
            .iter()
            .enumerate()
            .filter(|(place, _)| !asked.contains(place));
        others.any(|(_, breaker)| {
            breaker
                .until
                .is_none_or(|until| until <= now && !breaker.is_probed)
        })
    }

    /// It answered.
    pub(crate) fn answered(&mut self, place: usize) {
        if let Some(breaker) = self.0.get_mut(place) {
            *breaker = Breaker {
                failures: 0,
                until: None,
                pause: FIRST,
                is_probed: false,
            };
        }
    }

    /// It failed in a way that may pass.
    pub(crate) fn failed(&mut self, place: usize, now: Instant) {
        let Some(breaker) = self.0.get_mut(place) else {
            return;
        };
        // Requests that were under way when it opened say nothing new.
        if breaker.until.is_some() && !breaker.is_probed {
            return;
        }
        breaker.failures = breaker.failures.saturating_add(1);
        if breaker.is_probed || breaker.failures >= FAILURES {
            breaker.until = Some(now + breaker.pause);
            breaker.pause = breaker.pause.saturating_mul(2).min(LONGEST);
            breaker.is_probed = false;
            breaker.failures = 0;
        }
    }

    /// The request was given up, or the endpoint refused it: nothing is known of how it is.
    pub(crate) fn left(&mut self, place: usize) {
        if let Some(breaker) = self.0.get_mut(place) {
            breaker.is_probed = false;
        }
    }

    /// Whether the endpoint is left alone.
    pub(crate) fn is_open(&self, place: usize) -> bool {
        self.0.get(place).is_some_and(|breaker| breaker.until.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ask(place: usize) -> Choice {
        Choice::Ask {
            place,
            is_probe: false,
        }
    }

    fn probe(place: usize) -> Choice {
        Choice::Ask {
            place,
            is_probe: true,
        }
    }

    #[test]
    fn three_failures_open_it_and_the_primary_comes_back_by_one_probe() {
        let start = Instant::now();
        let mut breakers = Breakers::new(2);
        for _ in 0..3 {
            assert_eq!(breakers.choose(&[], start), ask(0));
            breakers.failed(0, start);
        }
        assert_eq!(breakers.choose(&[], start), ask(1));
        assert!(!breakers.has_other(&[1], start) && breakers.has_other(&[0], start));
        assert!(breakers.has_other(&[1], start + 5 * SECOND));
        assert_eq!(
            breakers.choose(&[1], start),
            Choice::Wait(Some(start + 5 * SECOND))
        );
        assert_eq!(breakers.choose(&[], start + 4 * SECOND), ask(1));
        let then = start + 5 * SECOND;
        assert_eq!(breakers.choose(&[], then), probe(0));
        // The probe is one: others go on elsewhere.
        assert_eq!(breakers.choose(&[], then), ask(1));
        assert_eq!(breakers.choose(&[1], then), Choice::Wait(None));
        breakers.answered(0);
        assert_eq!(breakers.choose(&[], then), ask(0));
        // The count begins anew.
        breakers.failed(0, then);
        breakers.failed(0, then);
        assert_eq!(breakers.choose(&[], then), ask(0));
    }

    #[test]
    fn a_probe_that_fails_doubles_the_pause_up_to_a_minute() {
        let mut now = Instant::now();
        let mut breakers = Breakers::new(1);
        for _ in 0..3 {
            breakers.failed(0, now);
        }
        for seconds in [5, 10, 20, 40, 60, 60] {
            assert!(breakers.is_open(0));
            assert_eq!(
                breakers.choose(&[], now),
                Choice::Wait(Some(now + seconds * SECOND))
            );
            now += seconds * SECOND;
            assert_eq!(breakers.choose(&[], now), probe(0));
            breakers.failed(0, now);
        }
        // After it was well, the pause is the first again.
        now += 60 * SECOND;
        assert_eq!(breakers.choose(&[], now), probe(0));
        breakers.answered(0);
        for _ in 0..3 {
            breakers.failed(0, now);
        }
        assert_eq!(breakers.choose(&[], now), Choice::Wait(Some(now + 5 * SECOND)));
    }

    #[test]
    fn failures_that_come_late_do_not_lengthen_the_pause() {
        let now = Instant::now();
        let mut breakers = Breakers::new(1);
        // Seven requests were under way at once.
        for _ in 0..7 {
            breakers.failed(0, now);
        }
        assert_eq!(breakers.choose(&[], now), Choice::Wait(Some(now + 5 * SECOND)));
        let then = now + 5 * SECOND;
        assert_eq!(breakers.choose(&[], then), probe(0));
        breakers.failed(0, then);
        assert_eq!(breakers.choose(&[], then), Choice::Wait(Some(then + 10 * SECOND)));
    }

    #[test]
    fn a_probe_that_was_given_up_is_made_by_the_next() {
        let now = Instant::now();
        let mut breakers = Breakers::new(1);
        for _ in 0..3 {
            breakers.failed(0, now);
        }
        let then = now + 5 * SECOND;
        assert_eq!(breakers.choose(&[], then), probe(0));
        assert_eq!(breakers.choose(&[], then), Choice::Wait(None));
        breakers.left(0);
        assert_eq!(breakers.choose(&[], then), probe(0));
    }

    #[test]
    fn an_answer_between_failures_keeps_it_closed() {
        let now = Instant::now();
        let mut breakers = Breakers::new(1);
        for _ in 0..10 {
            breakers.failed(0, now);
            breakers.failed(0, now);
            breakers.answered(0);
        }
        assert_eq!(breakers.choose(&[], now), ask(0));
        assert_eq!(breakers.choose(&[0], now), Choice::Over);
        assert_eq!(Breakers::new(0).choose(&[], now), Choice::Over);
    }
}
