//! A limit for lines in the log that a client can cause at will: at most one line in a period.

use everglade_env::lock::Mutex;
use std::time::{Duration, Instant};

/// Says when the next line is due.
#[derive(Debug)]
pub(crate) struct Seldom {
    every: Duration,
    /// Time of the last line, and number of lines suppressed since.
    last: Mutex<(Option<Instant>, u64)>,
}

impl Seldom {
    pub(crate) const fn new(every: Duration) -> Seldom {
        Seldom {
            every,
            last: Mutex::new((None, 0)),
        }
    }

    /// Returns the number of lines suppressed before this one, if this line is due.
    pub(crate) fn due(&self) -> Option<u64> {
        self.due_at(Instant::now())
    }

    fn due_at(&self, now: Instant) -> Option<u64> {
        let mut last = self.last.lock();
        let is_due = last
            .0
            .is_none_or(|last| now.saturating_duration_since(last) >= self.every);
        if is_due {
            last.0 = Some(now);
            return Some(std::mem::take(&mut last.1));
        }
        last.1 += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_many_were_left_out() {
        let seldom = Seldom::new(Duration::from_secs(10));
        let begun = Instant::now();
        let at = |seconds| seldom.due_at(begun + Duration::from_secs(seconds));
        let all = [at(0), at(1), at(9), at(10), at(11), at(30)];
        assert_eq!(all, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
