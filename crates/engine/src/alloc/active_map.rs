//! The active map with its safe copies (B-14, E-02 … E-04, O-05).
//!
//! The current copy of a map block is the changed block of the active map file; it is what the
//! consistency point writes. When the first bit in the block is cleared, a *safe* copy is made.
//! Allocation reads the safe copy and sets bits in both; frees clear bits in the current copy only.
//! So a number freed in this consistency point is not allocated in the same consistency point
//! (Lemma 1). The safe copies are dropped when the consistency point ends.

use std::collections::HashMap;

use everglade_env::Page;
use everglade_format::{BITS_PER_BLOCK, bitmap};

use crate::read::load::BySpread;
use crate::tree::File;

/// Safe copies of the running consistency point.
#[derive(Default)]
pub(crate) struct SafeCopies(HashMap<u64, Page, BySpread>);

impl SafeCopies {
    /// Numbers freed in this consistency point become allocatable.
    pub(crate) fn drop_all(&mut self) {
        self.0.clear();
    }

    /// Returns the first allocatable number in `from..to`, a range within one changed map block.
    pub(crate) fn first_free(&self, map: &File, from: u64, to: u64) -> Option<u64> {
        let block = from / BITS_PER_BLOCK;
        assert!(
            from < to && (to - 1) / BITS_PER_BLOCK == block,
            "{from}..{to} spans map blocks"
        );
        let bits = match self.0.get(&block) {
            Some(safe) => safe,
            None => map.peek(0, block).expect("the map block was made changed"),
        };
        let base = block * BITS_PER_BLOCK;
        bitmap::first_clear(bits, from - base, to - base).map(|bit| bit + base)
    }

    /// Returns whether a number is in use, or was freed in this consistency point; `None` if no
    /// number of its map block was freed, so that the map says it.
    pub(crate) fn is_held(&self, number: u64) -> Option<bool> {
        let safe = self.0.get(&(number / BITS_PER_BLOCK))?;
        Some(bitmap::is_set(safe, number % BITS_PER_BLOCK))
    }

    /// Marks a number in use. The map block must be changed already.
    pub(crate) fn allocate(&mut self, map: &mut File, number: u64) {
        let (block, bit) = (number / BITS_PER_BLOCK, number % BITS_PER_BLOCK);
        if let Some(safe) = self.0.get_mut(&block) {
            assert!(
                bitmap::set(safe, bit),
                "{number} was freed in this consistency point or is in use"
            );
        }
        let page = map
            .changed_page(0, block)
            .expect("the map block was made changed");
        assert!(bitmap::set(page, bit), "{number} is in use already");
    }

    /// Marks a number in use that is in use elsewhere, so it cannot have been allocated. Returns
    /// false if the number is marked already.
    pub(crate) fn adopt(&mut self, map: &mut File, number: u64) -> bool {
        let (block, bit) = (number / BITS_PER_BLOCK, number % BITS_PER_BLOCK);
        if let Some(safe) = self.0.get_mut(&block) {
            bitmap::set(safe, bit);
        }
        let page = map
            .changed_page(0, block)
            .expect("the map block was made changed");
        bitmap::set(page, bit)
    }

    /// Keeps a number that is free in the map, whose block `block` is `bits`, from being allocated
    /// in this consistency point: until now a snapshot held it.
    pub(crate) fn withhold(&mut self, bits: &everglade_format::Block, block: u64, number: u64) {
        let safe = self.0.entry(block).or_insert_with(|| Page::copy_of(bits));
        bitmap::set(safe, number % BITS_PER_BLOCK);
    }

