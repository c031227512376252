//! Cleaner: one dirty region becomes blocks and pointers, as a computation (C-07, D-05).
//!
//! ```text
//! Dirty ───┐
//! merged ──┼─ Cleaner::clean() ──▶ Cleaned ── apply ([`super::clean`]) ──▶ trees, maps, writes
//! supply ──┘
//! ```
//!
//! A cleaner owns all of its inputs. A [`Dirty`] region has the level-1 block itself, moved out of
//! its file, with the changes and the blocks that they replace. The cleaner has its own numbers
//! (its [`Supply`]), the number of the consistency point and the key of the tags. So cleaning reads
//! nothing else, changes nothing else, and cannot stop. The result is a value, too: a [`Cleaned`]
//! region has all consequences of the cleaning, and the owner of the trees and maps applies it.
//! Containers' slots and contexts follow from the places of the blocks.
//!
//! 1. The same input gives the same [`Cleaned`], on any thread and at any time.
//! 2. Places are used in the order of leaves, then one for the level-1 block: files lie on media in
//!    their order (H-10).
//! 3. A region is cleaned once in a consistency point, so its level-1 block is sealed at once.

use std::collections::HashMap;

use everglade_env::{Page, PageRef};
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
    /// The level-1 block. Only the cleaner has it now.
    pub(crate) page: Page,
    /// Place of the level-1 block in the last committed tree.
    pub(crate) old: Pointer,
    /// Blocks that the changes replace.
    pub(crate) replaced: Vec<Pointer>,
}

