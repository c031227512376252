//! Counters of the sessions of one reactor, which any thread can read (N-02).
//!
//! One [`SessionMetrics`] belongs to one [`Sessions`](crate::Sessions), which alone writes it: it
//! updates a counter by a plain load and a plain store, without a locked instruction, on a cache
//! line that no other thread writes. Readers take a [`Snapshot`] at any time. Each of its numbers
//! is right, but they may be a few requests apart. Snapshots of several reactors add up.
//!
//! Durations run from the turn in which a request's header was admitted to the turn in which its
//! reply was queued. The owner passes the time through [`SessionMetrics::tick`], once or twice a
//! turn, because sessions have no clock.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use everglade_env::Nanos;

use crate::Memory;
use crate::wire::Command;

/// Upper bounds of the buckets of durations; one more bucket holds what took longer.
pub const DURATION_BOUNDS: [Nanos; 15] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    5_000_000_000,
];

/// Buckets of a histogram, the last without a bound.
pub const BUCKETS: usize = DURATION_BOUNDS.len() + 1;

/// The commands that are counted, with their names in metrics. Others are unknown or have no reply.
pub const OPERATIONS: [(Command, &str); 7] = [
    (Command::Read, "read"),
    (Command::Write, "write"),
    (Command::Flush, "flush"),
    (Command::Trim, "trim"),
    (Command::Cache, "cache"),
    (Command::WriteZeroes, "write_zeroes"),
    (Command::BlockStatus, "block_status"),
];

/// Counters of one reactor's sessions. See the module's documentation.
#[derive(Default)]
pub struct SessionMetrics {
    now: AtomicU64,
    operations: [Counters; OPERATIONS.len()],
    sessions_open: AtomicU64,
    sessions_total: AtomicU64,
    requests_refused: AtomicU64,
    handshakes_failed: AtomicU64,
}

#[derive(Default)]
struct Counters {
    requests: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
    duration: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// The values of all counters at about one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By operation, in the order of [`OPERATIONS`].
    pub operations: [OperationSnapshot; OPERATIONS.len()],
    /// Sessions that exist now.
    pub sessions_open: u64,
    /// Sessions there have been.
    pub sessions_total: u64,
    /// Requests with an unknown command.
    pub requests_refused: u64,
    /// Sessions that ended before an export was chosen.
    pub handshakes_failed: u64,
    /// Network memory.
    pub memory: MemorySnapshot,
}

/// The memory that sessions hold for their clients, see [`Memory`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySnapshot {
    /// The most that sessions may hold.
    pub total: u64,
    /// What they hold.
    pub used: u64,
    /// Sessions that wait for some.
    pub waiting: u64,
    /// How often sessions had to wait.
    pub waits: u64,
    /// Sessions that were ended because their peers did not move while others waited.
    pub stalled: u64,
}

impl From<&Memory> for MemorySnapshot {
    fn from(memory: &Memory) -> Self {
        MemorySnapshot {
            total: memory.total(),
            used: memory.used(),
            waiting: memory.waiting(),
            waits: memory.waits(),
            stalled: memory.stalled(),
        }
    }
}

impl AddAssign<MemorySnapshot> for MemorySnapshot {
    fn add_assign(&mut self, other: MemorySnapshot) {
        self.total += other.total;
        self.used += other.used;
        self.waiting += other.waiting;
        self.waits += other.waits;
        self.stalled += other.stalled;
    }
}

/// One operation of a [`Snapshot`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationSnapshot {
    /// Requests replied to.
    pub requests: u64,
    /// The requests among them that were answered with an error.
    pub errors: u64,
    /// Bytes of the ranges of those without an error.
    pub bytes: u64,
    /// Sum of the durations.
    pub duration: Nanos,
    /// Requests by duration: bucket `i` holds those up to `DURATION_BOUNDS[i]` and above the bound
    /// before. Not cumulative.
    pub buckets: [u64; BUCKETS],
}

impl SessionMetrics {
    /// Sets the time at which things happen from now on.
    pub fn tick(&self, now: Nanos) {
        self.now.store(now, Ordering::Relaxed);
    }

