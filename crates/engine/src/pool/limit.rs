//! Limits of LUNs and volumes: at most so many operations and bytes in a second, for all clients
//! together.
//!
//! ```text
//! operation ──▶ reserves its time ──passed──▶ begins
//!                        └─yet to come──▶ held until then ([`crate::reactor`])
//! ```
//!
//! Each rate has a *next time*: when the next operation may begin. An operation takes that time,
//! and moves it on by its cost: a second divided by the rate for an operation, and for each of its
//! bytes. The next time is never further back than the burst, so a LUN that was idle may begin a
//! few operations at once: a twentieth of a second's worth ([`BURST`]) unless the limit says more.
//! Operations are held in the order in which they came.
//!
//! 1. Each rate of the LUN and of its volume gives an operation a time, and it begins at the
//!    latest. What it reserved stays reserved, so a limit holds whatever the mixture is.
//! 2. Flushes reserve nothing: a client waits for the writes before a flush already, and their
//!    order must not change.
//! 3. A LUN and its images in snapshots share a limit, because they share a client's backup.
//! 4. While nothing has a limit, an operation costs one look at a flag; while others have one, a
//!    look at a counter more.
//! 5. The weight of a limit holds nothing here: it says how much of a busy aggregate the LUN gets
//!    ([`crate::pool::shares`]). A LUN without a weight has that of its volume.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everglade_env::Nanos;
use everglade_env::lock::{Mutex, RwLock};
use everglade_target::Op;

use crate::pool::shares::WEIGHT;

const SECOND: u128 = 1_000_000_000;
/// What an idle LUN saves up: a twentieth of a second.
const BURST: Nanos = 50_000_000;
const NANOS_PER_MILLISECOND: Nanos = 1_000_000;

/// The limit of a LUN or a volume. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitSettings {
    /// Most operations in a second.
    pub operations_per_second: u64,
    /// Most bytes that are read or written in a second.
    pub bytes_per_second: u64,
    /// Length of the burst, in milliseconds: after idling, so many milliseconds' worth may begin at
    /// once; 0 is 50.
    pub burst_milliseconds: u32,
    /// Weight of the LUN, or of each LUN of the volume, where operations wait; 0 is none of its
    /// own, which counts as 100.
    pub weight: u32,
}

/// What a limit has done since it was set, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitInfo {
    /// The limit.
    pub settings: LimitSettings,
    /// Operations that were held.
    pub held_operations: u64,
    /// How long they were held, all together.
    pub held_nanos: u64,
}

/// When the next operation may begin, for each rate.
#[derive(Clone, Copy, Debug, Default)]
struct Next {
    operation: Nanos,
    byte: Nanos,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Limit {
    settings: LimitSettings,
    next: Mutex<Next>,
    held_operations: AtomicU64,
    held_nanos: AtomicU64,
}

/// Returns the beginning of something that takes `cost` parts of a second with so many parts.
fn take(next: &mut Nanos, cost: u64, per_second: u64, (now, burst): (Nanos, Nanos)) -> Nanos {
    let Some(took) = (u128::from(cost) * SECOND).checked_div(u128::from(per_second)) else {
        return 0;
    };
    let begin = (*next).max(now.saturating_sub(burst));
    *next = begin.saturating_add(u64::try_from(took).unwrap_or(u64::MAX));
    begin
}

/// Bytes that count; `None` if an operation is not limited.
fn bytes_of(op: &Op) -> Option<u64> {
    match op {
        Op::Read { length, .. } => Some(u64::from(*length)),
        Op::Write { data, .. } => Some(u64::from(data.length)),
        Op::Flush => None,
        _ => Some(0),
    }
}

impl Limit {
    fn new(settings: LimitSettings) -> Limit {
        Limit {
            settings,
            next: Mutex::default(),
            held_operations: AtomicU64::new(0),
            held_nanos: AtomicU64::new(0),
        }
    }

    /// Reserves the time of an operation. Returns when it may begin, if that is later than `now`.
    pub(crate) fn reserve(&self, op: &Op, now: Nanos) -> Option<Nanos> {
        let bytes = bytes_of(op)?;
        let settings = &self.settings;
        let burst = match settings.burst_milliseconds {
            0 => BURST,
            burst => Nanos::from(burst) * NANOS_PER_MILLISECOND,
        };
        let mut next = self.next.lock();
        let from = (now, burst);
        let operation = take(&mut next.operation, 1, settings.operations_per_second, from);
        let byte = take(&mut next.byte, bytes, settings.bytes_per_second, from);
        drop(next);
        let due = operation.max(byte);
        if due <= now {
            return None;
        }
        self.held_operations.fetch_add(1, Ordering::Relaxed);
        self.held_nanos.fetch_add(due - now, Ordering::Relaxed);
        Some(due)
    }

