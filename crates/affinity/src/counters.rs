//! Counts of messages by the way they entered: per reactor and class, summed when read.
//!
//! A reactor's counters have one writer, so they are plain loads and stores, and standard atomics
//! even under shuttle: no decision depends on them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::class::Class;

/// Counts of one class since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Entered at once by the reactor that had the message.
    pub inline: u64,
    /// Messages that had to wait. Each was granted, waits, or was stranded by a removal.
    pub queued: u64,
    /// Granted by a leaver.
    pub granted: u64,
}

/// Counts of all classes, at the index `class as usize`.
pub type Counts = [Count; Class::COUNT];

/// The counters one reactor writes.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    inline: [AtomicU64; Class::COUNT],
    queued: [AtomicU64; Class::COUNT],
    granted: [AtomicU64; Class::COUNT],
}

impl Counters {
    pub(crate) fn count_inline(&self, class: Class) {
        increment(&self.inline[class as usize]);
    }

    pub(crate) fn count_queued(&self, class: Class) {
        increment(&self.queued[class as usize]);
    }

    pub(crate) fn count_granted(&self, class: Class) {
        increment(&self.granted[class as usize]);
    }

    pub(crate) fn add_to(&self, counts: &mut Counts) {
        for (class, count) in counts.iter_mut().enumerate() {
            count.inline += self.inline[class].load(Ordering::Relaxed);
            count.queued += self.queued[class].load(Ordering::Relaxed);
            count.granted += self.granted[class].load(Ordering::Relaxed);
        }
    }
}

/// Adds one. Load and store may be separate, because the caller is the only writer.
fn increment(counter: &AtomicU64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(1),
        Ordering::Relaxed,
    );
}
