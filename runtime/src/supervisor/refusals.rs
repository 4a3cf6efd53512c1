//! A record that a store does not take. A store that refuses everything is away, and is waited for; one that refuses a
//! record and takes others is asked a few times more, and then the record is given up: whoever waits for it would wait
//! for ever.

use std::time::Duration;

use agentd_state::{Store, StoreError};

/// What there must be room for: a message at its largest, with what its row takes beside it.
pub(super) const PROBE_BYTES: u64 = 2 * 1024 * 1024;
/// So often a record is sent to a store that refuses it: half a minute with the pauses between.
const REFUSALS: u32 = 6;
/// The first pause; each after it is twice as long.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// A refusal says something of the record only if the store takes something else.
pub(super) async fn of_record(store: &dyn Store, error: StoreError) -> StoreError {
    match error {
        StoreError::Refused(why) if store.probe(PROBE_BYTES).await.is_err() => StoreError::Unavailable(why),
        error => error,
    }
}

/// How one record fares.
#[derive(Debug, Default)]
pub(super) struct Refusals(u32);

impl Refusals {
    /// How long to wait before it is sent again, after it failed with what [`of_record`] made of an error; none when it
    /// will never be taken.
    pub(super) fn pause(&mut self, error: &StoreError) -> Option<Duration> {
        match error {
            StoreError::Full(_) | StoreError::Corrupt(_) => None,
            StoreError::Refused(_) => {
                self.0 += 1;
                (self.0 < REFUSALS).then(|| FIRST_PAUSE * 2_u32.pow(self.0 - 1))
            }
            StoreError::Conflict(_) | StoreError::Lost(_) | StoreError::Unavailable(_) => Some(FIRST_PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_given_up_when_it_was_refused_so_often_and_a_store_that_is_away_never() {
        let mut refusals = Refusals::default();
        let refused = StoreError::Refused("HTTP 422".into());
        let away = StoreError::Unavailable("HTTP 503".into());
        let mut pauses = Vec::new();
        while let Some(pause) = refusals.pause(&refused) {
            pauses.push(pause.as_secs());
            assert_eq!(refusals.pause(&away), Some(FIRST_PAUSE));
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16]);
        for never in [
            StoreError::Full("large".into()),
            StoreError::Corrupt("odd".into()),
        ] {
            assert_eq!(Refusals::default().pause(&never), None);
        }
    }
}
