//! A window: the part of each day in which the daemon may do some work.

use std::fmt;
use std::str::FromStr;

const DAY_MINUTES: u64 = 24 * 60;

/// From one time of day to another, in UTC; over midnight if the second one is earlier. Or always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window(Option<(u64, u64)>);

impl Window {
    /// Any time of day.
    pub const ALWAYS: Window = Window(None);

    /// True if a moment, in seconds since 1970 UTC, lies in it.
    #[must_use]
    pub fn contains(self, seconds: u64) -> bool {
        let Some((begin, end)) = self.0 else {
            return true;
        };
        let now = seconds / 60 % DAY_MINUTES;
        match begin < end {
            true => (begin..end).contains(&now),
            false => now >= begin || now < end,
        }
    }

    /// True if it is not all of the day.
    #[must_use]
    pub fn is_limited(self) -> bool {
        self.0.is_some()
    }
}

fn minutes(text: &str) -> Option<u64> {
    let (hours, minutes) = text.split_once(':')?;
    let two = |digits: &str| match digits.len() == 2 && digits.bytes().all(|it| it.is_ascii_digit())
    {
        true => digits.parse::<u64>().ok(),
        false => None,
    };
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Window, String> {
        if text == "always" {
            return Ok(Window::ALWAYS);
        }
        let parts = text.split_once('-');
        let both = parts.and_then(|(begin, end)| Some((minutes(begin)?, minutes(end)?)));
        match both {
            Some((begin, end)) if begin != end => Ok(Window(Some((begin, end)))),
            _ => Err(format!(
                "'{text}' is no part of a day; expected 'always', or times in UTC such as \
                22:00-06:00"
            )),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((begin, end)) = self.0 else {
            return f.write_str("always");
        };
        let [begin, end] = [begin, end].map(|time| format!("{:02}:{:02}", time / 60, time % 60));
        write!(f, "{begin}-{end}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> u64 {
        let day = 20_000 * 86_400;
        day + minutes(text).expect("a time") * 60 + 59
    }

    #[test]
    fn a_window_may_go_over_midnight() {
        let night: Window = "22:00-06:30".parse().expect("a window");
        for (time, is_in) in [
            ("21:59", false),
            ("22:00", true),
            ("23:59", true),
            ("00:00", true),
            ("06:29", true),
            ("06:30", false),
            ("12:00", false),
        ] {
            assert_eq!(night.contains(at(time)), is_in, "{time}");
        }
        let noon: Window = "11:00-13:00".parse().expect("a window");
        assert!(noon.contains(at("12:59")) && !noon.contains(at("13:00")));
        assert!(!noon.contains(at("10:59")) && !noon.contains(at("00:00")));
        assert!(Window::ALWAYS.contains(at("03:00")) && !Window::ALWAYS.is_limited());
    }

    #[test]
    fn it_is_written_as_it_is_read_and_others_are_refused() {
        for text in ["always", "22:00-06:00", "00:05-23:59"] {
            let window: Window = text.parse().expect("a window");
            assert_eq!(window.to_string(), text);
        }
        for text in [
            "",
            "never",
            "22-06",
            "22:00",
            "22:00-",
            "24:00-06:00",
            "22:60-06:00",
            "2:00-6:00",
            "+2:00-06:00",
            "22:00-22:00",
            "22:00-06:00-07:00",
        ] {
            assert!(text.parse::<Window>().is_err(), "{text}");
        }
    }
}
