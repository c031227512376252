//! Scattered regions: parts of LUNs that a client has read in order, and that do not lie in order
//! (H-16).
//!
//! Who reads notes them ([`crate::reactor`]), and the home puts them in order
//! ([`crate::background::after_read`]).
//!
//! 1. A region that was noted is not noted again for [`AGAIN`]. So a region that cannot be put in
//!    order, or is scattered again and again, costs little.
//! 2. The memory is bounded: the last [`KNOWN_MAX`] regions are known, 64 GiB of LUNs. Older ones
//!    are forgotten, whether they are in order by then or not; the next reader notes them again.
//! 3. All of this is in memory only.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use everglade_env::Nanos;
use everglade_env::lock::Mutex;
use everglade_format::FileId;

/// A region is not noted again for this time: ten minutes.
const AGAIN: Nanos = 600_000_000_000;
/// Regions that are known.
const KNOWN_MAX: usize = 65_536;

/// A region of a LUN: what a level-1 block leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Region {
    pub(crate) volume: FileId,
    pub(crate) lun: FileId,
    /// The index of its level-1 block.
    pub(crate) index: u64,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Scattered {
    known: Mutex<Known>,
    /// Length of `Known::waiting`, for those who have no time to wait.
    count: AtomicU64,
}

#[derive(Default)]
struct Known {
    /// Regions to put in order.
    waiting: BTreeSet<Region>,
    /// All that were noted lately.
    all: HashSet<Region>,
    /// When each of them was noted, the oldest first.
    noted: VecDeque<(Nanos, Region)>,
    /// Nothing is noted before.
    pauses_until: Nanos,
}

impl Known {
    fn forget_oldest(&mut self) {
        if let Some((_, region)) = self.noted.pop_front() {
            self.all.remove(&region);
            self.waiting.remove(&region);
        }
    }
}

impl Scattered {
    fn change<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        let mut known = self.known.lock();
        let outcome = change(&mut known);
        let count = known.waiting.len() as u64;
        self.count.store(count, Ordering::Relaxed);
        outcome
    }

    /// A client has read a region in order, and it is scattered. Returns true if it is the first
    /// one that waits.
    pub(crate) fn note(&self, region: Region, now: Nanos) -> bool {
        self.change(|known| {
            let is_old = |(noted, _): &(Nanos, Region)| now.saturating_sub(*noted) >= AGAIN;
            while known.noted.front().is_some_and(is_old) {
                known.forget_oldest();
            }
            if now < known.pauses_until || !known.all.insert(region) {
                return false;
            }
            if known.noted.len() >= KNOWN_MAX {
                known.forget_oldest();
            }
            known.noted.push_back((now, region));
            known.waiting.insert(region);
            known.waiting.len() == 1
        })
    }

    /// Number of regions that wait.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the first region of a volume that waits.
    pub(crate) fn first_of(&self, volume: FileId) -> Option<Region> {
        if self.count() == 0 {
            return None;
        }
        let known = self.known.lock();
        let first = Region {
            volume,
            lun: FileId(0),
            index: 0,
        };
        let next = known.waiting.range(first..).next().copied();
        next.filter(|region| region.volume == volume)
    }

    /// A region does not wait any more.
    pub(crate) fn remove(&self, region: &Region) {
        self.change(|known| known.waiting.remove(region));
    }

    /// Forgets regions of volumes that are gone.
    pub(crate) fn keep_only(&self, is_there: impl Fn(FileId) -> bool) {
        if self.count() > 0 {
            self.change(|known| known.waiting.retain(|region| is_there(region.volume)));
        }
    }

    /// Putting regions in order helps nobody at present: nothing is noted for [`AGAIN`].
    pub(crate) fn pause(&self, now: Nanos) {
        self.change(|known| {
            *known = Known {
                pauses_until: now + AGAIN,
                ..Known::default()
            };
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(volume: u32, index: u64) -> Region {
        Region {
            volume: FileId(volume),
            lun: FileId(7),
            index,
        }
    }

    #[test]
    fn a_region_waits_once_in_ten_minutes() {
        let scattered = Scattered::default();
        assert!(scattered.note(region(3, 5), 100));
        assert!(!scattered.note(region(3, 5), 101));
        assert!(!scattered.note(region(3, 4), 102), "not the first");
        assert_eq!(scattered.count(), 2);
        assert_eq!(scattered.first_of(FileId(2)), None);
        assert_eq!(scattered.first_of(FileId(3)), Some(region(3, 4)));
        scattered.remove(&region(3, 4));
        scattered.remove(&region(3, 5));
        assert_eq!(scattered.count(), 0);
        scattered.note(region(3, 5), 99 + AGAIN);
        assert_eq!(scattered.count(), 0);
        assert!(scattered.note(region(3, 5), 100 + AGAIN));
    }

    #[test]
    fn regions_of_volumes_that_are_gone_do_not_wait() {
        let scattered = Scattered::default();
        for volume in 1..4 {
            scattered.note(region(volume, 0), 1);
        }
        scattered.keep_only(|volume| volume.0 == 2);
        assert_eq!(scattered.count(), 1);
        assert_eq!(scattered.first_of(FileId(2)), Some(region(2, 0)));
    }

    #[test]
    fn memory_is_bounded_and_a_pause_ends() {
        let scattered = Scattered::default();
        for index in 0..=KNOWN_MAX as u64 {
            scattered.note(region(1, index), 5);
        }
        assert_eq!(scattered.count(), KNOWN_MAX as u64);
        assert_eq!(scattered.first_of(FileId(1)), Some(region(1, 1)));
        scattered.pause(10);
        assert_eq!(scattered.count(), 0);
        assert!(!scattered.note(region(1, 1), 9 + AGAIN));
        assert!(scattered.note(region(1, 1), 10 + AGAIN));
    }
}
