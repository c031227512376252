//! One simulated device: the content of its medium and its volatile cache, and its faults.
//!
//! A change goes through three moments: *effect* (reads see it), *completion* (the submitter gets
//! the result), *durable* (a power cut no longer undoes it). Effect lies between submission and
//! completion, at a random moment. Changes with effect that are not durable are the `unflushed`
//! list.

use std::collections::BTreeSet;
use std::ops::Range;

use everglade_env::{BLOCK_SIZE, DiskError, Nanos, Page, PageRef};

use super::blockset::BlockSet;
use super::change::{Change, Grain};
use super::damage::Damage;
use super::fault::{Fault, FaultCounts, Faults};
use super::{EIO, Image};
use crate::Rng;

/// Durations of operations: shortest and longest, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Reads.
    pub read: (Nanos, Nanos),
    /// Writes, allocations and punches.
    pub write: (Nanos, Nanos),
    /// Flushes, and what a durable write takes in addition.
    pub flush: (Nanos, Nanos),
}

impl Default for Latency {
    fn default() -> Self {
        Latency {
            read: (20_000, 200_000),
            write: (10_000, 500_000),
            flush: (50_000, 2_000_000),
        }
    }
}

/// The properties of a simulated device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Size in bytes, a multiple of the block size.
    pub size_bytes: u64,
    /// True if the device owns its space, as block devices do; else the host provides space at the
    /// first write.
    pub owns_space: bool,
    /// Durations of operations.
    pub latency: Latency,
}

impl DeviceSpec {
    /// Returns a file on a host: space is provided on request.
    #[must_use]
    pub fn thin(size_bytes: u64) -> DeviceSpec {
        DeviceSpec {
            size_bytes,
            owns_space: false,
            latency: Latency::default(),
        }
    }

    /// A block device: all its space is its own.
    #[must_use]
    pub fn block(size_bytes: u64) -> DeviceSpec {
        DeviceSpec {
            owns_space: true,
            ..DeviceSpec::thin(size_bytes)
        }
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.size_bytes / BLOCK_SIZE as u64
    }
}

/// A change that reads see and a power cut may undo.
#[derive(Clone)]
pub(super) struct Unflushed {
    pub(super) version: u64,
    pub(super) change: Change,
    /// Tick of its completion; a flush covers those completed before it was submitted.
    pub(super) completed: Option<u64>,
    /// A flush claimed to have made it durable.
    pub(super) claimed: bool,
}

pub(super) struct Device {
    pub(super) spec: DeviceSpec,
    pub(super) live: Image,
    pub(super) live_allocated: BlockSet,
    pub(super) durable: Image,
    pub(super) durable_allocated: BlockSet,
    /// Unflushed changes in order of effect, which is the order of versions.
    pub(super) unflushed: Vec<Unflushed>,
    /// Former contents of blocks before their last write; kept only while reads may be stale.
    previous: Image,
    /// Blocks that cannot be read until they are written again.
    pub(super) bad: BTreeSet<u64>,
    pub(super) gone: bool,
    /// Operations take [`HANG`].
    pub(super) hangs: bool,
    /// It was taken away while the power was off.
    pub(super) is_away: bool,
    pub(super) damage: Damage,
    /// Whether it belongs to the rest is not known yet.
    pub(super) is_joining: bool,
    pub(super) faults: Faults,
    pub(super) counts: FaultCounts,
    pub(super) rng: Rng,
}

/// How long an operation takes on a device that hangs: longer than anybody waits for it, and for
/// some of them so long that they end.
const HANG: Nanos = 60_000_000_000;
const NEVER: Nanos = 1 << 60;

impl Device {
    pub(super) fn new(spec: DeviceSpec, durable: Image, allocated: BlockSet, rng: Rng) -> Device {
        assert_whole(spec.size_bytes);
        Device {
            spec,
            live: durable.clone(),
            live_allocated: allocated.clone(),
            durable,
            durable_allocated: allocated,
            unflushed: Vec::new(),
            previous: Image::default(),
            bad: BTreeSet::new(),
            gone: false,
            hangs: false,
            is_away: false,
            damage: Damage::default(),
            is_joining: false,
            faults: Faults::default(),
            counts: FaultCounts::default(),
            rng,
        }
    }

