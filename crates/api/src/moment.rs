//! Moments as RFC 3339 has them, in UTC, to the second: what people and scripts read in answers.
//!
//! The calendar is proleptic Gregorian. The arithmetic shifts the year to begin in March, so that a
//! leap day is the last day of it and nothing needs a table of months.

use std::fmt;

const DAY: u64 = 86_400;
/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: u64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: u64 = 719_468;
/// The last second that four digits of a year can say.
const SECONDS_MAX: u64 = 253_402_300_799;

/// Seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.min(SECONDS_MAX);
        let days = seconds / DAY + EPOCH_DAYS;
        let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_704_067_199, "2023-12-31T23:59:59Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Moment(seconds).to_string(), text);
        }
    }

    #[test]
    fn later_moments_are_later_texts() {
        let texts: Vec<_> = (0..2000u64)
            .map(|step| Moment(step * 12_345_678).to_string())
            .collect();
        assert!(texts.is_sorted());
    }
}
