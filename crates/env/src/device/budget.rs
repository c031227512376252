//! How many segment files may be open at once, in all directory devices of the process.
//!
//! Recency is measured in *rounds*: a round ends with each opening. A use notes the current round
//! and is otherwise free, so that hot segments cost the reactors nothing; between two openings all
//! uses count alike, which is as exact as a choice made once per opening needs.
//!
//! Files with I/O in flight are never closed: if all are busy, the budget is exceeded for a while.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Device;

/// Shared by all devices of a world.
pub(crate) struct Budget {
    files_max: usize,
    round: AtomicU64,
    /// Every open segment of a directory, in no order. Held while closing, never while opening.
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

    /// Closes what was not used for longest until another file may be opened.
    pub(super) fn make_room(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(device, _)| device.strong_count() > 0);
        if open.len() < self.files_max {
            return;
        }
        open.sort_unstable_by_key(|(device, segment)| {
            std::cmp::Reverse(
                device
                    .upgrade()
                    .map_or(0, |d| d.segment(*segment).last_used()),
            )
        });
        // Oldest last; each is visited once.
        for at in (0..open.len()).rev() {
            if open.len() < self.files_max {
                break;
            }
            let (device, segment) = &open[at];
            if device
                .upgrade()
                .is_none_or(|device| device.segment(*segment).close_if_idle())
            {
                open.swap_remove(at);
            }
        }
    }

    pub(super) fn opened(&self, device: &Arc<Device>, segment: usize) {
        self.round.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push((Arc::downgrade(device), segment));
    }

    /// Segment files open now.
    pub(crate) fn open_count(&self) -> usize {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}
