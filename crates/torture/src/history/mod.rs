//! What a crash may leave: for every sector the versions that may be found in it afterwards.
//!
//! Every operation is a *version*. It has the tick at which it was about to be sent, and, once its
//! reply was in, the tick of that. So *a before b* means that a's reply was in before b was sent;
//! of any other two operations nobody can say which came first.
//!
//! 1. A version is *durable* when its reply was in and it was forced (FUA, or a volume that
//!    acknowledges nothing else), or when a flush was sent after its reply, on whichever
//!    connection, and has been answered.
//! 2. After a crash a sector may hold any version of its list that is not before a durable one of
//!    the same list: what was not acknowledged may be there or not, and so may what was
//!    acknowledged and not flushed.
//! 3. A read may return any version that was sent before the read's reply and is not before another
//!    one whose reply was in when the read was sent.
//! 4. A write of at most [`ATOMIC_BYTES`] is there whole or not at all: no sector of it may hold
//!    what is before it while another one holds it.
//! 5. What is found after a restart stays: it is what the next crash may leave.
//!
//! Ticks come from one counter under the lock of the history, so their order is that of real time.

mod record;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::stamp::Found;
pub use record::Kind;
use record::{Record, Records};

/// The largest write that a crash may not tear.
pub const ATOMIC_BYTES: u64 = 1 << 20;
/// Lists are shortened when they get longer than this.
const LIST_MAX: usize = 12;

/// What may be in every sector of a LUN. See the top of the file.
pub struct History {
    records: Records,
    sectors: Vec<Vec<u64>>,
    /// Reads under way, by the tick at which they were sent: what they may still return stays.
    reads: BTreeSet<u64>,
}

/// What was found and may not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where.
    pub sector: u64,
    /// What is there.
    pub found: Found,
    /// What might have been, or which rule is broken.
    pub expected: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Violation {
            sector,
            found,
            expected,
        } = self;
        write!(f, "sector {sector}: found {found:?}, expected {expected}")
    }
}

impl History {
    /// Of a LUN that was never written. If `forced`, every acknowledgement means durable.
    #[must_use]
    pub fn new(sectors: u64, forced: bool) -> History {
        let count = usize::try_from(sectors).expect("a LUN that fits in memory");
        History {
            records: Records::new(forced),
            // Version 0: zeroes, from before everything.
            sectors: vec![vec![0]; count],
            reads: BTreeSet::new(),
        }
    }

