//! Overlays: the changes that client operations leave for the cleaner, by leaf
//! (docs/design/design.md §6).
//!
//! An overlay belongs to one stripe affinity and one consistency point. It maps a *region* (the 255
//! leaves of one level-1 block) to entries. A region may also be punched as a whole: then the
//! overlay hides the blocks of the tree there, and only its entries count.
//!
//! 1. A page in an overlay never changes; overwriting replaces the entry. So a page under I/O is
//!    safe.
//! 2. Entries are sorted by slot and unique.

use std::collections::BTreeMap;
use std::ops::Range;

use everglade_env::PageRef;
use everglade_format::{FileId, SPAN};

use crate::pool::fragment::Fragment;

/// A change of one leaf.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// The leaf has this content.
    Data(PageRef),
    /// A part of the leaf has these bytes; the rest is as below.
    Fragment(Fragment),
    /// The leaf is a hole.
    Punched,
}

impl Change {
    /// True if the leaf will have a block.
    pub(crate) fn is_block(&self) -> bool {
        !matches!(self, Change::Punched)
    }
}

/// A LUN and the index of a level-1 block in it.
pub(crate) type RegionId = (FileId, u64);

/// Changes below one level-1 block.
#[derive(Default, Debug)]
pub(crate) struct Region {
    /// True if all of the tree's leaves below this level-1 block were punched.
    pub(crate) punched_whole: bool,
    entries: Vec<(u8, Change)>,
    /// Number of entries that are blocks.
    blocks: usize,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Overlay {
    pub(crate) regions: BTreeMap<RegionId, Region>,
}

/// Where the newest content of a leaf is.
pub(crate) enum LeafContent {
    Data(PageRef),
    /// The newest content is this fragment over older content.
    Fragment(Fragment),
    Hole,
    /// This overlay has no content: read older overlays and the tree.
    Older,
}

/// The growth of dirty memory by an insertion, in pages: data pages and, as one page each, regions
/// that hold nothing but holes (their level-1 block will be loaded and changed).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Growth {
    pub(crate) pages: i64,
}

impl Region {
    fn find_slot(&self, slot: u8) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&slot, |(slot, _)| *slot)
    }

    /// Changes in ascending order of their slots.
    pub(crate) fn entries(&self) -> &[(u8, Change)] {
        &self.entries
    }

    /// Pages this region counts for.
    pub(crate) fn weight(&self) -> i64 {
        let holes = self.punched_whole || self.blocks < self.entries.len();
        i64::try_from(self.blocks).expect("at most 255") + i64::from(holes)
    }

    fn put(&mut self, slot: u8, change: Change) {
        self.blocks += usize::from(change.is_block());
        // Sequential writes arrive in order.
        if self.entries.last().is_none_or(|(last, _)| *last < slot) {
            return self.entries.push((slot, change));
        }
        match self.find_slot(slot) {
            Ok(index) => {
                let old = std::mem::replace(&mut self.entries[index].1, change);
                self.blocks -= usize::from(old.is_block());
            }
            Err(index) => self.entries.insert(index, (slot, change)),
        }
    }
}

fn split(leaf: u64) -> (u64, u8) {
    (leaf / SPAN, u8::try_from(leaf % SPAN).expect("below 255"))
}

/// Regions of leaves that follow each other, and the slots in each.
fn by_region(leaves: Range<u64>) -> impl Iterator<Item = (u64, Range<u8>)> {
    let regions = leaves.start / SPAN..leaves.end.div_ceil(SPAN);
    let regions = regions.map(move |region| {
        let slot = |leaf: u64| u8::try_from(leaf - region * SPAN).expect("at most 255");
        let from = leaves.start.max(region * SPAN);
        let to = leaves.end.min((region + 1) * SPAN);
        (region, slot(from)..slot(to))
    });
    regions.filter(|(_, slots)| !slots.is_empty())
}

impl Overlay {
    pub(crate) fn find(&self, file: FileId, leaf: u64) -> LeafContent {
        let (region, slot) = split(leaf);
        let Some(region) = self.regions.get(&(file, region)) else {
            return LeafContent::Older;
        };
        match region.find_slot(slot) {
            Ok(index) => match &region.entries[index].1 {
                Change::Data(page) => LeafContent::Data(page.clone()),
                Change::Fragment(fragment) if region.punched_whole => {
                    LeafContent::Data(fragment.over(&PageRef::zero()))
                }
                Change::Fragment(fragment) => LeafContent::Fragment(fragment.clone()),
                Change::Punched => LeafContent::Hole,
            },
            Err(_) if region.punched_whole => LeafContent::Hole,
            Err(_) => LeafContent::Older,
        }
    }

