//! Durations in the form that people write: `10s`, `500ms`, `2m`, or plain seconds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A length of time, exact to the millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    millis: u64,
}

impl Interval {
    /// Returns this number of milliseconds.
    #[must_use]
    pub const fn millis(millis: u64) -> Interval {
        Interval { millis }
    }

    /// Returns this number of seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Interval {
        Interval {
            millis: seconds * 1000,
        }
    }

    /// Converts to the standard library's type.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.millis)
    }
}

/// The reasons why a text is not a length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a length of time; expected a whole number with ms, s, m, h or d, such as 10s"
)]
pub struct NotAnInterval(String);

impl FromStr for Interval {
    type Err = NotAnInterval;

    fn from_str(text: &str) -> Result<Interval, NotAnInterval> {
        let refuse = || NotAnInterval(text.to_owned());
        let trimmed = text.trim();
        let digits_end = trimmed
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(trimmed.len());
        let (digits, unit) = trimmed.split_at(digits_end);
        let count: u64 = digits.parse().map_err(|_| refuse())?;
        let millis_per_unit = match unit.trim_start() {
            "ms" => 1,
            "" | "s" => 1000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(refuse()),
        };
        count
            .checked_mul(millis_per_unit)
            .map(Interval::millis)
            .ok_or_else(refuse)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.millis.is_multiple_of(1000) {
            write!(f, "{}s", self.millis / 1000)
        } else {
            write!(f, "{}ms", self.millis)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numbers_are_seconds() {
        for (text, millis) in [
            ("10", 10_000),
            ("10s", 10_000),
            ("250ms", 250),
            ("2m", 120_000),
            ("1 h", 3_600_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(text.parse(), Ok(Interval::millis(millis)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "s", "-1s", "1.5s", "10 days", "18446744073709551615h"] {
            assert!(text.parse::<Interval>().is_err(), "{text}");
        }
    }
}
