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
}

/// Damaged blocks of one device.
#[derive(Clone, Default)]
pub(super) struct Damage {
    blocks: BTreeMap<u64, Entry>,
}

impl Damage {
    /// `block` should hold `wanted`, and `fault` is why it may not.
    pub(super) fn insert(&mut self, block: u64, fault: Fault, wanted: PageRef) {
        self.blocks.insert(block, Entry { fault, wanted });
    }

    /// Records a flipped bit of `block`; the right content may be known from earlier damage.
    pub(super) fn insert_unless_known(&mut self, block: u64, fault: Fault, wanted: PageRef) {
        self.blocks.entry(block).or_insert(Entry { fault, wanted });
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

    /// Returns the fault that damaged `block`, if `page` read from it shows the damage.
    pub(super) fn shown_by(&self, block: u64, page: &Page) -> Option<Fault> {
        let entry = self.blocks.get(&block)?;
        (entry.wanted[..] != page[..]).then_some(entry.fault)
    }
}