    /// Number of sectors.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.sectors.len() as u64
    }

    /// True for a LUN without sectors, which nobody makes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sectors.is_empty()
    }

    /// An operation is about to be sent: its version.
    pub fn begin(&mut self, kind: Kind, first: u64, count: u64, fua: bool) -> u64 {
        assert!(first + count <= self.len(), "beyond the LUN");
        let version = self.records.begin(kind, first, count, fua);
        for sector in range(first, count) {
            if self.sectors[sector].len() >= LIST_MAX {
                self.prune(sector);
            }
            self.sectors[sector].push(version);
        }
        version
    }

    /// Its reply is in, and it is good. (A failed operation may have happened or not, like one that
    /// was never answered.)
    pub fn end(&mut self, version: u64) {
        self.records.end(version);
    }

    /// A flush is about to be sent: the tick to end it with.
    pub fn begin_flush(&mut self) -> u64 {
        self.records.tick()
    }

    /// Its reply is in, and it is good.
    pub fn end_flush(&mut self, begun: u64) {
        self.records.flushed(begun);
    }

    /// A read is about to be sent: the tick to end it with.
    pub fn begin_read(&mut self) -> u64 {
        let begun = self.records.tick();
        self.reads.insert(begun);
        begun
    }

    /// The reply of a read is in: judges every sector of it.
    pub fn end_read(&mut self, begun: u64, first: u64, found: &[Found]) -> Vec<Violation> {
        self.reads.remove(&begun);
        let judge = |(sector, found): (u64, &Found)| {
            let list = self.list(sector);
            let may = |version: &&u64| {
                !list
                    .iter()
                    .any(|other| self.records.is_hidden(**version, *other, begun))
            };
            self.judge(sector, *found, list.iter().filter(may).copied())
        };
        (first..).zip(found).filter_map(judge).collect()
    }

    /// After a restart: judges what every sector of the LUN holds, and lets that be the new truth.
    pub fn settle(&mut self, found: &[Found]) -> Vec<Violation> {
        assert_eq!(found.len(), self.sectors.len(), "every sector was read");
        let mut violations = Vec::new();
        let mut settled = Vec::with_capacity(found.len());
        for (sector, found) in (0..).zip(found) {
            let may: Vec<u64> = self.may_remain(sector).collect();
            let version = may
                .iter()
                .rev()
                .find(|version| self.records.matches(**version, *found));
            settled.push(version.copied());
            violations.extend(self.judge(sector, *found, may.iter().copied()));
        }
        violations.extend(self.torn(&settled));
        for (list, version) in self.sectors.iter_mut().zip(settled) {
            // What may not be there at all was reported; nothing more can be said about the sector.
            *list = vec![version.unwrap_or(0)];
        }
        self.reads.clear();
        self.records.settle();
        violations
    }

    /// Sectors in which more than one content may be found.
    #[must_use]
    pub fn undecided(&self) -> u64 {
        let several = |sector: &u64| self.may_remain(*sector).nth(1).is_some();
        (0..self.len()).filter(several).count() as u64
    }

    fn list(&self, sector: u64) -> &[u64] {
        &self.sectors[usize::try_from(sector).expect("within the LUN")]
    }

    /// What a crash may leave in a sector, oldest first.
    fn may_remain(&self, sector: u64) -> impl Iterator<Item = u64> + '_ {
        let list = self.list(sector);
        let may = move |version: &u64| {
            !list
                .iter()
                .any(|other| self.records.is_replaced(*version, *other))
        };
        list.iter().copied().filter(may)
    }

    fn judge(
        &self,
        sector: u64,
        found: Found,
        mut may: impl Iterator<Item = u64> + Clone,
    ) -> Option<Violation> {
        let all = may.clone();
        if may.any(|version| self.records.matches(version, found)) {
            return None;
        }
        let versions: Vec<String> = all.map(|version| self.records.describe(version)).collect();
        let known = match found {
            Found::Version(version) => format!("; found was {}", self.records.describe(version)),
            _ => String::new(),
        };
        let expected = format!("one of {}{known}", versions.join(", "));
        Some(Violation {
            sector,
            found,
            expected,
        })
    }

    /// Forgets what neither a crash nor a read can bring back.
    fn prune(&mut self, sector: usize) {
        let list = &self.sectors[sector];
        let oldest_read = self.reads.first().copied();
        let records = &self.records;
        let keep = |version: &u64| {
            !list
                .iter()
                .any(|other| records.is_past(*version, *other, oldest_read))
        };
        self.sectors[sector] = list.iter().copied().filter(keep).collect();
    }

    /// Writes of which a part is missing (rule 4). A sector that holds nothing it may is passed
    /// over: it has been reported.
    fn torn(&self, settled: &[Option<u64>]) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut seen = BTreeSet::new();
        for version in settled.iter().flatten().copied() {
            if !seen.insert(version) {
                continue;
            }
            let Some(record) = self.records.write(version) else {
                continue;
            };
            let missing = |sector: &usize| {
                settled[*sector].is_some_and(|other| {
                    // Of zeroes nobody can say whose they are.
                    self.records.is_before(other, version)
                        && !self.may_be_zeroed_later(*sector, other, version)
                })
            };
            if let Some(sector) = range(record.first, record.count).find(missing) {
                let expected =
                    format!("all of {} or nothing of it", self.records.describe(version));
                let found = match settled[sector] {
                    Some(other) if self.records.write(other).is_some() => Found::Version(other),
                    _ => Found::Zeroes,
                };
                violations.push(Violation {
                    sector: sector as u64,
                    found,
                    expected,
                });
            }
        }
        violations
    }

    /// `settled` has the newest zeroes that may be there, so only older ones could be meant.
    fn may_be_zeroed_later(&self, sector: usize, other: u64, version: u64) -> bool {
        self.records.write(other).is_none()
            && self.sectors[sector].iter().any(|zeroes| {
                self.records.write(*zeroes).is_none() && !self.records.is_before(*zeroes, version)
            })
    }
}

fn range(first: u64, count: u64) -> std::ops::Range<usize> {
    let at = |sector| usize::try_from(sector).expect("within the LUN");
    at(first)..at(first + count)
}

impl Record {
    /// Whether rule 4 covers it.
    fn is_atomic(&self) -> bool {
        self.kind == Kind::Write && self.count * crate::stamp::SECTOR as u64 <= ATOMIC_BYTES
    }
}