    /// Makes the device larger.
    pub(super) fn set_size(&mut self, size_bytes: u64) {
        assert_whole(size_bytes);
        assert!(
            size_bytes >= self.spec.size_bytes,
            "a device never becomes smaller"
        );
        self.spec.size_bytes = size_bytes;
    }

    /// Blocks the host must find before `range` can be written.
    pub(super) fn blocks_unallocated(&self, range: &Range<u64>) -> u64 {
        if self.spec.owns_space {
            0
        } else {
            self.live_allocated.missing(range.clone())
        }
    }

    /// Makes reads see `change`.
    pub(super) fn take_effect(&mut self, change: Change, version: u64) {
        if let Change::Write(blocks) = &change {
            for (block, _) in blocks.iter() {
                self.bad.remove(block);
                if self.faults.stale_read > 0 {
                    self.previous.put(*block, version, self.live.read(*block));
                }
            }
        }
        let newest = self.unflushed.last().map_or(0, |entry| entry.version);
        assert!(newest < version, "versions are given in order of effect");
        change.apply(version, &mut self.live, &mut self.live_allocated);
        self.unflushed.push(Unflushed {
            version,
            change,
            completed: None,
            claimed: false,
        });
    }

    /// The submitter of `version` is being told that it is done.
    pub(super) fn complete(&mut self, version: u64, tick: u64) {
        if let Ok(index) = self
            .unflushed
            .binary_search_by_key(&version, |entry| entry.version)
        {
            self.unflushed[index].completed = Some(tick);
        }
    }

    /// The change of `version`, unless it is durable already.
    pub(super) fn unflushed(&self, version: u64) -> Option<&Unflushed> {
        let index = self
            .unflushed
            .binary_search_by_key(&version, |entry| entry.version);
        index.ok().map(|index| &self.unflushed[index])
    }

    /// Makes `version`, and nothing else, durable.
    pub(super) fn harden(&mut self, version: u64) {
        if let Ok(index) = self
            .unflushed
            .binary_search_by_key(&version, |entry| entry.version)
        {
            let entry = self.unflushed.remove(index);
            entry
                .change
                .apply(version, &mut self.durable, &mut self.durable_allocated);
        }
    }

    /// Makes everything durable that completed before `tick`.
    pub(super) fn harden_before(&mut self, tick: u64) {
        let (durable, allocated) = (&mut self.durable, &mut self.durable_allocated);
        self.unflushed.retain(|entry| {
            let harden = entry.completed.is_some_and(|completed| completed < tick);
            if harden {
                entry.change.apply(entry.version, durable, allocated);
            }
            !harden
        });
    }

    /// Claims for everything that completed before `tick` that it is durable, and does nothing.
    pub(super) fn claim_before(&mut self, tick: u64) {
        for entry in &mut self.unflushed {
            entry.claimed |= entry.completed.is_some_and(|completed| completed < tick);
        }
    }

    /// Fills `pages` with what the device says `range` holds.
    pub(super) fn read(&mut self, first: u64, pages: &mut [Page]) -> Result<(), DiskError> {
        let range = first..first + pages.len() as u64;
        let hit = self.faults.concern(&range);
        if hit && self.rng.one_in(self.faults.read_error)
            || self.bad.range(range.clone()).next().is_some()
        {
            self.counts.loud(Fault::ReadError);
            return Err(DiskError::Io(EIO));
        }
        if hit && self.rng.one_in(self.faults.bit_flip) {
            let block = self.rng.between(range.start, range.end - 1);
            let bit = self.rng.index(BLOCK_SIZE * 8);
            self.flip_bit(block, bit);
        }
        for (block, page) in range.zip(pages) {
            let live = self.live.read(block);
            let stale = hit && self.rng.one_in(self.faults.stale_read);
            let source = match self.previous.get(block) {
                Some(old) if stale => {
                    self.counts.fired[Fault::StaleRead] += 1;
                    self.counts.met[Fault::StaleRead] += u64::from(old[..] != live[..]);
                    old.clone()
                }
                _ => live,
            };
            page.copy_from_slice(&source[..]);
            if hit && self.rng.one_in(self.faults.flip_reading) {
                self.counts.loud(Fault::FlipReading);
                flip(page, self.rng.index(BLOCK_SIZE * 8));
            } else if let Some(fault) = self.damage.show(block, page) {
                self.counts.met[fault] += 1;
            }
        }
        Ok(())
    }

