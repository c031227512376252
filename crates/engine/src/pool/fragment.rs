//! Fragments: written bytes of a block whose other bytes were not read yet
//! (docs/design/design.md §5).
//!
//! A write of part of a block never waits for the block. If the block's content is in memory, bytes
//! and content are merged at once. Otherwise the bytes stay in the overlay as a fragment, and a
//! merge begins in the background. The first user of the whole block (a reader, the merge, the
//! cleaner) lays the fragment over the content below it.
//!
//! 1. Ranges are sorted, do not touch, and are not empty. They never cover the whole block: a whole
//!    block is data, not a fragment.
//! 2. A fragment's page never changes, like all pages of an overlay.

use std::ops::Range;

use everglade_env::{BLOCK_SIZE, Page, PageRef};

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    page: PageRef,
    ranges: Vec<Range<u16>>,
}

/// The result of a merge.
#[derive(Clone, Debug)]
pub(crate) enum Grown {
    Fragment(Fragment),
    /// The fragments together cover the whole block.
    Whole(PageRef),
}

fn narrow(at: usize) -> u16 {
    u16::try_from(at).expect("a place in a block")
}

fn wide(range: &Range<u16>) -> Range<usize> {
    usize::from(range.start)..usize::from(range.end)
}

impl Fragment {
    /// The bytes `range` of a page, which is less than all of it.
    pub(crate) fn new(page: PageRef, range: &Range<usize>) -> Fragment {
        assert!(
            !range.is_empty() && range.end <= BLOCK_SIZE && range.len() < BLOCK_SIZE,
            "a fragment is a part of a block: {range:?}"
        );
        Fragment {
            page,
            ranges: std::iter::once(narrow(range.start)..narrow(range.end)).collect(),
        }
    }

    /// The whole block, with `base` as the content below the fragment.
    pub(crate) fn over(&self, base: &PageRef) -> PageRef {
        let mut merged = Page::copy_of(base);
        for range in &self.ranges {
            merged[wide(range)].copy_from_slice(&self.page[wide(range)]);
        }
        merged.freeze()
    }

    /// This fragment with bytes `range` of `page` over it.
    pub(crate) fn with(&self, page: &PageRef, range: &Range<usize>) -> Grown {
        let mut merged = Page::copy_of(&self.page);
        merged[range.clone()].copy_from_slice(&page[range.clone()]);
        let mut all: Vec<Range<usize>> = self.ranges.iter().map(wide).collect();
        all.push(range.clone());
        all.sort_unstable_by_key(|range| range.start);
        let mut ranges: Vec<Range<u16>> = Vec::with_capacity(all.len());
        for range in all {
            match ranges.last_mut() {
                Some(last) if usize::from(last.end) >= range.start => {
                    last.end = last.end.max(narrow(range.end));
                }
                _ => ranges.push(narrow(range.start)..narrow(range.end)),
            }
        }
        let page = merged.freeze();
        if wide(&ranges[0]) == (0..BLOCK_SIZE) {
            Grown::Whole(page)
        } else {
            Grown::Fragment(Fragment { page, ranges })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(byte: u8) -> PageRef {
        let mut page = Page::zeroed();
        page.fill(byte);
        page.freeze()
    }

    #[test]
    fn the_newest_bytes_are_on_top_and_the_base_shows_between() {
        let fragment = Fragment::new(page(1), &(100..200));
        let Grown::Fragment(fragment) = fragment.with(&page(2), &(150..300)) else {
            panic!("not the whole block")
        };
        let merged = fragment.over(&page(9));
        let expected = [
            (0, 9),
            (99, 9),
            (100, 1),
            (149, 1),
            (150, 2),
            (299, 2),
            (300, 9),
        ];
        for (at, byte) in expected {
            assert_eq!(merged[at], byte, "byte {at}");
        }
        assert_eq!(fragment.ranges, vec![100..300], "they touch");
    }

    #[test]
    fn parts_that_cover_the_block_are_the_block() {
        let fragment = Fragment::new(page(1), &(0..10));
        let Grown::Fragment(fragment) = fragment.with(&page(2), &(20..BLOCK_SIZE)) else {
            panic!("a gap is left")
        };
        assert_eq!(fragment.ranges.len(), 2);
        let Grown::Whole(whole) = fragment.with(&page(3), &(10..20)) else {
            panic!("nothing is left")
        };
        assert_eq!((whole[9], whole[10], whole[19], whole[20]), (1, 3, 3, 2));
    }
}
