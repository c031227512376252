//! The times when the snapshots of a policy are due, by the clock of its time zone.
//!
//! Hourly snapshots are due every sixty minutes, also when daylight saving begins or ends. A daily
//! time that the clock skips is due when it would have been; a daily time that the clock repeats is
//! due the first time.

use everglade_api::{Policy, TimeOfDay, Weekday};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::{Deserialize, Serialize};

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
/// Days searched for a due time: more than a week, because a zone may once have left out a day.
const DAYS_MAX: usize = 9;

/// The period of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Every {
    /// Sixty minutes.
    Hourly,
    /// A day.
    Daily,
    /// A week.
    Weekly,
}

impl Every {
    /// All schedules, shortest period first.
    pub(super) const ALL: [Every; 3] = [Every::Hourly, Every::Daily, Every::Weekly];

    /// Returns the beginning of its snapshots' names.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Every::Hourly => "hourly",
            Every::Daily => "daily",
            Every::Weekly => "weekly",
        }
    }

    /// Returns the approximate length of the period.
    pub(super) fn seconds(self) -> i64 {
        match self {
            Every::Hourly => HOUR,
            Every::Daily => DAY,
            Every::Weekly => 7 * DAY,
        }
    }

    /// Returns how many snapshots of this kind a policy keeps.
    pub(super) fn keep(self, policy: &Policy) -> usize {
        let count = match self {
            Every::Hourly => policy.hourly,
            Every::Daily => policy.daily,
            Every::Weekly => policy.weekly,
        };
        usize::try_from(count).unwrap_or(usize::MAX)
    }
}

/// The clocks of one policy.
pub(super) struct Calendar {
    zone: TimeZone,
    at: TimeOfDay,
    weekday: Weekday,
}

/// Finds a time zone by its name.
///
/// # Errors
/// Nothing has this name.
pub(super) fn zone(name: &str) -> Result<TimeZone, String> {
    let is_plain = name.len() <= 64
        && !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+'));
    let found = is_plain.then(|| TimeZone::get(name).ok()).flatten();
    found.ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        format!("{shown:?} is not a time zone; use an IANA name such as Europe/Berlin, or UTC")
    })
}

impl Calendar {
    /// Returns the calendar of a policy. A zone that this host does not know any more is taken for
    /// UTC.
    pub(super) fn of(policy: &Policy) -> Calendar {
        Calendar {
            zone: zone(&policy.time_zone).unwrap_or(TimeZone::UTC),
            at: policy.at,
            weekday: policy.weekday,
        }
    }

    /// Returns the last due time that is not after `now`, in seconds since 1970.
    pub(super) fn last(&self, every: Every, now: i64) -> i64 {
        match every {
            Every::Hourly => self.hour_of(now),
            Every::Daily | Every::Weekly => {
                let mut date = self.local(now).date();
                for _ in 0..DAYS_MAX {
                    if let Some(due) = self.due(every, date).filter(|due| *due <= now) {
                        return due;
                    }
                    date = date.yesterday().unwrap_or(date);
                }
                now
            }
        }
    }

    /// Returns the first due time after `now`.
    pub(super) fn next(&self, every: Every, now: i64) -> i64 {
        match every {
            Every::Hourly => self.hour_of(now) + HOUR,
            Every::Daily | Every::Weekly => {
                let mut date = self.local(now).date();
                for _ in 0..DAYS_MAX {
                    if let Some(due) = self.due(every, date).filter(|due| *due > now) {
                        return due;
                    }
                    date = date.tomorrow().unwrap_or(date);
                }
                now + every.seconds()
            }
        }
    }

    /// Returns `2026-11-22_0300`, by the zone's clocks.
    pub(super) fn label(&self, moment: i64) -> String {
        let local = self.local(moment);
        format!(
            "{:04}-{:02}-{:02}_{:02}{:02}",
            local.year(),
            local.month(),
            local.day(),
            local.hour(),
            local.minute()
        )
    }

    fn local(&self, moment: i64) -> Zoned {
        let timestamp = Timestamp::from_second(moment).unwrap_or(Timestamp::UNIX_EPOCH);
        timestamp.to_zoned(self.zone.clone())
    }

    /// Returns the last time that clocks showed the minute of the policy.
    fn hour_of(&self, now: i64) -> i64 {
        let shift = i64::from(self.local(now).offset().seconds()) - i64::from(self.at.minute) * 60;
        (now + shift).div_euclid(HOUR) * HOUR - shift
    }

