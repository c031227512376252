//! A cell: eight neighbouring blocks of a device, and the pages of those that are in memory.

use everglade_env::{PageRef, prefetch};
use everglade_format::Tag;

use crate::Key;

/// Blocks of a cell.
pub(crate) const BLOCKS: usize = 8;

/// Which eight blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellKey {
    group: u64,
    aggregate: u32,
}

impl CellKey {
    /// The cell of a page.
    pub(crate) fn of(key: &Key) -> CellKey {
        CellKey {
            group: key.pvbn.0 / BLOCKS as u64,
            aggregate: key.aggregate,
        }
    }

    pub(crate) fn hash(self) -> u64 {
        let mixed =
            (self.group ^ u64::from(self.aggregate) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xff51_afd7_ed55_8ccd)
    }
}

/// The place of a page in its cell.
pub(crate) fn index_in_cell(key: &Key) -> usize {
    usize::try_from(key.pvbn.0 % BLOCKS as u64).expect("below 8")
}

#[derive(Default)]
struct Slot {
    tag: Tag,
    page: Option<PageRef>,
}

/// See the module's documentation. What a look-up needs of it lies in two or three cache lines.
#[repr(C, align(32))]
pub(crate) struct Cell {
    pub(crate) key: CellKey,
    /// Rounds of the hand that each page lasts yet.
    rounds: [u8; BLOCKS],
    slots: [Slot; BLOCKS],
}

const _: () = assert!(size_of::<Cell>() == 160);

impl Cell {
    pub(crate) fn new(key: CellKey) -> Cell {
        Cell {
            key,
            rounds: [0; BLOCKS],
            slots: Default::default(),
        }
    }

    /// The page with this content, which is looked at now and lasts at least so many rounds from
    /// here.
    pub(crate) fn touch(&mut self, key: &Key, rounds: u8) -> Option<&PageRef> {
        let index = index_in_cell(key);
        let slot = &self.slots[index];
        let page = slot.page.as_ref().filter(|_| slot.tag == key.tag)?;
        self.rounds[index] = self.rounds[index].max(rounds);
        Some(page)
    }

    /// The page with this content, if it is here, lasts at most so many rounds from here.
    pub(crate) fn shorten(&mut self, key: &Key, rounds: u8) {
        let index = index_in_cell(key);
        if self.slots[index].tag == key.tag {
            self.rounds[index] = self.rounds[index].min(rounds);
        }
    }

    /// Asks the processor for what a look-up of `key` here touches.
    pub(crate) fn prefetch_self(&self, key: &Key) {
        prefetch(&raw const self.key);
        prefetch(&raw const self.slots[index_in_cell(key)]);
    }

    /// Asks the processor for the page with this content, if it is here.
    pub(crate) fn prefetch(&self, key: &Key) {
        let slot = &self.slots[index_in_cell(key)];
        if let Some(page) = slot.page.as_ref().filter(|_| slot.tag == key.tag) {
            page.prefetch();
        }
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        let slot = &self.slots[index_in_cell(key)];
        slot.page.is_some() && slot.tag == key.tag
    }

    /// Takes a page in. The page of an equal key stays; that of another content, which the block
    /// held before, is given back, or the new one if it is not needed.
    pub(crate) fn put(&mut self, key: &Key, page: PageRef, rounds: u8) -> Option<PageRef> {
        if self.contains(key) {
            return Some(page);
        }
        let index = index_in_cell(key);
        self.rounds[index] = rounds;
        self.slots[index].tag = key.tag;
        self.slots[index].page.replace(page)
    }

    /// The hand comes by: pages whose rounds are over leave, the others have one less.
    pub(crate) fn age(&mut self, leaving: &mut Vec<PageRef>) {
        for (slot, rounds) in self.slots.iter_mut().zip(&mut self.rounds) {
            match rounds.checked_sub(1) {
                Some(fewer) => *rounds = fewer,
                None => leaving.extend(slot.page.take()),
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.iter().all(|slot| slot.page.is_none())
    }
}
