//! The part of the devices that a consistency point may use at once. It follows the latency of
//! clients' reads (docs/design/design.md §6).
//!
//! While there are no reads, a consistency point writes as much as the devices take. Reads that
//! wait behind these writes take longer. When a read takes several times as long as without writes,
//! the share is halved, down to [`LEAST_BLOCKS`], at most once in a [`PERIOD`], so that the effect
//! is seen before the next step. After a [`CALM`] without a slow read, the share grows by a step.
//! One slow read among many fast ones counts, because clients feel the tail. A consistency point
//! that begins [`QUIET`] after the last slow read begins with the largest share.
//!
//! 1. The share is always between [`LEAST_BLOCKS`] for each device and [`MOST_BLOCKS`], so a
//!    consistency point never stands still.
//! 2. A race between reactors changes the share by one step at most.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everglade_env::Nanos;

/// Blocks under way to the devices: 16 MiB.
pub(crate) const MOST_BLOCKS: u64 = 4096;
/// Enough to keep a fast device busy with a few writes: 512 KiB, which takes such a one half a
/// millisecond. And half of what a queue of 256 descriptors takes, one for each piece of memory,
/// which is what many virtual disks have: reads behind a full one wait for all writes before them,
/// because schedulers give writes of neighbours away in batches.
pub(crate) const LEAST_BLOCKS: u64 = 128;
/// The share grows by one part in `STEP_PART` at once.
const STEP_PART: u64 = 8;
/// Steps from the least to the most.
const STEPS_MAX: u64 = 32;
const PERIOD: Nanos = 5_000_000;
/// The time without a slow read before the share grows. It is long beside the millisecond that a
/// read loses when the share is too large.
const CALM: Nanos = 100_000_000;
const QUIET: Nanos = 5_000_000_000;
/// A read is slow when it takes `SLOW_FACTOR` times as long as a read without writes beside it.
const SLOW_FACTOR: u64 = 4;
/// And never slow below this.
const FAST_ENOUGH: Nanos = 1_000_000;
/// A new read has one part in `MEMORY` of the weight in the average.
const MEMORY: u64 = 16;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct DeviceShare {
    /// [`LEAST_BLOCKS`] for each device.
    least: AtomicU64,
    blocks: AtomicU64,
    /// Average time of a read while nothing is written.
    alone: AtomicU64,
    changed: AtomicU64,
    /// When a slow read was last met.
    slowed: AtomicU64,
    /// A consistency point has writes under way.
    is_writing: AtomicBool,
}

fn least_of(devices: usize) -> u64 {
    (LEAST_BLOCKS * devices as u64).clamp(LEAST_BLOCKS, MOST_BLOCKS)
}

impl DeviceShare {
    pub(crate) fn new(devices: usize) -> DeviceShare {
        DeviceShare {
            least: AtomicU64::new(least_of(devices)),
            blocks: AtomicU64::new(MOST_BLOCKS),
            alone: AtomicU64::new(FAST_ENOUGH / SLOW_FACTOR),
            changed: AtomicU64::new(0),
            slowed: AtomicU64::new(0),
            is_writing: AtomicBool::new(false),
        }
    }

    /// There are this many devices from now on.
    pub(crate) fn set_devices(&self, devices: usize) {
        self.least.store(least_of(devices), Ordering::Relaxed);
    }

    /// Blocks that a consistency point may have under way.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Writes of a consistency point are under way from now on, or no more.
    pub(crate) fn set_writing(&self, is_writing: bool) {
        if self.is_writing.load(Ordering::Relaxed) != is_writing {
            self.is_writing.store(is_writing, Ordering::Relaxed);
        }
    }

    /// A consistency point begins.
    pub(crate) fn begin(&self, now: Nanos) {
        if now.saturating_sub(self.slowed.load(Ordering::Relaxed)) >= QUIET {
            self.blocks.store(MOST_BLOCKS, Ordering::Relaxed);
        }
    }

    /// True while writes of a consistency point are under way.
    pub(crate) fn is_writing(&self) -> bool {
        self.is_writing.load(Ordering::Relaxed)
    }

    /// Records the duration of a client's read. Nothing else of ours used the devices meanwhile.
    pub(crate) fn note_alone(&self, took: Nanos) {
        let alone = self.alone.load(Ordering::Relaxed);
        let average = alone - alone / MEMORY + took / MEMORY;
        self.alone.store(average, Ordering::Relaxed);
    }

