//! Triggers: why consistency points begin (docs/design/design.md §6), with counts, and with the
//! durations of their phases.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use everglade_env::Nanos;
use everglade_env::lock::{Mutex, MutexGuard};

/// Upper bounds of the buckets of durations; one more holds what took longer. A freeze is to stay
/// in the first.
pub const PHASE_BOUNDS: [Nanos; 6] = [
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// The reason why a consistency point began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The oldest change has waited for the longest time allowed.
    Timer,
    /// A half of the journal is nearly full, or a request for durability would fill it, or entries
    /// that wait for the journal take much memory.
    Journal,
    /// Half of the memory that may be dirty is.
    Dirty,
    /// An operation waits for the consistency point: a flush without a journal, a deletion, an
    /// operation short of space.
    Wanted,
    /// An administrative change.
    Change,
    /// Deleted files have blocks to free.
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
    cleaner: [AtomicU64; 3],
    blocks: [AtomicU64; CpBlock::ALL.len()],
    phases: Mutex<Phases>,
}

/// What a block is that consistency points write or read (N-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CpBlock {
    /// Written: data of LUNs.
    Data,
    /// Written: metadata of volumes, indirect blocks of LUNs included.
    VolumeMetadata,
    /// Written: metadata of the aggregate, containers included.
    AggregateMetadata,
    /// Written: a block that moves to another place.
    Moved,
    /// Read: what was not in memory.
    Read,
}

impl CpBlock {
    const ALL: [CpBlock; 5] = [
        CpBlock::Data,
        CpBlock::VolumeMetadata,
        CpBlock::AggregateMetadata,
        CpBlock::Moved,
        CpBlock::Read,
    ];

    /// Name in metrics.
    fn name(self) -> &'static str {
        match self {
            CpBlock::Data => "data",
            CpBlock::VolumeMetadata => "volume_metadata",
            CpBlock::AggregateMetadata => "aggregate_metadata",
            CpBlock::Moved => "moved",
            CpBlock::Read => "read",
        }
    }
}

#[derive(Default)]
struct Phases {
    /// The one that runs, and since when.
    now: Option<(&'static str, Nanos)>,
    times: BTreeMap<&'static str, PhaseTimes>,
    /// The current wait of the running consistency point, and its beginning.
    waiting: Option<(Wait, Nanos)>,
    waits: BTreeMap<Wait, Nanos>,
}

/// The waits of a consistency point between its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wait {
    /// Blocks that it needs and that are not in memory.
    Load,
    /// Writes of its own, of which no more may be under way, or space of the host.
    Device,
}

impl Wait {
    /// Name in metrics.
    fn name(self) -> &'static str {
        match self {
            Wait::Load => "load",
            Wait::Device => "device",
        }
    }
}

/// Durations of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseTimes {
    /// Number of durations by size: bucket `i` counts those up to `PHASE_BOUNDS[i]`. Not
    /// cumulative.
    pub buckets: [u64; PHASE_BOUNDS.len() + 1],
    /// Sum of the durations.
    pub sum: Nanos,
}

/// What cleaning has done since start: one LUN may be cleaned in several steps, and one step may
/// clean several LUNs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Steps.
    pub steps: u64,
    /// LUNs, once for each step that took regions of them.
    pub luns: u64,
    /// Regions: level-1 blocks with what changed below them.
    pub regions: u64,
}