    fn info(&self) -> LimitInfo {
        LimitInfo {
            settings: self.settings,
            held_operations: self.held_operations.load(Ordering::Relaxed),
            held_nanos: self.held_nanos.load(Ordering::Relaxed),
        }
    }
}

/// What applies to a LUN: its own limit, and that of its volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct Applied([Option<Arc<Limit>>; 2]);

/// When an operation may begin by each of the limits that apply; 0 is at once.
pub(crate) type Dues = [Nanos; 2];

impl Applied {
    /// Reserves the time of an operation. `before`: the limits that applied when it reserved
    /// earlier, and its times. It keeps the time of a limit that still applies.
    pub(crate) fn reserve(&self, op: &Op, now: Nanos, before: Option<(&Applied, Dues)>) -> Dues {
        std::array::from_fn(|place| {
            let limit = self.0[place].as_ref();
            let reserved = before.and_then(|(limits, dues)| {
                let is_same = limits.0[place].as_ref().map(Arc::as_ptr) == limit.map(Arc::as_ptr);
                is_same.then_some(dues[place])
            });
            reserved.unwrap_or_else(|| limit.and_then(|it| it.reserve(op, now)).unwrap_or(0))
        })
    }

    pub(crate) fn weight(&self) -> u32 {
        let limits = self.0.iter().flatten();
        let mut weights = limits.map(|limit| limit.settings.weight);
        weights.find(|weight| *weight > 0).unwrap_or(WEIGHT)
    }

    /// True if nothing limits the LUN.
    pub(crate) fn is_none(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// The limits of all LUNs and volumes, by UUID.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    by_uuid: RwLock<BTreeMap<[u8; 16], Arc<Limit>>>,
    is_any: AtomicBool,
    has_weights: AtomicBool,
    /// All were lifted, because the daemon stops: nobody is held any more.
    is_lifted: AtomicBool,
    /// Changes with each change of a limit.
    generation: AtomicU64,
}

impl Limits {
    /// Sets the limit of a LUN or a volume by its UUID, or removes it. What was reserved with the
    /// one before does not count any more.
    pub(crate) fn set(&self, of: [u8; 16], settings: LimitSettings) {
        let mut by_uuid = self.by_uuid.write();
        match settings == LimitSettings::default() {
            true => _ = by_uuid.remove(&of),
            false => _ = by_uuid.insert(of, Arc::new(Limit::new(settings))),
        }
        let has_weights = by_uuid.values().any(|limit| limit.settings.weight > 0);
        self.has_weights.store(has_weights, Ordering::Release);
        self.is_any.store(!by_uuid.is_empty(), Ordering::Release);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// True if anything has a limit.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed) && !self.is_lifted()
    }

    /// True if anything has a weight, so that busy aggregates are shared out.
    pub(crate) fn has_weights(&self) -> bool {
        self.has_weights.load(Ordering::Relaxed) && !self.is_lifted()
    }

    /// Lifts all limits, for a stop.
    pub(crate) fn lift(&self) {
        self.is_lifted.store(true, Ordering::Release);
    }

