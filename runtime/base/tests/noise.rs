//! Texts from documents and command lines, whatever they hold: read or refused, and what was read is written as itself.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fmt::Display;
use std::str::FromStr;

use agentd_base::duration::Duration;
use agentd_base::rate::Rate;
use agentd_base::text::{clip, is_unseen};
use agentd_base::time_of_day::TimeOfDay;
use proptest::prelude::*;

fn read_or_refused<T: FromStr + Display + PartialEq + std::fmt::Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let again = value.to_string().parse::<T>().ok();
        assert_eq!(again.as_ref(), Some(&value), "{text:?}");
    }
}

proptest! {
    #[test]
    fn durations_rates_and_times_of_the_day(
        text in "\\PC{0,24}|[0-9]{0,24}(ns|us|ms|s|m|h|d|µs| )?|[0-9]{1,22}/[0-9]{0,22}[smhd]?|[0-9]{0,3}:[0-9]{0,3}Z?|[-+.eE0-9:/Zsmhd]{0,12}",
    ) {
        read_or_refused::<Duration>(&text);
        read_or_refused::<Rate>(&text);
        read_or_refused::<TimeOfDay>(&text);
    }

    #[test]
    fn what_is_clipped_is_short_and_harmless(text in ".{0,64}|[\u{0}-\u{20}\u{7f}-\u{9f}\u{200b}-\u{202e}]{0,64}", max in 1usize..40) {
        let clipped = clip(&text, max);
        prop_assert!(clipped.chars().count() <= max, "{clipped:?}");
        prop_assert!(!clipped.chars().any(|c| c.is_control() || is_unseen(c)), "{clipped:?}");
    }
}
