//! CPU time of reactors by subsystem (N-05): what random overwrites and sequential writes load
//! (D-26).
//!
//! A reactor is in one [`Subsystem`] at a time, and adds up how long it is in each, by the
//! monotonic clock: reading that takes 25 ns. The thread's own CPU clock is a system call, so it is
//! read once for some milliseconds of work ([`FOLD`]). Then the time since the last reading is
//! given to the subsystems:
//!
//! ```text
//! CPU time of the thread ≥ sum of the subsystems ─▶ each gets its time, devices get the rest
//!                        < sum ─▶ the thread was interrupted; each gets its part of the CPU time
//! ```
//!
//! A session begins operations itself, and most reads end there, after less than a microsecond. So
//! only one of [`SAMPLE`] is timed, and counts for all of them.
//!
//! 1. The sum over all subsystems is the CPU time of the thread, up to what was not given out yet:
//!    that is at most [`FOLD`] of work, and the waits between.
//! 2. Waiting for sockets and devices is not CPU time. What the kernel does inside of the wait is:
//!    it submits and completes operations of devices.

use std::sync::atomic::{AtomicU64, Ordering};

use everglade_env::Nanos;

/// One of so many operations that a session begins is timed.
const SAMPLE: u8 = 16;
/// Work after which times are given out.
const FOLD: Nanos = 5_000_000;

/// What a reactor works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subsystem {
    /// Sessions: receiving, understanding and answering requests, and administration.
    Protocol,
    /// Operations of clients.
    Client,
    /// The journal: groups of operations are encoded, written and made known.
    Journal,
    /// Cleaning of consistency points: changed blocks of LUNs get their places.
    Cleaner,
    /// The rest of consistency points: containers, maps, commits.
    Infrastructure,
    /// Parity: stripes of consistency points and reconstruction.
    Parity,
    /// Work that nobody waits for: freeing, scrubs, catching up, repairs, replay.
    Background,
    /// The kernel's part in operations of devices and in waiting.
    Device,
}

impl Subsystem {
    /// All of them, in the order of their times.
    pub const ALL: [Subsystem; 8] = [
        Subsystem::Protocol,
        Subsystem::Client,
        Subsystem::Journal,
        Subsystem::Cleaner,
        Subsystem::Infrastructure,
        Subsystem::Parity,
        Subsystem::Background,
        Subsystem::Device,
    ];

    /// Name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Subsystem::Protocol => "protocol",
            Subsystem::Client => "client",
            Subsystem::Journal => "journal",
            Subsystem::Cleaner => "cleaner",
            Subsystem::Infrastructure => "infrastructure",
            Subsystem::Parity => "parity",
            Subsystem::Background => "background",
            Subsystem::Device => "device",
        }
    }
}

/// CPU time of a reactor since its start, by subsystem.
#[derive(Debug, Default)]
pub(crate) struct CpuTimes([AtomicU64; Subsystem::ALL.len()]);

impl CpuTimes {
    /// Returns the times, in the order of [`Subsystem::ALL`].
    pub(crate) fn read(&self) -> [Nanos; Subsystem::ALL.len()] {
        std::array::from_fn(|index| self.0[index].load(Ordering::Relaxed))
    }

    /// Only the reactor adds.
    fn add(&self, subsystem: usize, nanos: Nanos) {
        let known = self.0[subsystem].load(Ordering::Relaxed);
        self.0[subsystem].store(known + nanos, Ordering::Relaxed);
    }
}

/// A reactor's side of it.
#[derive(Debug)]
pub(crate) struct Meter {
    current: Subsystem,
    since: Nanos,
    /// What is not given out yet.
    spent: [Nanos; Subsystem::ALL.len()],
    /// Operations that sessions began.
    begun: u8,
    /// The thread's CPU time when times were last given out.
    cpu: Nanos,
}

impl Meter {
    pub(crate) fn new() -> Meter {
        Meter {
            current: Subsystem::Device,
            since: 0,
            spent: [0; Subsystem::ALL.len()],
            begun: 0,
            cpu: 0,
        }
    }

    /// Works for a subsystem from now on. Returns the one before.
    pub(crate) fn enter(&mut self, next: Subsystem, now: impl FnOnce() -> Nanos) -> Subsystem {
        let before = self.current;
        if before != next {
            let now = now();
            self.spent[before as usize] += now.saturating_sub(self.since);
            (self.current, self.since) = (next, now);
        }
        before
    }

    /// True if the operation that a session begins is one that is timed.
    pub(crate) fn is_sample(&mut self) -> bool {
        self.begun = (self.begun + 1) % SAMPLE;
        self.begun == 0 && self.current == Subsystem::Protocol
    }

    /// Returns the time of clients that is not given out yet.
    pub(crate) fn of_clients(&self) -> Nanos {
        self.spent[Subsystem::Client as usize]
    }

