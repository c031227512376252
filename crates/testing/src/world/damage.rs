//! Damage: blocks of a device that are not what was written to them, and what did it.
//!
//! This is bookkeeping of the world, not something a device knows: it tells a fault that was met
//! from one that struck where nobody looked.

use std::collections::BTreeMap;
use std::ops::Range;

use everglade_env::{Page, PageRef};

use super::change::Change;
use super::fault::Fault;

#[derive(Clone)]
struct Entry {
    fault: Fault,
    /// What the block should hold.
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

    /// A bit of `block` flipped; what it should hold may be known from before.
    pub(super) fn insert_unless_known(&mut self, block: u64, fault: Fault, wanted: PageRef) {
        self.blocks.entry(block).or_insert(Entry { fault, wanted });
    }

    /// Everything `change` should have brought about is damage, as far as `part` did not do it.
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

    /// What damaged `block`, if `page` read from it shows that.
    pub(super) fn shown_by(&self, block: u64, page: &Page) -> Option<Fault> {
        let entry = self.blocks.get(&block)?;
        (entry.wanted[..] != page[..]).then_some(entry.fault)
    }
}
