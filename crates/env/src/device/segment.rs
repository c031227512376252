//! One segment: whether it exists or is lost, its open file if there is one, and which of its
//! writes are not durable yet.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Budget;
use crate::lock::{Mutex, MutexGuard};

/// An open segment. Each operation in flight holds one, so the descriptor outlives the I/O even if
/// the budget closes the segment meanwhile.
pub(crate) type Handle = Arc<File>;

/// See the invariants of the module above.
pub(crate) struct Segment {
    /// Held for moments only, also by reactors.
    handle: Mutex<Option<Handle>>,
    /// Held while the file is being opened or made: by workers and blocking callers, never by
    /// reactors. Taken before `handle`.
    turn: Mutex<()>,
    exists: AtomicBool,
    /// See invariant 8 of the module above. Never taken back.
    lost: AtomicBool,
    /// The round of the budget in which the segment was used last.
    used: AtomicU64,
    written: AtomicU64,
    synced: AtomicU64,
}

impl Segment {
    pub(super) fn absent() -> Segment {
        Segment {
            handle: Mutex::new(None),
            turn: Mutex::new(()),
            exists: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            used: AtomicU64::new(0),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
        }
    }

    /// Makes a segment whose file was found at the opening; soiled (invariant 4).
    pub(super) fn existing() -> Segment {
        let segment = Segment::absent();
        segment.exists.store(true, Ordering::Relaxed);
        segment.soil();
        segment
    }

    /// Returns false if the segment has no file, or one that was never given its length: it was
    /// never written and reads as zeroes, unless it is lost.
    pub(crate) fn exists(&self) -> bool {
        self.exists.load(Ordering::Acquire)
    }

    /// Returns whether the file is not as a server left it.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    pub(super) fn set_lost(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Returns the file if it is open and may be written, and counts this as a use.
    pub(crate) fn handle_to_write(&self, budget: &Budget) -> Option<Handle> {
        (!self.is_lost()).then(|| self.handle(budget)).flatten()
    }

    /// Returns the file if it is open, and counts this as a use.
    pub(crate) fn handle(&self, budget: &Budget) -> Option<Handle> {
        let handle = self.lock().clone()?;
        let round = budget.round();
        if self.used.load(Ordering::Relaxed) != round {
            self.used.store(round, Ordering::Relaxed);
        }
        Some(handle)
    }

    pub(super) fn set(&self, handle: Handle) {
        *self.lock() = Some(handle);
        self.exists.store(true, Ordering::Release);
    }

    /// Takes the file from the segment. The file closes when its last holder drops it.
    pub(super) fn unset(&self) -> Option<Handle> {
        self.lock().take()
    }

    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    pub(super) fn last_used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Closes the file unless I/O is in flight on it. Returns whether a descriptor became free.
    pub(super) fn close_if_idle(&self) -> bool {
        let mut slot = self.lock();
        match slot.take() {
            Some(handle) => match Arc::try_unwrap(handle) {
                Ok(file) => {
                    drop(slot);
                    drop(file);
                    true
                }
                Err(busy) => {
                    *slot = Some(busy);
                    false
                }
            },
            None => false,
        }
    }

    /// Counts a completed write that is not on stable storage yet. Returns the new value of
    /// `written`, which a sync that is submitted later covers.
    pub(crate) fn soil(&self) -> u64 {
        self.written.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Returns the value of `written` if a flush has to sync this segment.
    pub(super) fn soiled(&self) -> Option<u64> {
        let written = self.written.load(Ordering::Acquire);
        (written > self.synced.load(Ordering::Acquire)).then_some(written)
    }

    pub(super) fn synced(&self, written: u64) {
        self.synced.fetch_max(written, Ordering::AcqRel);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Handle>> {
        self.handle.lock()
    }
}