/// The result of cleaning a region.
pub(crate) struct Cleaned {
    pub(crate) region: u64,
    /// Content of leaves and where it goes, in order.
    pub(crate) data: Vec<(Pointer, PageRef)>,
    /// The level-1 block and where it goes. Nothing if it points at nothing any more.
    pub(crate) block: Option<(Pointer, PageRef)>,
    /// Former place of the level-1 block.
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
    /// Cleans a region. `merged` has the content of leaves with fragments, by leaf; a leaf with a
    /// fragment but without an entry is lost, because the rest of its block is lost.
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
                Change::Fragment(_) => merged.get(&leaf),
                Change::Punched => None,
            };
            let pointer = match content {
                Some(page) => {
                    let pointer = self.pointer_for(page);
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

    /// Takes a block number for the content of a leaf, and returns the pointer to it.
    fn pointer_for(&mut self, page: &PageRef) -> Pointer {
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

#[cfg(test)]
mod tests {
    use everglade_env::BLOCK_SIZE;
    use everglade_format::Vvbn;

    use super::*;
    use crate::pool::fragment::Fragment;
    use crate::pool::overlay::Overlay;

    const FILE: FileId = FileId(70);
    const REGION: u64 = 2;

    fn page(byte: u8) -> PageRef {
        Page::copy_of(&[byte; BLOCK_SIZE]).freeze()
    }

    fn key() -> TagKey {
        TagKey::new(&[7; 32])
    }

    /// A block of the tree before.
    fn known(number: u64) -> Pointer {
        Supply::of([(number, number)]).take()
    }

    /// Region 2 of a file, with slots as they were before, and what changes in it.
    struct Input {
        slots: Vec<(u64, Pointer)>,
        overlay: Overlay,
        end: u64,
        merged: HashMap<u64, PageRef>,
    }

    impl Input {
        fn new(slots: &[u64]) -> Input {
            Input {
                slots: slots
                    .iter()
                    .map(|slot| (*slot, known(900 + slot)))
                    .collect(),
                overlay: Overlay::default(),
                end: (REGION + 1) * SPAN,
                merged: HashMap::new(),
            }
        }

        fn with(mut self, slot: u64, change: Change) -> Input {
            self.overlay.insert(FILE, REGION * SPAN + slot, change);
            self
        }

        /// Cleans the region with places (1, 101), (2, 102) and so on; returns the result and the
        /// unused places.
        fn clean(&self) -> (Cleaned, Supply) {
            let mut page = Page::zeroed();
            for (slot, pointer) in &self.slots {
                IndirectMut(&mut page).set(*slot, Layer::Volume, *pointer);
            }
            let key = key();
            let mut cleaner = Cleaner {
                cp: CpNumber(5),
                key: &key,
                file: FILE,
                supply: Supply::of((1..10).map(|number| (number, 100 + number))),
            };
            let dirty = Dirty {
                region: REGION,
                changes: &self.overlay.regions[&(FILE, REGION)],
                end: self.end,
                page,
                old: known(800),
                replaced: vec![known(900)],
            };
            let cleaned = cleaner.clean(dirty, &self.merged);
            (cleaned, cleaner.supply)
        }

        /// Slots of the block after cleaning.
        fn slots_after(&self) -> Vec<(u64, Pointer)> {
            let (cleaned, _) = self.clean();
            let page = cleaned.block.expect("something is left").1;
            let slots = (0..SPAN).map(|slot| {
                let pointer = Indirect(&page).pointer(slot, Layer::Volume);
                (slot, pointer.expect("a pointer"))
            });
            slots.filter(|(_, pointer)| !pointer.is_hole()).collect()
        }
    }

    fn facts(cleaned: &Cleaned) -> impl PartialEq + std::fmt::Debug {
        let bytes = |(pointer, page): &(Pointer, PageRef)| (*pointer, page.to_vec());
        (
            cleaned.region,
            cleaned.data.iter().map(bytes).collect::<Vec<_>>(),
            cleaned.block.as_ref().map(bytes),
            cleaned.old,
            cleaned.replaced.clone(),
        )
    }

    #[test]
    fn the_same_input_gives_the_same_outcome() {
        let fragment = Fragment::new(page(4), &(0..10));
        let mut input = Input::new(&[0, 3, 254])
            .with(3, Change::Data(page(1)))
            .with(9, Change::Fragment(fragment))
            .with(254, Change::Punched);
        input.merged.insert(REGION * SPAN + 9, page(5));
        let [(one, left), (other, also_left)] = [input.clean(), input.clean()];
        assert_eq!(facts(&one), facts(&other));
        assert_eq!(left, also_left);
    }

    #[test]
    fn places_go_to_leaves_in_order_and_then_to_the_block() {
        let input = Input::new(&[0])
            .with(7, Change::Data(page(2)))
            .with(3, Change::Data(page(1)));
        let (cleaned, mut left) = input.clean();
        let place = |pointer: &Pointer| (pointer.vvbn.0, pointer.pvbn.0);
        let data = cleaned.data.iter();
        let data: Vec<_> = data
            .map(|(pointer, page)| (place(pointer), page[0]))
            .collect();
        assert_eq!(data, [((1, 101), 1), ((2, 102), 2)]);
        let (pointer, block) = cleaned.block.as_ref().expect("something is left");
        assert_eq!(place(pointer), (3, 103));
        assert_eq!(pointer.tag, key().tag(block));
        assert_eq!(left.take().vvbn, Vvbn(4), "the others are left");
        let slots = input.slots_after();
        assert_eq!(slots[0], (0, known(900)), "what did not change stays");
        assert_eq!((slots[1].0, slots[2].0), (3, 7));
        assert_eq!(slots[1].1, cleaned.data[0].0);
        let header = everglade_format::Header::decode(block).expect("a header");
        assert_eq!(
            (header.level, header.cp, header.file, header.index),
            (1, CpNumber(5), FILE, 2)
        );
    }

    #[test]
    fn a_block_that_points_at_nothing_takes_no_place() {
        let input = Input::new(&[4]).with(4, Change::Punched);
        let (cleaned, left) = input.clean();
        assert!(cleaned.block.is_none());
        assert!(cleaned.data.is_empty());
        assert_eq!(
            left,
            Supply::of((1..10).map(|number| (number, 100 + number)))
        );
    }

    #[test]
    fn a_whole_punch_leaves_only_later_changes() {
        let mut input = Input::new(&[0, 1, 2, 254]);
        input.overlay.punch_region(FILE, REGION);
        let input = input.with(2, Change::Data(page(9)));
        let slots = input.slots_after();
        assert_eq!(slots.len(), 1);
        assert_eq!((slots[0].0, slots[0].1.vvbn), (2, Vvbn(1)));
    }

    #[test]
    fn a_fragment_without_the_rest_of_its_block_is_lost() {
        let fragment = Fragment::new(page(4), &(0..10));
        let input = Input::new(&[]).with(8, Change::Fragment(fragment));
        assert_eq!(input.slots_after(), [(8, Pointer::LOST)]);
    }

    #[test]
    fn a_change_beyond_the_end_is_void() {
        let mut input = Input::new(&[]).with(5, Change::Data(page(1)));
        input = input.with(6, Change::Data(page(2)));
        input.end = REGION * SPAN + 6;
        let slots = input.slots_after();
        assert_eq!(slots.len(), 1);
        assert_eq!(slots[0].0, 5);
    }
}