    /// Marks a number free from the next consistency point on.
    pub(crate) fn free(&mut self, map: &mut File, number: u64) {
        let (block, bit) = (number / BITS_PER_BLOCK, number % BITS_PER_BLOCK);
        let page = map.changed_page(0, block).expect("freeing was prepared");
        self.0.entry(block).or_insert_with(|| Page::copy_of(page));
        assert!(bitmap::clear(page, bit), "{number} is freed twice");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use everglade_format::metafile::ACTIVE_MAP;
    use everglade_format::{CpNumber, Inode, Kind, Layer};

    use proptest::prelude::*;

    use super::*;
    use crate::read::fixture::Shelf;
    use crate::tree::Content;

    /// A map of two blocks, both changed, in which everything is free.
    fn map() -> File {
        let inode = Inode::new(ACTIVE_MAP, Kind::Metafile, CpNumber(1), 0);
        let mut map = File::new(inode, Layer::Volume);
        map.grow(2);
        let (outcome, _) = Shelf::new().load(|cx| {
            for block in 0..2 {
                map.modify(cx, 0, block, Content::Fresh)?;
            }
            Ok::<_, crate::read::load::Stop>(())
        });
        outcome.expect("nothing is loaded for fresh blocks");
        map
    }

    #[test]
    fn a_number_freed_in_a_consistency_point_is_not_allocated_in_it() {
        let (mut map, mut safe) = (map(), SafeCopies::default());
        safe.allocate(&mut map, 5);
        safe.drop_all();
        safe.free(&mut map, 5);
        assert_eq!(safe.first_free(&map, 5, 9), Some(6));
        safe.drop_all();
        assert_eq!(safe.first_free(&map, 5, 9), Some(5));
    }

    #[test]
    fn a_number_allocated_after_a_free_in_its_block_is_not_allocated_again() {
        let (mut map, mut safe) = (map(), SafeCopies::default());
        safe.allocate(&mut map, 1);
        safe.drop_all();
        safe.free(&mut map, 1);
        safe.allocate(&mut map, 2);
        assert_eq!(safe.first_free(&map, 1, 9), Some(3));
        safe.drop_all();
        assert_eq!(safe.first_free(&map, 1, 9), Some(1));
        assert_eq!(safe.first_free(&map, 2, 9), Some(3));
    }

    #[test]
    fn what_a_snapshot_held_until_now_is_withheld_for_one_consistency_point() {
        let (map, mut safe) = (map(), SafeCopies::default());
        let bits = **map.peek(0, 1).expect("changed");
        safe.withhold(&bits, 1, BITS_PER_BLOCK + 3);
        let (from, to) = (BITS_PER_BLOCK + 3, BITS_PER_BLOCK + 5);
        assert_eq!(safe.first_free(&map, from, to), Some(from + 1));
        safe.drop_all();
        assert_eq!(safe.first_free(&map, from, to), Some(from));
    }

    #[test]
    fn adopting_says_whether_it_was_news() {
        let (mut map, mut safe) = (map(), SafeCopies::default());
        assert!(safe.adopt(&mut map, 8));
        assert!(!safe.adopt(&mut map, 8));
        assert_eq!(safe.first_free(&map, 8, 9), None);
    }

    #[test]
    #[should_panic(expected = "7 is freed twice")]
    fn freeing_twice_stops_the_process() {
        let (mut map, mut safe) = (map(), SafeCopies::default());
        safe.free(&mut map, 7);
    }

    #[test]
    #[should_panic(expected = "spans map blocks")]
    fn a_search_stays_in_one_map_block() {
        let (map, safe) = (map(), SafeCopies::default());
        safe.first_free(&map, BITS_PER_BLOCK - 1, BITS_PER_BLOCK + 1);
    }

    #[derive(Clone, Debug)]
    enum Event {
        /// The first free number from here on.
        Allocate(u64),
        /// Frees a number in use, chosen by this index.
        Free(usize),
        Adopt(u64),
        /// A snapshot that held it is released.
        Withhold(u64),
        Commit,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        // Both sides of the border of two map blocks.
        let number = (BITS_PER_BLOCK - 12)..(BITS_PER_BLOCK + 12);
        let event = prop_oneof![
            4 => number.clone().prop_map(Event::Allocate),
            3 => any::<usize>().prop_map(Event::Free),
            1 => number.clone().prop_map(Event::Adopt),
            1 => number.prop_map(Event::Withhold),
            1 => Just(Event::Commit),
        ];
        prop::collection::vec(event, 0..80)
    }

    proptest! {
        /// Lemma 1 and definition 1, against sets of numbers.
        #[test]
        fn a_number_is_allocatable_if_it_is_free_and_was_at_the_last_commit(
            events in events(),
        ) {
            let (mut map, mut safe) = (map(), SafeCopies::default());
            let (mut used, mut withheld) = (BTreeSet::new(), BTreeSet::new());
            for event in events {
                match event {
                    Event::Allocate(from) => {
                        let to = (from / BITS_PER_BLOCK + 1) * BITS_PER_BLOCK;
                        let to = to.min(BITS_PER_BLOCK + 12);
                        let found = safe.first_free(&map, from, to);
                        let is_free = |it: &u64| !used.contains(it) && !withheld.contains(it);
                        let mut free = (from..to).filter(is_free);
                        prop_assert_eq!(found, free.next());
                        if let Some(number) = found {
                            safe.allocate(&mut map, number);
                            used.insert(number);
                        }
                    }
                    Event::Free(which) if !used.is_empty() => {
                        let number = used.iter().nth(which % used.len());
                        let number = *number.expect("below the length");
                        safe.free(&mut map, number);
                        used.remove(&number);
                        withheld.insert(number);
                    }
                    // Only a number that a snapshot holds is adopted, and such a number is never
                    // freed.
                    Event::Adopt(number) if !withheld.contains(&number) => {
                        prop_assert_eq!(safe.adopt(&mut map, number), used.insert(number));
                    }
                    Event::Withhold(number) if !used.contains(&number) => {
                        let block = number / BITS_PER_BLOCK;
                        let bits = **map.peek(0, block).expect("changed");
                        safe.withhold(&bits, block, number);
                        withheld.insert(number);
                    }
                    Event::Free(_) | Event::Adopt(_) | Event::Withhold(_) => {}
                    Event::Commit => {
                        safe.drop_all();
                        withheld.clear();
                    }
                }
                let in_map = |it: &u64| {
                    let page = map.peek(0, it / BITS_PER_BLOCK).expect("changed");
                    bitmap::is_set(page, it % BITS_PER_BLOCK)
                };
                let numbers = (BITS_PER_BLOCK - 12)..(BITS_PER_BLOCK + 12);
                prop_assert_eq!(numbers.filter(in_map).collect::<BTreeSet<_>>(), used.clone());
            }
        }
    }
}
