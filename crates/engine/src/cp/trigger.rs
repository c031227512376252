//! Why consistency points begin (DESIGN §6), counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// What made a consistency point begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// There were changes for the longest time allowed.
    Timer,
    /// A half of the journal is nearly full.
    Journal,
    /// Half of the memory that may be dirty is.
    Dirty,
    /// Somebody waits for it: a flush without a journal, a deletion, an operation short of space.
    Wanted,
    /// An administrative change.
    Change,
    /// Deleted files have blocks to give back.
    Reclaim,
    /// The daemon stops.
    Stop,
}

impl Trigger {
    const ALL: [Trigger; 7] = [
        Trigger::Timer,
        Trigger::Journal,
        Trigger::Dirty,
        Trigger::Wanted,
        Trigger::Change,
        Trigger::Reclaim,
        Trigger::Stop,
    ];

    /// Name in metrics.
    fn name(self) -> &'static str {
        match self {
            Trigger::Timer => "timer",
            Trigger::Journal => "journal",
            Trigger::Dirty => "dirty",
            Trigger::Wanted => "wanted",
            Trigger::Change => "change",
            Trigger::Reclaim => "reclaim",
            Trigger::Stop => "stop",
        }
    }

    /// True if more changes than can be buffered came while the last consistency point ran.
    pub(crate) fn is_pressure(self) -> bool {
        matches!(self, Trigger::Journal | Trigger::Dirty)
    }
}

/// Counts of consistency points since start.
#[derive(Default)]
pub(crate) struct Counts {
    begun: [AtomicU64; Trigger::ALL.len()],
    back_to_back: AtomicU64,
}

/// Counts of consistency points since start, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpCounts {
    /// By what made them begin.
    pub by_trigger: Vec<(&'static str, u64)>,
    /// Those that began under pressure as soon as the one before was committed.
    pub back_to_back: u64,
}

impl Counts {
    pub(crate) fn note(&self, trigger: Trigger, is_back_to_back: bool) {
        self.begun[trigger as usize].fetch_add(1, Ordering::Relaxed);
        if is_back_to_back {
            self.back_to_back.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> CpCounts {
        let count = |trigger: Trigger| self.begun[trigger as usize].load(Ordering::Relaxed);
        CpCounts {
            by_trigger: Trigger::ALL
                .into_iter()
                .map(|trigger| (trigger.name(), count(trigger)))
                .collect(),
            back_to_back: self.back_to_back.load(Ordering::Relaxed),
        }
    }
}
