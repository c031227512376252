//! The pace of work that no client waits for: copying to a drive that is behind, scrubbing, and
//! moving blocks (docs/decisions/0051-the-pace-of-catching-up-and-scrubs.md).
//!
//! While no client reads or writes, this work goes as fast as the drives do. Otherwise it goes in
//! small [`Bite`]s, and after each one it rests, several times as long as the bite took. When a
//! client's read beside it is slow ([`super::share`] says what that is), it rests twice as long
//! from then on, at most once in a [`PERIOD`]. After a [`CALM`] without a slow read it rests a
//! quarter less.
//!
//! 1. A rest is at most [`MOST_RESTS`] times as long as the bite, and [`CATCH_UP_RESTS`] times for
//!    a drive that catches up, so the work always ends.
//! 2. A race between reactors changes the rest by one step at most.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everglade_env::Nanos;

/// Clients that were not heard for this time do not count.
const QUIET: Nanos = 500_000_000;
/// Rests in units of the time of a bite. Beside clients that do not suffer, the work has a fifth of
/// the time.
const LEAST_RESTS: u64 = 4;
/// A scrub is due once a week.
const MOST_RESTS: u64 = 64;
/// A drive of 4 TB that is written at 200 MB/s catches up in four days then. More rest would leave
/// the aggregate without its redundancy for too long.
const CATCH_UP_RESTS: u64 = 16;
/// The least time between two steps to longer rests, so that the effect of one is seen.
const PERIOD: Nanos = 50_000_000;
/// The time without a slow read after which rests become shorter.
const CALM: Nanos = 500_000_000;

/// How much is done before the next rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bite {
    /// As much as is good for the work.
    Large,
    /// Little, because clients are there.
    Small,
}

/// What is done at this pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    CatchUp,
    Scrub,
    /// Moving blocks, so that they lie well.
    Garden,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Pace {
    /// When a client was last heard; 0: never.
    heard: AtomicU64,
    rests: AtomicU64,
    changed: AtomicU64,
    /// Each job reads at present.
    catches_up: AtomicBool,
    scrubs: AtomicBool,
    gardens: AtomicBool,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            heard: AtomicU64::new(0),
            rests: AtomicU64::new(LEAST_RESTS),
            changed: AtomicU64::new(0),
            catches_up: AtomicBool::new(false),
            scrubs: AtomicBool::new(false),
            gardens: AtomicBool::new(false),
        }
    }
}

impl Pace {
    /// A client reads or writes.
    pub(crate) fn hear(&self, now: Nanos) {
        self.heard.store(now, Ordering::Relaxed);
    }

    /// A job reads from now on, or no more.
    pub(crate) fn set_busy(&self, job: Job, is_busy: bool) {
        let flag = match job {
            Job::CatchUp => &self.catches_up,
            Job::Scrub => &self.scrubs,
            Job::Garden => &self.gardens,
        };
        flag.store(is_busy, Ordering::Relaxed);
    }

    /// True while a job reads.
    pub(crate) fn is_busy(&self) -> bool {
        let jobs = [&self.catches_up, &self.scrubs, &self.gardens];
        jobs.iter().any(|job| job.load(Ordering::Relaxed))
    }

    /// Returns how much is done next.
    pub(crate) fn bite(&self, now: Nanos) -> Bite {
        let heard = self.heard.load(Ordering::Relaxed);
        match heard == 0 || now.saturating_sub(heard) >= QUIET {
            true => Bite::Large,
            false => Bite::Small,
        }
    }

    /// Returns the rest of a job after a bite that took so long.
    pub(crate) fn rest(&self, job: Job, took: Nanos, now: Nanos) -> Nanos {
        let most = match job {
            Job::CatchUp => CATCH_UP_RESTS,
            Job::Scrub | Job::Garden => MOST_RESTS,
        };
        match self.bite(now) {
            Bite::Large => 0,
            Bite::Small => took.saturating_mul(self.rests.load(Ordering::Relaxed).min(most)),
        }
    }

    /// Records a client's read that a device completed at `now`, while a job reads.
    pub(crate) fn note_read(&self, is_slow: bool, now: Nanos) {
        let since = now.saturating_sub(self.changed.load(Ordering::Relaxed));
        if since < PERIOD {
            return;
        }
        let rests = self.rests.load(Ordering::Relaxed);
        let next = match is_slow {
            true => (rests * 2).min(MOST_RESTS),
            false if since >= CALM => (rests - rests / 4).max(LEAST_RESTS),
            _ => return,
        };
        self.rests.store(next, Ordering::Relaxed);
        self.changed.store(now, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;
    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn work_does_not_rest_while_nobody_reads_or_writes() {
        let pace = Pace::default();
        assert_eq!(
            (pace.bite(10), pace.rest(Job::Scrub, MS, 10)),
            (Bite::Large, 0)
        );
        pace.hear(SECOND);
        let now = SECOND + QUIET - 1;
        assert_eq!(
            (pace.bite(now), pace.rest(Job::Scrub, MS, now)),
            (Bite::Small, 4 * MS)
        );
        let now = SECOND + QUIET;
        assert_eq!(
            (pace.bite(now), pace.rest(Job::Scrub, MS, now)),
            (Bite::Large, 0)
        );
    }

    #[test]
    fn work_rests_longer_after_slow_reads_beside_it_and_shorter_after_a_calm() {
        let pace = Pace::default();
        let read = |is_slow, at| {
            pace.hear(at);
            pace.note_read(is_slow, at);
        };
        read(true, SECOND);
        read(true, SECOND + PERIOD - 1);
        assert_eq!(
            pace.rest(Job::Scrub, MS, SECOND),
            8 * MS,
            "once in a period"
        );
        for turn in 1..10 {
            read(true, SECOND + turn * PERIOD);
        }
        assert_eq!(pace.rest(Job::Scrub, MS, SECOND), 64 * MS);
        let catch_up = pace.rest(Job::CatchUp, MS, SECOND);
        assert_eq!(catch_up, 16 * MS);
        let calm = SECOND + 9 * PERIOD;
        read(false, calm + CALM - 1);
        assert_eq!(pace.rest(Job::Scrub, MS, calm), 64 * MS);
        read(false, calm + CALM);
        assert_eq!(pace.rest(Job::Scrub, MS, calm), 48 * MS);
        for turn in 2..20 {
            read(false, calm + turn * CALM);
        }
        assert_eq!(pace.rest(Job::Scrub, MS, calm + 19 * CALM), 4 * MS);
    }

    #[test]
    fn each_job_is_busy_for_itself() {
        let pace = Pace::default();
        pace.set_busy(Job::Scrub, true);
        pace.set_busy(Job::CatchUp, true);
        pace.set_busy(Job::Scrub, false);
        assert!(pace.is_busy());
        pace.set_busy(Job::CatchUp, false);
        assert!(!pace.is_busy());
    }
}