/// Counts of consistency points since start, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpCounts {
    /// Number of consistency points by trigger.
    pub by_trigger: Vec<(&'static str, u64)>,
    /// Consistency points that began under pressure as soon as the one before was committed.
    pub back_to_back: u64,
    /// What cleaning has done.
    pub cleaned: Cleaned,
    /// Durations of each phase, by its name.
    pub phases: Vec<(&'static str, PhaseTimes)>,
    /// Total waiting time of consistency points, by the kind of wait.
    pub waits: Vec<(&'static str, Nanos)>,
    /// Blocks that they wrote and read, by what they are (N-12): `data`, `volume_metadata`,
    /// `aggregate_metadata` and `moved` were written, `read` was read.
    pub blocks: Vec<(&'static str, u64)>,
}

impl Counts {
    fn phases(&self) -> MutexGuard<'_, Phases> {
        self.phases.lock()
    }

    /// The phase that runs from now on; none between consistency points.
    pub(crate) fn enter_phase(&self, phase: Option<&'static str>, now: Nanos) {
        let mut phases = self.phases();
        if let Some((wait, since)) = phases.waiting.take() {
            *phases.waits.entry(wait).or_default() += now.saturating_sub(since);
        }
        if phases.now.map(|(name, _)| name) == phase {
            return;
        }
        if let Some((name, since)) = phases.now {
            phases.add_duration(name, now.saturating_sub(since));
        }
        phases.now = phase.map(|name| (name, now));
    }

    /// The phase that runs waits from now on, until something enters a phase again, be it the same.
    pub(crate) fn begin_wait(&self, wait: Wait, now: Nanos) {
        self.phases().waiting = Some((wait, now));
    }

    /// A phase that is not entered, because nothing else happens meanwhile, took so long.
    pub(crate) fn add_phase(&self, phase: &'static str, took: Nanos) {
        self.phases().add_duration(phase, took);
    }

    pub(crate) fn count_begun(&self, trigger: Trigger, is_back_to_back: bool) {
        self.begun[trigger as usize].fetch_add(1, Ordering::Relaxed);
        if is_back_to_back {
            self.back_to_back.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A step of cleaning has taken regions of so many LUNs.
    pub(crate) fn count_cleaned(&self, luns: usize, regions: usize) {
        for (count, more) in self.cleaner.iter().zip([1, luns, regions]) {
            count.fetch_add(more as u64, Ordering::Relaxed);
        }
    }

    /// Consistency points wrote or read so many blocks more.
    pub(crate) fn count_blocks(&self, block: CpBlock, count: usize) {
        self.blocks[block as usize].fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> CpCounts {
        let written = |block: CpBlock| self.blocks[block as usize].load(Ordering::Relaxed);
        let count = |trigger: Trigger| self.begun[trigger as usize].load(Ordering::Relaxed);
        let phases = self.phases();
        let times = phases.times.iter();
        let waited = |wait| phases.waits.get(&wait).copied().unwrap_or(0);
        let all = [Wait::Load, Wait::Device];
        CpCounts {
            by_trigger: Trigger::ALL
                .into_iter()
                .map(|trigger| (trigger.name(), count(trigger)))
                .collect(),
            back_to_back: self.back_to_back.load(Ordering::Relaxed),
            cleaned: {
                let of = |index: usize| self.cleaner[index].load(Ordering::Relaxed);
                Cleaned {
                    steps: of(0),
                    luns: of(1),
                    regions: of(2),
                }
            },
            phases: times.map(|(name, times)| (*name, times.clone())).collect(),
            waits: all.map(|wait| (wait.name(), waited(wait))).to_vec(),
            blocks: CpBlock::ALL
                .map(|block| (block.name(), written(block)))
                .to_vec(),
        }
    }
}

impl Phases {
    fn add_duration(&mut self, phase: &'static str, took: Nanos) {
        let times = self.times.entry(phase).or_default();
        let bucket = PHASE_BOUNDS.partition_point(|bound| *bound < took);
        times.buckets[bucket] += 1;
        times.sum = times.sum.saturating_add(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_lasts_until_the_next_begins() {
        let counts = Counts::default();
        counts.enter_phase(Some("plan"), 1_000);
        counts.enter_phase(Some("plan"), 2_000);
        counts.enter_phase(Some("clean"), 101_000);
        counts.enter_phase(None, 101_000 + 2_000_000);
        counts.enter_phase(None, u64::MAX);
        counts.add_phase("freeze", 7);
        let phases: BTreeMap<_, _> = counts.read().phases.into_iter().collect();
        assert_eq!(phases["plan"].buckets, [1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(phases["plan"].sum, 100_000);
        assert_eq!(phases["clean"].buckets, [0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(phases["freeze"].sum, 7);
        assert_eq!(phases.len(), 3);
    }

    #[test]
    fn a_wait_ends_when_the_phase_goes_on() {
        let counts = Counts::default();
        counts.enter_phase(Some("clean"), 1_000);
        counts.begin_wait(Wait::Load, 2_000);
        counts.enter_phase(Some("clean"), 2_500);
        counts.enter_phase(Some("clean"), 9_000);
        counts.begin_wait(Wait::Device, 10_000);
        counts.enter_phase(Some("write"), 10_007);
        counts.enter_phase(None, 20_000);
        assert_eq!(counts.read().waits, [("load", 500), ("device", 7)]);
    }

    #[test]
    fn a_duration_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let counts = Counts::default();
        for took in [0, 100_000, 100_001, 10_000_000_000, 10_000_000_001] {
            counts.add_phase("freeze", took);
        }
        let phases: BTreeMap<_, _> = counts.read().phases.into_iter().collect();
        assert_eq!(phases["freeze"].buckets, [2, 1, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn consistency_points_are_counted_by_what_made_them_begin() {
        let counts = Counts::default();
        for (times, trigger) in (1..).zip(Trigger::ALL) {
            (0..times).for_each(|_| counts.count_begun(trigger, trigger == Trigger::Dirty));
        }
        let read = counts.read();
        let expected = [
            ("timer", 1),
            ("journal", 2),
            ("dirty", 3),
            ("wanted", 4),
            ("change", 5),
            ("reclaim", 6),
            ("stop", 7),
        ];
        assert_eq!(read.by_trigger, expected);
        assert_eq!(read.back_to_back, 3);
    }

    #[test]
    fn only_buffers_that_fill_up_are_pressure() {
        let under = Trigger::ALL.into_iter().filter(|it| it.is_pressure());
        let names: Vec<_> = under.map(Trigger::name).collect();
        assert_eq!(names, ["journal", "dirty"]);
    }

    #[test]
    fn a_wait_counts_for_nothing_before_it_ends() {
        let counts = Counts::default();
        counts.enter_phase(Some("clean"), 1_000);
        counts.begin_wait(Wait::Load, 2_000);
        assert_eq!(counts.read().waits, [("load", 0), ("device", 0)]);
        counts.enter_phase(None, 2_300);
        counts.enter_phase(None, 9_000);
        assert_eq!(counts.read().waits, [("load", 300), ("device", 0)], "once");
    }
}
