//! What a device did: reads, writes and flushes, how many blocks in a run, and how long each took
//! (N-07). An operation counts when it is done, also one that failed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Nanos, Op};

/// Blocks of a run: the longest operation has 256.
pub const RUN_BOUNDS: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// Durations of operations.
pub const DEVICE_DURATION_BOUNDS: [Nanos; 12] = [
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
    1_000_000_000,
];

/// Kinds of operations that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
}

/// An operation that will be counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    kind: Kind,
    blocks: u64,
    since: Nanos,
}

impl Begun {
    /// Returns nothing for operations that are not counted.
    pub(crate) fn of(op: &Op, now: Nanos) -> Option<Begun> {
        let (kind, blocks) = match op {
            Op::Read { pages, .. } => (Kind::Read, pages.len()),
            Op::Write { pages, .. } => (Kind::Write, pages.len()),
            Op::Flush { .. } => (Kind::Flush, 0),
            Op::Allocate { .. } | Op::Punch { .. } => return None,
        };
        Some(Begun {
            kind,
            blocks: blocks as u64,
            since: now,
        })
    }
}

/// What operations of one kind did since the device was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficInfo {
    /// `read`, `write` or `flush`.
    pub op: &'static str,
    /// Operations by blocks: bucket `i` counts those up to `RUN_BOUNDS[i]`. Not cumulative; empty
    /// for flushes.
    pub runs: [u64; RUN_BOUNDS.len() + 1],
    /// Blocks of all.
    pub blocks: u64,
    /// Operations by duration: bucket `i` counts those up to `DEVICE_DURATION_BOUNDS[i]`.
    pub durations: [u64; DEVICE_DURATION_BOUNDS.len() + 1],
    /// Sum of the durations.
    pub nanos: u64,
}

#[derive(Debug, Default)]
struct Counters {
    runs: [AtomicU64; RUN_BOUNDS.len() + 1],
    blocks: AtomicU64,
    durations: [AtomicU64; DEVICE_DURATION_BOUNDS.len() + 1],
    nanos: AtomicU64,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Traffic([Counters; 3]);

impl Traffic {
    /// An operation is done.
    pub(crate) fn end(&self, begun: Begun, now: Nanos) {
        let add = |counter: &AtomicU64, more| _ = counter.fetch_add(more, Ordering::Relaxed);
        let counters = &self.0[begun.kind as usize];
        if begun.kind != Kind::Flush {
            let run = RUN_BOUNDS.partition_point(|bound| *bound < begun.blocks);
            add(&counters.runs[run], 1);
            add(&counters.blocks, begun.blocks);
        }
        let took = now.saturating_sub(begun.since);
        let bucket = DEVICE_DURATION_BOUNDS.partition_point(|bound| *bound < took);
        add(&counters.durations[bucket], 1);
        add(&counters.nanos, took);
    }

    pub(crate) fn info(&self) -> [TrafficInfo; 3] {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let kinds = [Kind::Read, Kind::Write, Kind::Flush];
        kinds.map(|kind| {
            let counters = &self.0[kind as usize];
            TrafficInfo {
                op: match kind {
                    Kind::Read => "read",
                    Kind::Write => "write",
                    Kind::Flush => "flush",
                },
                runs: std::array::from_fn(|bucket| load(&counters.runs[bucket])),
                blocks: load(&counters.blocks),
                durations: std::array::from_fn(|bucket| load(&counters.durations[bucket])),
                nanos: load(&counters.nanos),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceId;

    #[test]
    fn operations_count_by_their_runs_and_durations() {
        let traffic = Traffic::default();
        let device = DeviceId(0);
        let read = |pages| Begun {
            kind: Kind::Read,
            blocks: pages,
            since: 1_000,
        };
        traffic.end(read(1), 101_000);
        traffic.end(read(3), 101_001);
        traffic.end(read(256), 5_000_000_000);
        let flush = Begun::of(&Op::Flush { device }, 0).expect("it counts");
        traffic.end(flush, 10);
        let punch = Op::Punch {
            device,
            offset: 0,
            length: 4096,
        };
        assert!(Begun::of(&punch, 0).is_none());
        let [reads, writes, flushes] = traffic.info();
        let operations = |of: &TrafficInfo| of.durations.iter().sum::<u64>();
        assert_eq!(operations(&reads), 3);
        assert_eq!((reads.runs[0], reads.runs[2], reads.runs[8]), (1, 1, 1));
        assert_eq!(reads.blocks, 260);
        assert_eq!(
            (reads.durations[0], reads.durations[1], reads.durations[12]),
            (1, 1, 1)
        );
        assert_eq!(operations(&writes), 0);
        assert_eq!((operations(&flushes), flushes.runs), (1, [0; 10]));
    }
}