    /// All values but those of memory, which [`Memory`] has.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let get = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        Snapshot {
            operations: std::array::from_fn(|index| {
                let counters = &self.operations[index];
                OperationSnapshot {
                    requests: get(&counters.requests),
                    errors: get(&counters.errors),
                    bytes: get(&counters.bytes),
                    duration: get(&counters.duration),
                    buckets: std::array::from_fn(|bucket| get(&counters.buckets[bucket])),
                }
            }),
            sessions_open: get(&self.sessions_open),
            sessions_total: get(&self.sessions_total),
            requests_refused: get(&self.requests_refused),
            handshakes_failed: get(&self.handshakes_failed),
            memory: MemorySnapshot::default(),
        }
    }

    pub(crate) fn now(&self) -> Nanos {
        self.now.load(Ordering::Relaxed)
    }

    pub(crate) fn session_began(&self) {
        add(&self.sessions_total, 1);
        self.session_came();
    }

    /// A session that began in another table.
    pub(crate) fn session_came(&self) {
        add(&self.sessions_open, 1);
    }

    /// A session moves to another table.
    pub(crate) fn session_left(&self) {
        let open = self.sessions_open.load(Ordering::Relaxed);
        assert!(open > 0, "a session that is no more here was here");
        self.sessions_open.store(open - 1, Ordering::Relaxed);
    }

    pub(crate) fn session_ended(&self, chose_an_export: bool) {
        self.session_left();
        add(&self.handshakes_failed, u64::from(!chose_an_export));
    }

    /// A request was replied to. `bytes` is the length of its range.
    pub(crate) fn replied(&self, command: Command, since: Nanos, bytes: u64, failed: bool) {
        let Some(index) = index(command) else {
            return;
        };
        let counters = &self.operations[index];
        let duration = self.now().saturating_sub(since);
        let bucket = DURATION_BOUNDS.partition_point(|bound| *bound < duration);
        add(&counters.requests, 1);
        add(&counters.buckets[bucket], 1);
        add(&counters.duration, duration);
        if failed {
            add(&counters.errors, 1);
        } else {
            add(&counters.bytes, bytes);
        }
    }

    /// A request was refused as soon as it was seen.
    pub(crate) fn refused(&self, command: Option<Command>) {
        match command {
            Some(command) => self.replied(command, self.now(), 0, true),
            None => add(&self.requests_refused, 1),
        }
    }
}

impl AddAssign<&Snapshot> for Snapshot {
    fn add_assign(&mut self, other: &Snapshot) {
        for (sum, one) in self.operations.iter_mut().zip(&other.operations) {
            sum.requests += one.requests;
            sum.errors += one.errors;
            sum.bytes += one.bytes;
            sum.duration += one.duration;
            for (sum, one) in sum.buckets.iter_mut().zip(&one.buckets) {
                *sum += one;
            }
        }
        self.sessions_open += other.sessions_open;
        self.sessions_total += other.sessions_total;
        self.requests_refused += other.requests_refused;
        self.handshakes_failed += other.handshakes_failed;
        self.memory += other.memory;
    }
}

fn index(command: Command) -> Option<usize> {
    OPERATIONS.iter().position(|(known, _)| *known == command)
}

/// The owner is the only writer, see the module's documentation.
fn add(cell: &AtomicU64, amount: u64) {
    let sum = cell.load(Ordering::Relaxed).wrapping_add(amount);
    cell.store(sum, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_the_bucket_whose_bound_they_do_not_exceed() {
        let metrics = SessionMetrics::default();
        for now in [50_000, 50_001, 6_000_000_000] {
            metrics.tick(now);
            metrics.replied(Command::Read, 0, 4096, false);
        }
        let read = metrics.snapshot().operations[0].clone();
        assert_eq!(
            (read.buckets[0], read.buckets[1], read.buckets[BUCKETS - 1]),
            (1, 1, 1)
        );
        assert_eq!((read.requests, read.bytes, read.errors), (3, 3 * 4096, 0));
        assert_eq!(read.duration, 6_000_100_001);
    }

    #[test]
    fn snapshots_add_up() {
        let metrics = SessionMetrics::default();
        metrics.session_began();
        metrics.replied(Command::Trim, 0, 1, true);
        metrics.refused(None);
        let mut sum = metrics.snapshot();
        sum += &metrics.snapshot();
        assert_eq!((sum.sessions_open, sum.requests_refused), (2, 2));
        assert_eq!((sum.operations[3].errors, sum.operations[3].bytes), (2, 0));
    }
}
