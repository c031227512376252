//! How many segment files may be open at once, in all directory devices of the process.
//!
//! Recency is measured in *rounds*: a round ends with each opening. A use notes the current round
//! and is otherwise free, so that hot segments cost the reactors nothing; between two openings all
//! uses count alike, which is as exact as a choice made once per opening needs.
//!
//! Files with I/O in flight are never closed: if all are busy, the budget is exceeded for a while.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Device;

/// Shared by all devices of a world.
pub(crate) struct Budget {
    files_max: usize,
    round: AtomicU64,
    /// Every segment of a directory that is open or being opened, in no order. Locked while closing,
    /// never while opening.
    open: Mutex<Vec<(Weak<Device>, usize)>>,
}

impl Budget {
    pub(crate) fn new(files_max: usize) -> Budget {
        assert!(files_max > 0, "at least one segment can be open");
        Budget {
            files_max,
            round: AtomicU64::new(1),
            open: Mutex::new(Vec::new()),
        }
    }

    pub(super) fn round(&self) -> u64 {
        self.round.load(Ordering::Relaxed)
    }

    /// Counts a file that is about to be opened, after closing what was not used for longest.
    pub(super) fn enter(&self, device: &Arc<Device>, segment: usize) {
        self.round.fetch_add(1, Ordering::Relaxed);
        let mut open = self.lock();
        open.retain(|(device, _)| device.strong_count() > 0);
        if open.len() >= self.files_max {
            self.close_oldest(&mut open);
        }
        open.push((Arc::downgrade(device), segment));
    }

    /// Takes back an `enter`: the file could not be opened.
    pub(super) fn leave(&self, device: &Arc<Device>, segment: usize) {
        let mut open = self.lock();
        let left = Arc::downgrade(device);
        let at = open
            .iter()
            .position(|entry| entry.1 == segment && entry.0.ptr_eq(&left));
        open.swap_remove(at.expect("leave follows enter"));
    }

    /// Makes room for one file.
    fn close_oldest(&self, open: &mut Vec<(Weak<Device>, usize)>) {
        let last_used = |(device, segment): &(Weak<Device>, usize)| {
            device
                .upgrade()
                .map_or(0, |device| device.segment(*segment).last_used())
        };
        // Oldest last; each is visited once.
        open.sort_by_cached_key(|entry| std::cmp::Reverse(last_used(entry)));
        for at in (0..open.len()).rev() {
            if open.len() < self.files_max {
                break;
            }
            let (device, segment) = &open[at];
            // One that is only being opened has nothing to close and counts as busy.
            if device
                .upgrade()
                .is_none_or(|device| device.segment(*segment).close_if_idle())
            {
                open.swap_remove(at);
            }
        }
    }

    /// Segment files open now.
    pub(crate) fn open_count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Weak<Device>, usize)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