    /// Returns the due time on a date, if the schedule is due then.
    fn due(&self, every: Every, date: Date) -> Option<i64> {
        let is_day = match every {
            Every::Weekly => {
                let index = usize::try_from(date.weekday().to_monday_zero_offset()).ok()?;
                Weekday::ALL.get(index) == Some(&self.weekday)
            }
            Every::Hourly | Every::Daily => true,
        };
        let at = date.at(self.at.hour, self.at.minute, 0, 0);
        let zoned = is_day
            .then(|| at.to_zoned(self.zone.clone()).ok())
            .flatten();
        zoned.map(|zoned| zoned.timestamp().as_second())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calendar(zone_name: &str, at: &str, weekday: Weekday) -> Calendar {
        Calendar {
            zone: zone(zone_name).expect("a zone"),
            at: at.parse().expect("a time"),
            weekday,
        }
    }

    fn second(text: &str) -> i64 {
        text.parse::<Timestamp>().expect("a moment").as_second()
    }

    #[track_caller]
    fn assert_due(calendar: &Calendar, every: Every, now: &str, last: &str, next: &str) {
        let show = |second| {
            Timestamp::from_second(second)
                .expect("a moment")
                .to_string()
        };
        let now = second(now);
        assert_eq!(show(calendar.last(every, now)), last);
        assert_eq!(show(calendar.next(every, now)), next);
    }

    #[test]
    fn days_and_weeks_are_those_of_the_zone() {
        let utc = calendar("UTC", "00:00", Weekday::Sunday);
        let now = "2026-11-22T03:59:59Z";
        assert_due(
            &utc,
            Every::Hourly,
            now,
            "2026-11-22T03:00:00Z",
            "2026-11-22T04:00:00Z",
        );
        assert_due(
            &utc,
            Every::Daily,
            now,
            "2026-11-22T00:00:00Z",
            "2026-11-23T00:00:00Z",
        );
        assert_due(
            &utc,
            Every::Weekly,
            now,
            "2026-11-22T00:00:00Z",
            "2026-11-29T00:00:00Z",
        );
        let tokyo = calendar("Asia/Tokyo", "06:30", Weekday::Monday);
        assert_due(
            &tokyo,
            Every::Hourly,
            now,
            "2026-11-22T03:30:00Z",
            "2026-11-22T04:30:00Z",
        );
        assert_due(
            &tokyo,
            Every::Daily,
            now,
            "2026-11-21T21:30:00Z",
            "2026-11-22T21:30:00Z",
        );
        assert_due(
            &tokyo,
            Every::Weekly,
            now,
            "2026-11-15T21:30:00Z",
            "2026-11-22T21:30:00Z",
        );
        // Half an hour from the others.
        let india = calendar("Asia/Kolkata", "00:00", Weekday::Sunday);
        assert_due(
            &india,
            Every::Hourly,
            now,
            "2026-11-22T03:30:00Z",
            "2026-11-22T04:30:00Z",
        );
        assert_eq!(india.label(second(now)), "2026-11-22_0929");
        // The schedule is due exactly at the due time.
        assert_due(
            &utc,
            Every::Daily,
            "2026-11-22T00:00:00Z",
            "2026-11-22T00:00:00Z",
            "2026-11-23T00:00:00Z",
        );
    }

    #[test]
    fn a_time_that_clocks_skip_or_repeat_is_due_once() {
        // 02:30 does not exist on 2026-03-29 and comes twice on 2026-10-25.
        let berlin = calendar("Europe/Berlin", "02:30", Weekday::Sunday);
        let mut found = Vec::new();
        for start in ["2026-03-28T00:00:00Z", "2026-10-24T00:00:00Z"] {
            let mut now = second(start);
            for _ in 0..3 {
                now = berlin.next(Every::Daily, now);
                found.push(Timestamp::from_second(now).expect("a moment").to_string());
                assert_eq!(berlin.last(Every::Daily, now), now);
            }
        }
        assert_eq!(
            found,
            [
                "2026-03-28T01:30:00Z",
                "2026-03-29T01:30:00Z",
                "2026-03-30T00:30:00Z",
                "2026-10-24T00:30:00Z",
                "2026-10-25T00:30:00Z",
                "2026-10-26T01:30:00Z",
            ]
        );
        // Hourly runs do not change.
        let mut now = second("2026-10-24T23:30:00Z");
        for _ in 0..5 {
            let next = berlin.next(Every::Hourly, now);
            assert_eq!(next - now, HOUR);
            now = next;
        }
    }

    #[test]
    fn a_zone_has_a_name_of_the_list() {
        for name in [
            "UTC",
            "Europe/Berlin",
            "America/Argentina/Buenos_Aires",
            "Etc/GMT+3",
        ] {
            assert!(zone(name).is_ok(), "{name}");
        }
        let long = "x".repeat(1024);
        for name in [
            "",
            "Europe/Atlantis",
            "../../etc/passwd",
            "+01:00",
            "é",
            &long,
        ] {
            let text = zone(name).expect_err(name);
            assert!(text.contains("IANA") && text.len() < 300, "{text}");
        }
    }
}
