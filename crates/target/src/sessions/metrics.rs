//! What the sessions of one table did, counted where it happens and read from any thread (N-02).
//!
//! The counters of a table have one writer, its reactor: a counter is moved by a plain load and a
//! plain store, without a locked instruction and on a cache line nobody else writes. Readers take a
//! [`Snapshot`] whenever they like; its numbers are each right and may be a few requests apart from
//! each other. Snapshots of several reactors add up.
//!
//! Durations run from the turn in which a request's header was admitted to the turn in which its
//! reply was queued. Time comes in through [`SessionCounters::tick`], once or twice a turn, because
//! the sessions ask no clock.

use core::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use everglade_env::Nanos;

/// Upper bounds of the buckets of durations; one more bucket has longer durations. All protocols
/// have the same bounds, so that they can be compared.
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

/// The counters of a protocol.
pub trait Metrics: Default + Send + Sync + 'static {
    /// Returns the counters that sessions of every protocol have, with the clock.
    fn sessions(&self) -> &SessionCounters;

    /// Returns the counters of each kind of request, with its name in metrics. Kinds and order are
    /// always the same.
    fn operations(&self) -> impl Iterator<Item = (&'static str, &OperationCounters)>;

    /// Returns the values of all counters at about this moment.
    fn snapshot(&self) -> Snapshot {
        let counted = self.sessions();
        let operations = self.operations();
        Snapshot {
            operations: operations
                .map(|(name, counters)| counters.snapshot(name))
                .collect(),
            sessions_open: get(&counted.open),
            sessions_total: get(&counted.total),
            requests_refused: get(&counted.requests_refused),
            handshakes_failed: get(&counted.handshakes_failed),
        }
    }
}

/// Counters of sessions, for all protocols. See the module's documentation.
#[derive(Default)]
pub struct SessionCounters {
    now: AtomicU64,
    open: AtomicU64,
    total: AtomicU64,
    requests_refused: AtomicU64,
    handshakes_failed: AtomicU64,
}

/// Counters of one kind of request.
#[derive(Default)]
pub struct OperationCounters {
    requests: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
    duration: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// The values of all counters at about one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Counters by kind of request.
    pub operations: Vec<OperationSnapshot>,
    /// Sessions that exist now.
    pub sessions_open: u64,
    /// Sessions there have been.
    pub sessions_total: u64,
    /// Requests of an unknown kind.
    pub requests_refused: u64,
    /// Sessions that ended before an export was chosen.
    pub handshakes_failed: u64,
}

/// Counters of one kind of request in a [`Snapshot`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationSnapshot {
    /// Its name in metrics.
    pub name: &'static str,
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

impl SessionCounters {
    /// Sets the time at which things happen from now on.
    #[inline]
    pub fn tick(&self, now: Nanos) {
        self.now.store(now, Ordering::Relaxed);
    }

    /// Returns the time that was set last.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Nanos {
        self.now.load(Ordering::Relaxed)
    }

    /// Counts a request of an unknown kind.
    pub fn request_refused(&self) {
        add(&self.requests_refused, 1);
    }

    pub(super) fn began(&self) {
        add(&self.total, 1);
        self.came();
    }

    /// Counts a session that began in another table.
    pub(super) fn came(&self) {
        add(&self.open, 1);
    }

    /// Counts a session that moves to another table.
    pub(super) fn left(&self) {
        let open = get(&self.open);
        assert!(open > 0, "a session that is no more here was here");
        self.open.store(open - 1, Ordering::Relaxed);
    }

    pub(super) fn ended(&self, chose_an_export: bool) {
        self.left();
        add(&self.handshakes_failed, u64::from(!chose_an_export));
    }
}

impl OperationCounters {
    /// Counts a request that took this time. `bytes` is the length of its range.
    #[inline]
    pub fn replied(&self, duration: Nanos, bytes: u64, failed: bool) {
        let bucket = DURATION_BOUNDS.partition_point(|bound| *bound < duration);
        add(&self.requests, 1);
        add(&self.buckets[bucket], 1);
        add(&self.duration, duration);
        if failed {
            add(&self.errors, 1);
        } else {
            add(&self.bytes, bytes);
        }
    }

    fn snapshot(&self, name: &'static str) -> OperationSnapshot {
        OperationSnapshot {
            name,
            requests: get(&self.requests),
            errors: get(&self.errors),
            bytes: get(&self.bytes),
            duration: get(&self.duration),
            buckets: std::array::from_fn(|bucket| get(&self.buckets[bucket])),
        }
    }
}

impl AddAssign<&Snapshot> for Snapshot {
    /// # Panics
    /// If one of another protocol is added.
    fn add_assign(&mut self, other: &Snapshot) {
        if self.operations.is_empty() {
            self.operations.clone_from(&other.operations);
        } else {
            assert_eq!(self.operations.len(), other.operations.len());
            for (sum, one) in self.operations.iter_mut().zip(&other.operations) {
                *sum += one;
            }
        }
        self.sessions_open += other.sessions_open;
        self.sessions_total += other.sessions_total;
        self.requests_refused += other.requests_refused;
        self.handshakes_failed += other.handshakes_failed;
    }
}

impl AddAssign<&OperationSnapshot> for OperationSnapshot {
    /// # Panics
    /// If one of another kind is added.
    fn add_assign(&mut self, other: &OperationSnapshot) {
        assert_eq!(self.name, other.name, "numbers of one kind add up");
        self.requests += other.requests;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.duration += other.duration;
        for (sum, one) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += one;
        }
    }
}

fn get(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::Relaxed)
}

/// Adds to the value. The owner is the only writer, see the module's documentation.
#[inline]
fn add(cell: &AtomicU64, amount: u64) {
    let sum = cell.load(Ordering::Relaxed).wrapping_add(amount);
    cell.store(sum, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_the_bucket_whose_bound_they_do_not_exceed() {
        let read = OperationCounters::default();
        for duration in [50_000, 50_001, 6_000_000_000] {
            read.replied(duration, 4096, false);
        }
        let read = read.snapshot("read");
        assert_eq!(
            (read.buckets[0], read.buckets[1], read.buckets[BUCKETS - 1]),
            (1, 1, 1)
        );
        assert_eq!((read.requests, read.bytes, read.errors), (3, 3 * 4096, 0));
        assert_eq!(read.duration, 6_000_100_001);
    }

    #[test]
    fn snapshots_add_up() {
        let trim = OperationCounters::default();
        trim.replied(0, 1, true);
        let one = Snapshot {
            operations: vec![trim.snapshot("trim")],
            sessions_open: 1,
            requests_refused: 1,
            ..Snapshot::default()
        };
        let mut sum = Snapshot::default();
        sum += &one;
        sum += &one;
        assert_eq!((sum.sessions_open, sum.requests_refused), (2, 2));
        assert_eq!((sum.operations[0].errors, sum.operations[0].bytes), (2, 0));
    }
}