    /// Records the newest content of a leaf.
    pub(crate) fn insert(&mut self, file: FileId, leaf: u64, change: Change) -> Growth {
        let (region, slot) = split(leaf);
        let region = self.regions.entry((file, region)).or_default();
        let before = region.weight();
        region.put(slot, change);
        Growth {
            pages: region.weight() - before,
        }
    }

    /// Records the newest content of leaves that follow each other, all in this stripe. Each region
    /// is searched once.
    pub(crate) fn insert_all(
        &mut self,
        file: FileId,
        leaves: Range<u64>,
        changes: &mut impl Iterator<Item = Change>,
    ) -> Growth {
        let mut growth = Growth::default();
        for (region, slots) in by_region(leaves) {
            let region = self.regions.entry((file, region)).or_default();
            let before = region.weight();
            region.entries.reserve(slots.len());
            for slot in slots {
                region.put(slot, changes.next().expect("one for each leaf"));
            }
            growth.pages += region.weight() - before;
        }
        growth
    }

    /// Returns the number of these leaves that have data or a fragment here.
    pub(crate) fn blocks_among(&self, file: FileId, leaves: Range<u64>) -> u64 {
        let mut count = 0;
        for (region, slots) in by_region(leaves) {
            let Some(region) = self.regions.get(&(file, region)) else {
                continue;
            };
            let from = region
                .entries
                .partition_point(|(slot, _)| *slot < slots.start);
            let among = region.entries[from..].iter();
            let among = among.take_while(|(slot, _)| *slot < slots.end);
            count += among.filter(|(_, change)| change.is_block()).count() as u64;
        }
        count
    }

    /// Punches all 255 leaves of a region.
    pub(crate) fn punch_region(&mut self, file: FileId, region: u64) -> Growth {
        let region = self.regions.entry((file, region)).or_default();
        let before = region.weight();
        region.punched_whole = true;
        region.entries.clear();
        region.blocks = 0;
        Growth {
            pages: region.weight() - before,
        }
    }

    /// True if the overlay says anything about leaves of this region.
    pub(crate) fn mentions(&self, file: FileId, region: u64) -> bool {
        self.regions.contains_key(&(file, region))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everglade_env::Page;
    use proptest::prelude::*;

    const FILE: FileId = FileId(70);

    fn data(byte: u8) -> Change {
        let mut page = Page::zeroed();
        page[0] = byte;
        Change::Data(page.freeze())
    }

    fn first_byte(found: LeafContent) -> Option<u8> {
        match found {
            LeafContent::Data(page) => Some(page[0]),
            _ => None,
        }
    }

    #[test]
    fn the_newest_change_wins_and_memory_is_counted_once() {
        let mut overlay = Overlay::default();
        assert_eq!(overlay.insert(FILE, 300, data(1)).pages, 1);
        assert_eq!(overlay.insert(FILE, 300, data(2)).pages, 0);
        assert_eq!(overlay.insert(FILE, 255, data(3)).pages, 1);
        assert_eq!(first_byte(overlay.find(FILE, 300)), Some(2));
        assert_eq!(first_byte(overlay.find(FILE, 255)), Some(3));
        assert!(matches!(overlay.find(FILE, 256), LeafContent::Older));
        assert!(
            matches!(overlay.find(FileId(71), 300), LeafContent::Older),
            "another LUN"
        );
        assert_eq!(
            overlay.insert(FILE, 300, Change::Punched).pages,
            0,
            "a page less, a hole more"
        );
        assert!(matches!(overlay.find(FILE, 300), LeafContent::Hole));
    }

    #[test]
    fn a_run_leaves_what_its_blocks_would_leave_one_by_one() {
        let before = [
            (3, data(1)),
            (254, Change::Punched),
            (256, data(2)),
            (600, data(3)),
        ];
        for (first, count) in [
            (0, 4),
            (3, 1),
            (250, 10),
            (254, 2),
            (255, 255),
            (1, 700),
            (800, 0),
        ] {
            let (mut run, mut single) = (Overlay::default(), Overlay::default());
            for (leaf, change) in &before {
                run.insert(FILE, *leaf, change.clone());
                single.insert(FILE, *leaf, change.clone());
            }
            let leaves = first..first + count;
            let charged = leaves.clone().filter(|leaf| {
                let found = single.find(FILE, *leaf);
                matches!(found, LeafContent::Data(_) | LeafContent::Fragment(_))
            });
            assert_eq!(
                run.blocks_among(FILE, leaves.clone()),
                charged.count() as u64
            );
            let mut changes = leaves.clone().map(|_| data(9));
            let growth = run.insert_all(FILE, leaves.clone(), &mut changes);
            let grown = leaves.map(|leaf| single.insert(FILE, leaf, data(9)).pages);
            assert_eq!(growth.pages, grown.sum::<i64>(), "{first} + {count}");
            for region in 0..4 {
                assert_eq!(run.mentions(FILE, region), single.mentions(FILE, region));
            }
            for leaf in 0..1020 {
                let (found, expected) = (run.find(FILE, leaf), single.find(FILE, leaf));
                assert_eq!(first_byte(found), first_byte(expected), "leaf {leaf}");
            }
        }
    }

    #[test]
    fn a_punched_region_hides_the_tree_but_not_later_writes() {
        let mut overlay = Overlay::default();
        overlay.insert(FILE, 10, data(1));
        overlay.insert(FILE, 11, data(1));
        assert_eq!(overlay.punch_region(FILE, 0).pages, -1);
        assert!(matches!(overlay.find(FILE, 10), LeafContent::Hole));
        assert!(matches!(overlay.find(FILE, 200), LeafContent::Hole));
        overlay.insert(FILE, 200, data(9));
        assert_eq!(first_byte(overlay.find(FILE, 200)), Some(9));
        assert!(
            matches!(overlay.find(FILE, 255), LeafContent::Older),
            "the next region"
        );
    }

    #[derive(Clone, Debug)]
    enum Event {
        Write(Range<u64>),
        Punch(u64),
        PunchRegion(u64),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            4 => (0..900_u64, 0..300_u64).prop_map(|(from, len)| Event::Write(from..from + len)),
            2 => (0..1200_u64).prop_map(Event::Punch),
            1 => (0..5_u64).prop_map(Event::PunchRegion),
        ];
        prop::collection::vec(event, 0..25)
    }

