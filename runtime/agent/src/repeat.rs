//! Rounds that get nowhere: the same calls with the same arguments and the same results, over and over, or a few such
//! rounds in turn. Pure. Results that change are progress; a round that waited is a poll and no loop.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher as _};
use std::time::Duration;

/// As many times in a row end a turn. Twice is a look again and three times a patient retry; at three the model is told,
/// so that it gets one more round to do something else.
pub(crate) const REPEATS: usize = 4;
/// Rounds that make one repetition: read a, read b, and from the beginning.
const LONGEST_CYCLE: usize = 3;
/// Results that took this long were waited for: a long poll that says "not yet" is no loop, and costs little.
const WAITED: Duration = Duration::from_secs(5);

/// The rounds of a turn so far.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// The last ones, oldest first.
    rounds: VecDeque<u64>,
    is_warned: bool,
}

/// What a round is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Something else than before.
    Progress,
    /// The model is to be told.
    Warn,
    /// The turn ends.
    Stuck,
}

/// What a round did, as far as it can be compared.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    hasher: DefaultHasher,
    has_waited: bool,
    has_failed: bool,
}

impl Deeds {
    /// A call and what came of it. `has_waited` says that it let time pass on purpose.
    pub(crate) fn call(
        &mut self,
        name: &str,
        arguments: &str,
        result: &str,
        is_error: bool,
        has_waited: bool,
    ) {
        for part in [name, arguments, result] {
            self.hasher.write(part.as_bytes());
            // A byte that no text holds, so that parts cannot run into each other.
            self.hasher.write_u8(0xff);
        }
        self.hasher.write_u8(is_error.into());
        self.has_waited |= has_waited;
        self.has_failed |= is_error;
    }
}

impl Repeats {
    /// Takes note of a round.
    pub(crate) fn note(&mut self, deeds: &Deeds, took: Duration) -> Verdict {
        if deeds.has_waited || (took >= WAITED && !deeds.has_failed) {
            *self = Self::default();
            return Verdict::Progress;
        }
        self.rounds.push_back(deeds.hasher.finish());
        if self.rounds.len() > REPEATS * LONGEST_CYCLE {
            self.rounds.pop_front();
        }
        match self.times() {
            times if times >= REPEATS => Verdict::Stuck,
            times if times + 1 == REPEATS && !self.is_warned => {
                self.is_warned = true;
                Verdict::Warn
            }
            times => {
                self.is_warned &= times > 1;
                Verdict::Progress
            }
        }
    }

    /// How often the last rounds were done in a row.
    fn times(&self) -> usize {
        let cycle = |length: usize| {
            let (newest, before) = (self.rounds.iter().rev(), self.rounds.iter().rev().skip(length));
            let same = newest.zip(before).take_while(|(one, other)| one == other).count();
            same / length + 1
        };
        (1..=LONGEST_CYCLE).map(cycle).max().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(3);

    fn deeds(result: &str) -> Deeds {
        let mut deeds = Deeds::default();
        deeds.call("read", "{}", result, false, false);
        deeds
    }

    fn verdicts(results: &str) -> Vec<Verdict> {
        let mut repeats = Repeats::default();
        let results = results.split(' ');
        results.map(|result| repeats.note(&deeds(result), SOON)).collect()
    }

    #[test]
    fn the_third_time_is_told_and_the_fourth_is_the_end() {
        use Verdict::{Progress as P, Stuck as S, Warn as W};
        for (results, expected) in [
            ("a a a a", vec![P, P, W, S]),
            ("x y a a a a", vec![P, P, P, P, W, S]),
            ("a b c d e f", vec![P; 6]),
            ("a a b a a b b a", vec![P; 8]),
            ("a b a b a b a b", vec![P, P, P, P, P, W, P, S]),
            ("a b c a b c a b c a b c", [&[P; 8][..], &[W, P, P, S]].concat()),
            // Something else after the warning, and the same again: told anew.
            ("a a a b a a a a", vec![P, P, W, P, P, P, W, S]),
        ] {
            assert_eq!(verdicts(results), expected, "{results}");
        }
    }

    #[test]
    fn a_round_that_waited_is_a_poll() {
        let mut repeats = Repeats::default();
        let mut slept = deeds("pending");
        slept.call("sleep", "{}", "slept", false, true);
        for _ in 0..20 {
            assert_eq!(repeats.note(&slept, SOON), Verdict::Progress);
            assert_eq!(repeats.note(&deeds("pending"), WAITED), Verdict::Progress);
        }
        // A poll and a sleep, each in a round of its own.
        let mut sleep = Deeds::default();
        sleep.call("sleep", "{}", "slept", false, true);
        for _ in 0..20 {
            assert_eq!(repeats.note(&deeds("pending"), SOON), Verdict::Progress);
            assert_eq!(repeats.note(&sleep, SOON), Verdict::Progress);
        }
    }

    #[test]
    fn a_call_that_fails_slowly_is_a_loop_all_the_same() {
        let mut repeats = Repeats::default();
        let mut failed = Deeds::default();
        failed.call("read", "{}", "ERROR: timeout", true, false);
        let verdicts: Vec<_> = (0..4).map(|_| repeats.note(&failed, 10 * WAITED)).collect();
        assert_eq!(verdicts.last(), Some(&Verdict::Stuck));
    }

    #[test]
    fn the_parts_of_a_call_do_not_run_into_each_other() {
        let of = |name: &str, arguments: &str, result: &str| {
            let mut deeds = Deeds::default();
            deeds.call(name, arguments, result, false, false);
            deeds.hasher.finish()
        };
        assert_ne!(of("ab", "c", ""), of("a", "bc", ""));
        assert_ne!(of("a", "", "b"), of("a", "b", ""));
    }
}
