//! Where the windows of a budget begin and end: on the calendar, in UTC, the same for everybody and after every restart.
//! Pure. Times are milliseconds since 1970; a leap second is none.

use agentd_base::time_of_day::TimeOfDay;

/// One day.
const DAY: i64 = 86_400_000;
/// 1970-01-05 was a Monday.
const MONDAY: i64 = 4 * DAY;

/// How long a window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Per {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day, from its reset time on.
    Day,
    /// A week, from its reset time on Monday on.
    Week,
}

impl Per {
    /// Its length in milliseconds.
    pub const fn length(self) -> i64 {
        match self {
            Self::Second => 1000,
            Self::Minute => 60_000,
            Self::Hour => 3_600_000,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
        }
    }

    /// For people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    /// When the window that `now` lies in began.
    pub const fn start(self, now: i64, reset: TimeOfDay) -> i64 {
        let reset = reset.seconds() as i64 * 1000;
        let offset = match self {
            Self::Second | Self::Minute | Self::Hour => 0,
            Self::Day => reset,
            Self::Week => MONDAY + reset,
        };
        let since = now.saturating_sub(offset);
        now.saturating_sub(since.rem_euclid(self.length()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Per; 5] = [Per::Second, Per::Minute, Per::Hour, Per::Day, Per::Week];

    fn at(text: &str) -> TimeOfDay {
        text.parse().unwrap()
    }

    #[test]
    fn windows_begin_on_the_calendar() {
        // 2026-12-02T08:04:11.500Z, a Wednesday.
        let now = 1_796_198_651_500;
        for (per, reset, start) in [
            (Per::Second, "00:00Z", 1_796_198_651_000),
            (Per::Minute, "06:30Z", 1_796_198_640_000),
            (Per::Hour, "06:30Z", 1_796_198_400_000),
            (Per::Day, "00:00Z", 1_796_169_600_000),
            (Per::Day, "06:30Z", 1_796_193_000_000),
            (Per::Day, "08:05Z", 1_796_112_300_000),
            // Monday, 30 November.
            (Per::Week, "00:00Z", 1_795_996_800_000),
            (Per::Week, "06:30Z", 1_796_020_200_000),
        ] {
            assert_eq!(per.start(now, at(reset)), start, "{per:?} {reset}");
        }
        assert_eq!(Per::Day.start(-1, at("00:00Z")), -DAY);
    }

    proptest! {
        #[test]
        fn every_moment_lies_in_one_window(now in -4_000_000_000_000i64..4_000_000_000_000, minutes in 0u32..1440) {
            let reset = at(&format!("{:02}:{:02}Z", minutes / 60, minutes % 60));
            for per in ALL {
                let start = per.start(now, reset);
                prop_assert!(start <= now && now < start + per.length());
                prop_assert_eq!(per.start(start, reset), start);
                prop_assert_eq!(per.start(start + per.length() - 1, reset), start);
                prop_assert_eq!(per.start(start + per.length(), reset), start + per.length());
            }
        }
    }
}