    /// Draws whether an allocation or a punch fails.
    pub(super) fn space_result(&mut self, range: &Range<u64>) -> Result<(), DiskError> {
        if self.faults.concern(range) && self.rng.one_in(self.faults.space_error) {
            self.counts.loud(Fault::WriteError);
            return Err(DiskError::Io(EIO));
        }
        Ok(())
    }

    /// Flips one bit on the medium, for good.
    pub(super) fn flip_bit(&mut self, block: u64, bit: usize) {
        self.counts.fired[Fault::MediaFlip] += 1;
        let version = self.live.version(block);
        let whole = self.live.read(block);
        let mut page = Page::copy_of(&whole);
        flip(&mut page, bit);
        let page: PageRef = page.freeze();
        self.damage
            .insert_unless_known(block, Fault::MediaFlip, whole);
        if self.durable.version(block) == version {
            self.durable.put(block, version, page.clone());
        }
        for entry in self
            .unflushed
            .iter_mut()
            .filter(|entry| entry.version == version)
        {
            if let Change::Write(blocks) = &mut entry.change {
                let flipped = |(b, p): &(u64, PageRef)| {
                    (*b, if *b == block { page.clone() } else { p.clone() })
                };
                *blocks = blocks.iter().map(flipped).collect();
            }
        }
        self.live.put(block, version, page);
    }

    /// Returns the effect of an acknowledged write: the whole change, unless a silent fault alters
    /// it.
    pub(super) fn deflected(&mut self, change: Change, range: &Range<u64>) -> Option<Change> {
        self.damage.clear(range.clone());
        if !self.faults.concern(range) {
            return Some(change);
        }
        let (fault, part) = if self.rng.one_in(self.faults.lost_write) {
            (Fault::Lost, None)
        } else if self.rng.one_in(self.faults.torn_write) {
            let part = change.torn(Grain::Sector, &self.live, &mut self.rng);
            (Fault::Torn, Some(part))
        } else if self.rng.one_in(self.faults.misdirected_write) {
            let elsewhere = self.misdirected(&change, range);
            (Fault::Misdirected, elsewhere)
        } else if self.rng.one_in(self.faults.flip_writing) {
            (Fault::FlipWriting, change.flipped(&mut self.rng))
        } else {
            return Some(change);
        };
        self.counts.fired[fault] += 1;
        self.damage.insert_missing(fault, &change, part.as_ref());
        part
    }

    /// Returns the write at another place among the blocks that faults may hit.
    fn misdirected(&mut self, change: &Change, range: &Range<u64>) -> Option<Change> {
        let Change::Write(blocks) = change else {
            return Some(change.clone());
        };
        let allowed = self.faults.blocks.clone().unwrap_or(0..self.spec.blocks());
        let length = range.end - range.start;
        let last = allowed.end.min(self.spec.blocks()).checked_sub(length)?;
        if last < allowed.start {
            return None;
        }
        let first = self.rng.between(allowed.start, last);
        for block in first..first + length {
            let whole = self.live.read(block);
            self.damage
                .insert_unless_known(block, Fault::Misdirected, whole);
        }
        let pages = blocks.iter().map(|(_, page)| page.clone()).collect();
        Some(Change::write(first, pages))
    }

    /// Draws the duration of an operation, with a long tail now and then.
    pub(super) fn latency(&mut self, (shortest, longest): (Nanos, Nanos)) -> Nanos {
        if self.hangs {
            self.counts.loud(Fault::Vanished);
            return match self.rng.one_in(2) {
                true => HANG,
                false => NEVER,
            };
        }
        let usual = self.rng.between(shortest, longest);
        let tail = if self.rng.one_in(64) { 10 } else { 1 };
        if self.faults.slow > 1 {
            self.counts.loud(Fault::Slow);
        }
        usual * tail * self.faults.slow.max(1)
    }
}

fn assert_whole(size_bytes: u64) {
    assert!(
        size_bytes.is_multiple_of(BLOCK_SIZE as u64),
        "a device has a whole number of blocks"
    );
}

fn flip(page: &mut Page, bit: usize) {
    page[bit / 8] ^= 1 << (bit % 8);
}