    /// An operation was timed, and clients had `before` when it began. It stands for others that
    /// were not timed: their time is counted as that of sessions, and is taken away from it here.
    pub(crate) fn count_others(&mut self, before: Nanos) {
        let took = self.of_clients().saturating_sub(before);
        let others = took.saturating_mul(u64::from(SAMPLE) - 1);
        let protocol = &mut self.spent[Subsystem::Protocol as usize];
        let others = others.min(*protocol);
        *protocol -= others;
        self.spent[Subsystem::Client as usize] += others;
    }

    /// True if enough was done to give it out.
    pub(crate) fn is_full(&self) -> bool {
        let work = &self.spent[..Subsystem::Device as usize];
        work.iter().sum::<Nanos>() >= FOLD
    }

    /// Gives out what was spent; `cpu` is the thread's CPU time.
    pub(crate) fn fold(&mut self, cpu: Nanos, times: &CpuTimes) {
        let spent = std::mem::take(&mut self.spent);
        let cpu_spent = cpu.saturating_sub(self.cpu);
        self.cpu = cpu;
        let work = &spent[..Subsystem::Device as usize];
        let sum: Nanos = work.iter().sum();
        let mut left = cpu_spent;
        for (index, spent) in work.iter().enumerate() {
            let part = match sum <= cpu_spent {
                true => *spent,
                false => scaled(*spent, cpu_spent, sum),
            };
            times.add(index, part);
            left -= part;
        }
        times.add(Subsystem::Device as usize, left);
    }
}

/// `part` of `whole`, of something else that is smaller than `whole`.
fn scaled(part: Nanos, of: Nanos, whole: Nanos) -> Nanos {
    let scaled = u128::from(part) * u128::from(of) / u128::from(whole.max(1));
    Nanos::try_from(scaled).unwrap_or(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// A meter that was with a session for 2 ms, with a client for 6 ms, and waited for 100 ms.
    fn used() -> Meter {
        let mut meter = Meter::new();
        for (subsystem, at) in [
            (Subsystem::Protocol, 10 * MS),
            (Subsystem::Client, 12 * MS),
            (Subsystem::Device, 18 * MS),
            (Subsystem::Protocol, 118 * MS),
        ] {
            meter.enter(subsystem, || at);
        }
        meter
    }

    fn time(times: &CpuTimes, subsystem: Subsystem) -> Nanos {
        times.read()[subsystem as usize]
    }

    #[test]
    fn each_subsystem_gets_its_time_and_devices_get_the_rest() {
        let (mut meter, times) = (used(), CpuTimes::default());
        assert!(meter.is_full());
        meter.fold(9 * MS, &times);
        assert!(!meter.is_full());
        assert_eq!(time(&times, Subsystem::Protocol), 2 * MS);
        assert_eq!(time(&times, Subsystem::Client), 6 * MS);
        assert_eq!(time(&times, Subsystem::Device), MS);
    }

    #[test]
    fn a_thread_that_was_interrupted_has_used_less() {
        let (mut meter, times) = (used(), CpuTimes::default());
        meter.fold(4 * MS, &times);
        assert_eq!(time(&times, Subsystem::Protocol), MS);
        assert_eq!(time(&times, Subsystem::Client), 3 * MS);
        assert_eq!(time(&times, Subsystem::Device), 0);
    }

    #[test]
    fn the_sum_is_the_time_of_the_thread() {
        let (mut meter, times) = (used(), CpuTimes::default());
        meter.fold(4 * MS + 1, &times);
        meter.enter(Subsystem::Journal, || 121 * MS);
        meter.enter(Subsystem::Device, || 123 * MS);
        meter.fold(9 * MS + 7, &times);
        assert_eq!(times.read().iter().sum::<Nanos>(), 9 * MS + 7);
        assert_eq!(time(&times, Subsystem::Journal), 2 * MS);
    }

    #[test]
    fn one_operation_stands_for_sixteen() {
        let (mut meter, times) = (Meter::new(), CpuTimes::default());
        assert!(!meter.is_sample(), "no session is at work");
        meter.enter(Subsystem::Protocol, || 0);
        let samples = (0..64).filter(|_| meter.is_sample()).count();
        assert_eq!(samples, 4);
        // In 100 us, 16 operations of 1 us each.
        meter.enter(Subsystem::Journal, || 95_000);
        meter.enter(Subsystem::Protocol, || 99_000);
        let before = meter.of_clients();
        meter.enter(Subsystem::Client, || 99_000);
        meter.enter(Subsystem::Protocol, || 100_000);
        meter.count_others(before);
        meter.enter(Subsystem::Device, || 100_000);
        meter.fold(100_000, &times);
        assert_eq!(time(&times, Subsystem::Client), 16_000);
        assert_eq!(time(&times, Subsystem::Journal), 4_000);
        assert_eq!(time(&times, Subsystem::Protocol), 80_000);
    }

    #[test]
    fn the_clock_is_read_only_when_the_subsystem_changes() {
        let mut meter = Meter::new();
        assert_eq!(meter.enter(Subsystem::Client, || 5), Subsystem::Device);
        let before = meter.enter(Subsystem::Client, || panic!("it is there already"));
        assert_eq!(before, Subsystem::Client);
    }
}