    /// Records a client's read that a device completed at `now` after the duration `took`, beside
    /// writes of a consistency point or other work of our own ([`super::pace`]). Returns true if it
    /// was slow.
    pub(crate) fn note_read(&self, took: Nanos, now: Nanos) -> bool {
        let alone = self.alone.load(Ordering::Relaxed);
        let is_slow = took > (alone * SLOW_FACTOR).max(FAST_ENOUGH);
        if self.is_writing() {
            self.adjust(is_slow, now);
        }
        is_slow
    }

    /// Follows a read beside writes.
    fn adjust(&self, is_slow: bool, now: Nanos) {
        let rest = match is_slow {
            true => PERIOD,
            false => CALM,
        };
        let since = now.saturating_sub(self.changed.load(Ordering::Relaxed));
        if since < rest {
            return;
        }
        let blocks = self.blocks();
        let next = match is_slow {
            true => (blocks / 2).max(self.least.load(Ordering::Relaxed)),
            // Rare reads let the share grow as much as constant reads do.
            false => (0..(since / CALM).min(STEPS_MAX)).fold(blocks, |blocks, _| {
                (blocks + blocks / STEP_PART).min(MOST_BLOCKS)
            }),
        };
        // A slow one puts off the next step up where nothing is left to take, too.
        if is_slow {
            self.slowed.store(now, Ordering::Relaxed);
        }
        if next != blocks || is_slow {
            self.blocks.store(next, Ordering::Relaxed);
            self.changed.store(now, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn slow_reads_beside_writes_take_from_a_consistency_point_and_fast_ones_give_back() {
        let share = DeviceShare::new(1);
        assert_eq!(share.blocks(), MOST_BLOCKS);
        for _ in 1..100 {
            share.note_alone(MS / 2);
        }
        share.note_alone(50 * MS);
        assert_eq!(share.blocks(), MOST_BLOCKS, "nothing is written");
        share.set_writing(true);
        share.note_read(60 * MS, 200 * MS);
        share.note_read(60 * MS, 201 * MS);
        assert_eq!(share.blocks(), MOST_BLOCKS / 2, "once in a period");
        for turn in 0..10 {
            share.note_read(60 * MS, 300 * MS + turn * PERIOD);
        }
        assert_eq!(share.blocks(), LEAST_BLOCKS);
        for turn in 0..100 {
            share.note_read(MS / 2, 500 * MS + turn * CALM);
        }
        assert_eq!(share.blocks(), MOST_BLOCKS);
        share.note_read(60 * MS, 5_000 * MS);
        assert_eq!(share.blocks(), MOST_BLOCKS / 2);
        share.begin(6_000 * MS);
        assert_eq!(share.blocks(), MOST_BLOCKS / 2, "somebody may be reading");
        share.begin(5_000 * MS + QUIET);
        assert_eq!(share.blocks(), MOST_BLOCKS, "nobody is");
    }

    #[test]
    fn who_reads_seldom_gives_back_as_much_as_who_reads_all_the_time() {
        let share = DeviceShare::new(1);
        share.set_writing(true);
        for turn in 0..10 {
            share.note_read(60 * MS, 1_000 * MS + turn * PERIOD);
        }
        assert_eq!(share.blocks(), LEAST_BLOCKS);
        share.note_read(MS / 2, 1_045 * MS + 3 * CALM);
        assert_eq!(share.blocks(), 128 + 16 + 18 + 20, "three steps");
        share.note_read(MS / 2, 1_045 * MS + QUIET);
        assert_eq!(share.blocks(), MOST_BLOCKS, "it is long ago");
        share.note_read(60 * MS, 10_000 * MS);
        share.note_read(MS / 2, 10_000 * MS + QUIET / 2);
        share.begin(10_000 * MS + QUIET);
        assert_eq!(
            share.blocks(),
            MOST_BLOCKS,
            "fast reads are no reason to wait"
        );
    }

    #[test]
    fn a_device_that_is_slow_without_writes_is_not_slow_because_of_them() {
        let share = DeviceShare::new(1);
        for _ in 1..200 {
            share.note_alone(20 * MS);
        }
        share.set_writing(true);
        share.note_read(60 * MS, 300 * MS);
        assert_eq!(share.blocks(), MOST_BLOCKS);
    }
}
