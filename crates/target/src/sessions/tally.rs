//! What one session was answered: counters for each client and each LUN.

use std::array;
use std::collections::BTreeMap;

use everglade_env::Nanos;

/// Counts of durations, by size.
pub const BUCKETS: usize = 16;
/// Shortest bound of durations is this power of two, in nanoseconds.
const FIRST_BOUND: u32 = 16;
/// LUNs with counters of their own in one table of sessions. Those that come later are counted
/// together.
const LUNS_MAX: usize = 256;

/// Upper bounds of the counts of durations, in nanoseconds: 66 µs, and twice as much for each. The
/// last count has none.
#[must_use]
pub fn bounds() -> [Nanos; BUCKETS - 1] {
    array::from_fn(|index| 1 << (FIRST_BOUND as usize + index))
}

/// Reads and writes of a session that were answered without an error, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reads.
    pub reads: Answered,
    /// Writes.
    pub writes: Answered,
}

/// Requests of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// How many.
    pub count: u64,
    /// Bytes of their ranges.
    pub bytes: u64,
    /// Sum of their durations.
    pub duration: Nanos,
    /// How many took less than each of [`bounds`], and not less than the one before; the last, how
    /// many took longer.
    pub buckets: [u64; BUCKETS],
}

impl Answered {
    /// Counts a request that took this time.
    #[inline]
    pub fn add(&mut self, duration: Nanos, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
        self.duration += duration;
        let index = u64::BITS - (duration >> FIRST_BOUND).leading_zeros();
        self.buckets[(index as usize).min(BUCKETS - 1)] += 1;
    }

    fn add_all(&mut self, other: &Answered) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.duration += other.duration;
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += more;
        }
    }
}

impl Tally {
    /// Adds what another one has.
    pub fn add_all(&mut self, other: &Tally) {
        self.reads.add_all(&other.reads);
        self.writes.add_all(&other.writes);
    }
}

/// Tallies by the UUIDs of LUNs; under zeroes, those that were too many.
pub type ByLun = BTreeMap<[u8; 16], Tally>;

/// What the clients of each LUN were answered, by the sessions of one table.
///
/// A LUN keeps its place, so no count ever falls: not when a session ends, and not when the places
/// run out.
#[derive(Debug, Default)]
pub(super) struct Ended(ByLun);

impl Ended {
    /// Returns the place of a LUN, which it gets now if it has none.
    fn place(&mut self, lun: [u8; 16]) -> &mut Tally {
        let is_full = self.0.len() >= LUNS_MAX && !self.0.contains_key(&lun);
        let key = if is_full { [0; 16] } else { lun };
        self.0.entry(key).or_default()
    }

    /// A session ends.
    pub(super) fn add(&mut self, lun: [u8; 16], tally: &Tally) {
        self.place(lun).add_all(tally);
    }

    /// Returns the counts with those of sessions that go on.
    pub(super) fn with(&mut self, living: impl Iterator<Item = ([u8; 16], Tally)>) -> ByLun {
        let living: Vec<_> = living.collect();
        for (lun, _) in &living {
            self.place(*lun);
        }
        let mut all = Ended(self.0.clone());
        for (lun, tally) in living {
            all.add(lun, &tally);
        }
        all.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_by_size() {
        let mut answered = Answered::default();
        let bounds = bounds();
        assert_eq!((bounds[0], bounds[14]), (65_536, 1_073_741_824));
        for duration in [0, 65_535, 65_536, 131_071, 131_072, 1 << 30, u64::MAX >> 1] {
            answered.add(duration, 512);
        }
        assert_eq!(answered.buckets[..3], [2, 2, 1]);
        assert_eq!(answered.buckets[15], 2, "the bound itself is beyond it");
        assert_eq!(answered.buckets.iter().sum::<u64>(), answered.count);
    }

    #[test]
    fn no_count_falls_when_sessions_end_and_places_run_out() {
        let lun = |number: u16| {
            let mut lun = [1; 16];
            lun[..2].copy_from_slice(&number.to_le_bytes());
            lun
        };
        let mut one = Tally::default();
        one.writes.add(5, 4096);
        let mut ended = Ended::default();
        let late = lun(9_999);
        // Seen while there is room.
        assert_eq!(ended.with([(late, one)].into_iter())[&late].writes.count, 1);
        for number in 0..400 {
            ended.add(lun(number), &one);
        }
        // Its session ends when there is none.
        ended.add(late, &one);
        let all = ended.with([(lun(0), one), (lun(399), one)].into_iter());
        assert_eq!(all[&late].writes.count, 1);
        assert_eq!(all[&lun(0)].writes.count, 2);
        assert!(!all.contains_key(&lun(399)));
        let sum: u64 = all.values().map(|it| it.writes.count).sum();
        assert_eq!(sum, 403);
        assert_eq!(all[&[0; 16]].writes.count, 400 - 255 + 1);
    }
}