    pub(crate) fn is_lifted(&self) -> bool {
        self.is_lifted.load(Ordering::Relaxed)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns what applies to a LUN, by its UUID and that of its volume.
    pub(crate) fn of(&self, lun: &[u8; 16], volume: &[u8; 16]) -> Applied {
        let by_uuid = self.by_uuid.read();
        let of = |uuid| by_uuid.get(uuid).cloned();
        Applied([of(lun), of(volume)])
    }

    /// Returns all limits, by the UUIDs of what has them.
    pub(crate) fn all(&self) -> BTreeMap<[u8; 16], LimitInfo> {
        let by_uuid = self.by_uuid.read();
        let all = by_uuid.iter();
        all.map(|(uuid, limit)| (*uuid, limit.info())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn read(length: u32) -> Op {
        Op::Read { offset: 0, length }
    }

    fn limit(operations_per_second: u64, bytes_per_second: u64) -> Limit {
        Limit::new(LimitSettings {
            operations_per_second,
            bytes_per_second,
            ..LimitSettings::default()
        })
    }

    #[test]
    fn operations_begin_one_after_another_and_an_idle_lun_saves_little() {
        let limit = limit(100, 0);
        let start = 1_000 * MS;
        let dues: Vec<_> = (0..7).map(|_| limit.reserve(&read(4096), start)).collect();
        let at_once = [None; 6];
        assert_eq!(
            dues[..6],
            at_once,
            "50 ms are five operations, and one is now"
        );
        assert_eq!(dues[6], Some(start + 10 * MS));
        assert_eq!(limit.reserve(&Op::Flush, start), None);
        assert_eq!(limit.info().held_operations, 1);
        assert_eq!(limit.info().held_nanos, 10 * MS);
        // In a second there are a hundred, however many are asked for.
        let begun = (0..1_000).filter(|_| {
            let due = limit.reserve(&read(4096), start);
            due.is_some_and(|due| due < start + 1_000 * MS)
        });
        assert_eq!(begun.count() + 7, 105);
    }

    #[test]
    fn bytes_count_and_the_slower_rate_holds() {
        let limit = limit(1_000, 1 << 20);
        let start = 1_000 * MS;
        assert_eq!(limit.reserve(&read(1 << 20), start), None);
        let due = limit.reserve(&read(4096), start);
        assert_eq!(
            due,
            Some(start + 950 * MS),
            "a MiB took a second, less the burst"
        );
        let discard = Op::Discard {
            offset: 0,
            length: 1 << 30,
            durable: false,
        };
        let turn = limit.reserve(&discard, start);
        let next = limit.reserve(&read(4096), start);
        assert!(turn.is_some(), "it waits its turn");
        assert_eq!(turn, next, "it transfers no bytes");
    }

    #[test]
    fn a_limit_of_nothing_is_none() {
        let limits = Limits::default();
        let before = limits.generation();
        let settings = LimitSettings {
            operations_per_second: 5,
            ..LimitSettings::default()
        };
        limits.set([1; 16], settings);
        assert!(limits.is_any() && !limits.has_weights() && limits.generation() > before);
        assert_eq!(limits.all()[&[1; 16]].settings, settings);
        assert!(limits.of(&[2; 16], &[3; 16]).is_none());
        assert!(!limits.of(&[2; 16], &[1; 16]).is_none());
        limits.set([1; 16], LimitSettings::default());
        assert!(!limits.is_any() && limits.all().is_empty());
    }

    #[test]
    fn the_limit_of_a_volume_binds_all_its_luns_and_each_has_its_own() {
        let limits = Limits::default();
        let of = |operations_per_second| LimitSettings {
            operations_per_second,
            burst_milliseconds: 1,
            weight: 300,
            ..LimitSettings::default()
        };
        let (a, b, volume) = ([1; 16], [2; 16], [3; 16]);
        limits.set(volume, of(100));
        limits.set(a, of(50));
        let (of_a, of_b) = (limits.of(&a, &volume), limits.of(&b, &volume));
        let start = 1_000 * MS;
        let due = |of: &Applied| {
            let due = of.reserve(&read(4096), start, None).into_iter().max();
            due.filter(|due| *due > 0)
        };
        // A burst of a millisecond: the first begins at once, and half a millisecond early.
        assert_eq!(due(&of_a), None);
        assert_eq!(due(&of_a), Some(start + 19 * MS), "a's own 50 are slower");
        assert_eq!(
            due(&of_b),
            Some(start + 19 * MS),
            "a took two of the volume's 100"
        );
        assert_eq!(due(&of_b), Some(start + 29 * MS));
        assert!(limits.has_weights());
        assert_eq!((of_b.weight(), Applied::default().weight()), (300, WEIGHT));
        // A change of one limit leaves what is reserved of the other.
        let dues = of_a.reserve(&read(4096), start, None);
        limits.set(a, of(25));
        let changed = limits.of(&a, &volume);
        let again = changed.reserve(&read(4096), start, Some((&of_a, dues)));
        assert_eq!(again, [0, dues[1]]);
    }

    #[test]
    fn who_may_save_up_a_second_begins_a_seconds_worth_at_once() {
        let limit = Limit::new(LimitSettings {
            operations_per_second: 100,
            burst_milliseconds: 1_000,
            ..LimitSettings::default()
        });
        let at_once = (0..200).filter(|_| limit.reserve(&read(512), 5_000 * MS).is_none());
        assert_eq!(at_once.count(), 101);
    }

    #[test]
    fn a_large_operation_at_a_low_rate_overflows_nothing() {
        let limit = limit(1, 1);
        for _ in 0..10 {
            limit.reserve(&read(u32::MAX), u64::MAX - 5);
        }
    }
}
