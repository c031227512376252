//! Damage: blocks of a device that differ from their last write, each with its fault.
//!
//! This is bookkeeping of the world, which devices do not know: it separates faults that a read met
//! from faults in blocks that were never read.

use std::collections::BTreeMap;
use std::ops::Range;

use everglade_env::{Page, PageRef};

use super::change::Change;
use super::fault::Fault;

#[derive(Clone)]
struct Entry {
    fault: Fault,
    /// Content that the block should have.
    wanted: PageRef,
    /// A read has shown it since [`Damage::forget_met`].
    is_met: bool,
}

impl Entry {
    fn new(fault: Fault, wanted: PageRef) -> Entry {
        Entry {
            fault,
            wanted,
            is_met: false,
        }
    }
}

/// Damaged blocks of one device.
#[derive(Clone, Default)]
pub(super) struct Damage {
    blocks: BTreeMap<u64, Entry>,
}

impl Damage {
    /// `block` should hold `wanted`, and `fault` is why it may not.
    pub(super) fn insert(&mut self, block: u64, fault: Fault, wanted: PageRef) {
        self.blocks.insert(block, Entry::new(fault, wanted));
    }

    /// Records a flipped bit of `block`; the right content may be known from earlier damage.
    pub(super) fn insert_unless_known(&mut self, block: u64, fault: Fault, wanted: PageRef) {
        let entry = self.blocks.entry(block);
        entry.or_insert_with(|| Entry::new(fault, wanted));
    }

    /// Records as damage all blocks of `change` that `part` did not write.
    pub(super) fn insert_missing(&mut self, fault: Fault, change: &Change, part: Option<&Change>) {
        let Change::Write(blocks) = change else {
            return;
        };
        let done: BTreeMap<u64, &PageRef> = match part {
            Some(Change::Write(done)) => done.iter().map(|(block, page)| (*block, page)).collect(),
            _ => BTreeMap::new(),
        };
        for (block, page) in blocks.iter() {
            if done.get(block).is_none_or(|there| there[..] != page[..]) {
                self.insert(*block, fault, page.clone());
            }
        }
    }

    /// `range` is as it should be.
    pub(super) fn clear(&mut self, range: Range<u64>) {
        if !self.blocks.is_empty() {
            let hit: Vec<u64> = self.blocks.range(range).map(|(block, _)| *block).collect();
            for block in hit {
                self.blocks.remove(&block);
            }
        }
    }

    /// `page` is what a read of `block` returns. Returns the fault that damaged the block, if the
    /// page shows the damage.
    pub(super) fn show(&mut self, block: u64, page: &Page) -> Option<Fault> {
        let entry = self.blocks.get_mut(&block)?;
        let is_shown = entry.wanted[..] != page[..];
        entry.is_met |= is_shown;
        is_shown.then_some(entry.fault)
    }

    /// From now on no damage counts as met.
    pub(super) fn forget_met(&mut self) {
        self.blocks
            .values_mut()
            .for_each(|entry| entry.is_met = false);
    }

    /// Returns the blocks whose damage a read has met, with the content that they should have. A
    /// power cut may take what was not flushed, and that is no damage here.
    pub(super) fn met(&self) -> impl Iterator<Item = (u64, &PageRef)> {
        let is_of_cut = |fault| matches!(fault, Fault::CutDropped | Fault::CutTorn);
        let met = self.blocks.iter();
        met.filter(move |(_, entry)| entry.is_met && !is_of_cut(entry.fault))
            .map(|(block, entry)| (*block, &entry.wanted))
    }
}
