//! Cleaner: one dirty region becomes blocks and pointers, as a computation (C-07, D-05).
//!
//! ```text
//! Dirty ───┐
//! merged ──┼─ Cleaner::clean() ──▶ Cleaned ── apply ([`super::clean`]) ──▶ trees, maps, writes
//! supply ──┘
//! ```
//!
//! What a cleaner needs, it owns. A [`Dirty`] region has the level-1 block itself, moved out of its
//! file, with the changes and the blocks that they replace. The cleaner has its own numbers (its
//! [`Supply`]), the number of the consistency point and the key of the tags. So cleaning reads
//! nothing else, changes nothing else, and cannot stop. What it makes is a value, too: a
//! [`Cleaned`] region says all that follows from the cleaning, and whoever has the trees and maps
//! applies it. Containers' slots and contexts follow from the places of the blocks.
//!
//! 1. The same input gives the same [`Cleaned`], whoever computes it, and when.
//! 2. Places are used in the order of leaves, then one for the level-1 block: files lie on media in
//!    their order (H-10).
//! 3. A region is cleaned once in a consistency point, so its level-1 block is sealed at once.

use std::collections::HashMap;

use everglade_env::{Page, PageRef};
use everglade_format::planted::{self, Bug};
use everglade_format::{
    CpNumber, FileId, Indirect, IndirectMut, Layer, Pointer, SPAN, Tag, TagKey,
};

use crate::alloc::supply::Supply;
use crate::pool::overlay::{Change, Region};
use crate::tree::file::seal_indirect;

/// A region that changed, as a cleaner gets it.
pub(crate) struct Dirty<'a> {
    pub(crate) region: u64,
    pub(crate) changes: &'a Region,
    /// Leaves of the file: changes beyond it are void.
    pub(crate) end: u64,
    /// The level-1 block. Nobody else has it now.
    pub(crate) page: Page,
    /// Where that is in the last committed tree.
    pub(crate) old: Pointer,
    /// Blocks that the changes replace.
    pub(crate) replaced: Vec<Pointer>,
}

/// What cleaning a region made.
pub(crate) struct Cleaned {
    pub(crate) region: u64,
    /// Content of leaves and where it goes, in order.
    pub(crate) data: Vec<(Pointer, PageRef)>,
    /// The level-1 block and where it goes. Nothing if it points at nothing any more.
    pub(crate) block: Option<(Pointer, PageRef)>,
    /// Where the level-1 block was.
    pub(crate) old: Pointer,
    /// Blocks that leaves do not refer to any more.
    pub(crate) replaced: Vec<Pointer>,
}

/// See the module's documentation.
pub(crate) struct Cleaner<'a> {
    /// The consistency point.
    pub(crate) cp: CpNumber,
    pub(crate) key: &'a TagKey,
    /// The file that it cleans.
    pub(crate) file: FileId,
    pub(crate) supply: Supply,
}

impl Cleaner<'_> {
    /// Cleans a region. `merged` has the content of leaves with fragments, by leaf; a fragment that
    /// is not there has lost the rest of its block, so its leaf is lost.
    pub(crate) fn clean(&mut self, dirty: Dirty<'_>, merged: &HashMap<u64, PageRef>) -> Cleaned {
        let Dirty {
            region,
            changes,
            end,
            mut page,
            old,
            replaced,
        } = dirty;
        if changes.punched_whole {
            // Sealing writes the header anew.
            page.fill(0);
        }
        let mut data = Vec::with_capacity(changes.entries().len());
        for (leaf, change) in within(region, changes, end) {
            let content = match change {
                Change::Data(page) => Some(page),
                Change::Fragment(_) => merged
                    .get(&leaf)
                    .filter(|_| !planted::is_now(Bug::LostWithoutReason)),
                Change::Punched => None,
            };
            let pointer = match content {
                Some(page) => {
                    let pointer = self.place(page);
                    data.push((pointer, page.clone()));
                    pointer
                }
                None if change.is_block() => Pointer::LOST,
                None => Pointer::HOLE,
            };
            IndirectMut(&mut page).set(leaf % SPAN, Layer::Volume, pointer);
        }
        let block = match Indirect(&page).is_empty() {
            true => None,
            false => {
                let mut pointer = self.supply.take();
                let place = (self.file, (1, region));
                pointer.tag = seal_indirect(&mut page, Layer::Volume, place, self.cp, self.key);
                Some((pointer, page.freeze()))
            }
        };
        Cleaned {
            region,
            data,
            block,
            old,
            replaced,
        }
    }

    /// Where the content of a leaf goes.
    fn place(&mut self, page: &PageRef) -> Pointer {
        let mut pointer = self.supply.take();
        pointer.tag = Tag::of(everglade_journal::page_code(self.key, page));
        pointer
    }
}

/// The changes of a region, without those beyond the file's end: the file was cut short after they
/// were made.
pub(crate) fn within(
    region: u64,
    changes: &Region,
    end: u64,
) -> impl Iterator<Item = (u64, &Change)> {
    let leaf = move |slot: u8| region * SPAN + u64::from(slot);
    let entries = changes.entries().iter();
    entries
        .map(move |(slot, change)| (leaf(*slot), change))
        .filter(move |(leaf, _)| *leaf < end)
}