    proptest! {
        /// Against a plain table: what a leaf is, if anything is known of it.
        #[test]
        fn an_overlay_knows_the_newest_change_and_what_it_costs(events in events()) {
            const LEAVES: u64 = 5 * SPAN;
            let mut overlay = Overlay::default();
            let mut table: BTreeMap<u64, Option<u8>> = BTreeMap::new();
            let mut holes: BTreeMap<u64, bool> = BTreeMap::new();
            let mut grown = 0;
            for (byte, event) in (1..).zip(events) {
                match event {
                    Event::Write(leaves) => {
                        let mut changes = leaves.clone().map(|_| data(byte));
                        grown += overlay.insert_all(FILE, leaves.clone(), &mut changes).pages;
                        table.extend(leaves.map(|leaf| (leaf, Some(byte))));
                    }
                    Event::Punch(leaf) => {
                        grown += overlay.insert(FILE, leaf, Change::Punched).pages;
                        table.insert(leaf, None);
                    }
                    Event::PunchRegion(region) => {
                        grown += overlay.punch_region(FILE, region).pages;
                        let leaves = region * SPAN..(region + 1) * SPAN;
                        table.extend(leaves.map(|leaf| (leaf, None)));
                        holes.insert(region, true);
                    }
                }
            }
            for leaf in 0..LEAVES {
                match (overlay.find(FILE, leaf), table.get(&leaf)) {
                    (LeafContent::Older, None) | (LeafContent::Hole, Some(None)) => {}
                    (LeafContent::Data(page), Some(Some(byte))) => prop_assert_eq!(page[0], *byte),
                    (_, expected) => prop_assert!(false, "leaf {} is not {:?}", leaf, expected),
                }
            }
            for from in (0..LEAVES).step_by(97) {
                let blocks = table.range(from..from + 200).filter(|(_, it)| it.is_some());
                let found = overlay.blocks_among(FILE, from..from + 200);
                prop_assert_eq!(found, blocks.count() as u64);
            }
            let data = table.values().flatten().count() as i64;
            for (leaf, _) in table.iter().filter(|(_, it)| it.is_none()) {
                holes.insert(leaf / SPAN, true);
            }
            prop_assert_eq!(grown, data + holes.len() as i64, "one page for the holes of a region");
        }
    }
}
