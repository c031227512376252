//! Cursors: hand out block numbers from one area at a time, chunk by chunk (D-03, D-13, E-10).
//!
//! ```text
//! (no area) ──open──▶ area ──fill()──▶ stock ──take()──▶ in use
//!                       └──exhausted──▶ kept until nothing more is taken, then scored
//! ```
//!
//! 1. Filling a cursor makes a changed block of every block that taking a number touches (map
//!    block, and context block or level-1 block of the container). So taking cannot stop.
//! 2. An area is open in at most one cursor.
//! 3. Numbers in stock are free in the map. An exhausted area may have numbers in stock, so it
//!    stays lent until the consistency point has all its places and returns the numbers that are
//!    left.

use std::collections::VecDeque;

use everglade_format::context::CONTEXTS_PER_BLOCK;
use everglade_format::{BITS_PER_BLOCK, SPAN};

/// Blocks of one column of a parity group that are taken at once (D-03).
pub(crate) const ROW_CHUNK_BLOCKS: u64 = 64;

/// An area being used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenArea {
    /// Index of the extent.
    pub(crate) extent: usize,
    /// Index of the area in the extent.
    pub(crate) area: u64,
    /// Next number to check.
    pub(crate) next: u64,
    /// End of the area.
    pub(crate) end: u64,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// The open area of each extent.
    pub(crate) open: Vec<Option<OpenArea>>,
    /// The extent that is filled from next: extents take turns, a chunk each, so that drives
    /// advance about equally. Unlike in D-16, an extent does not wait until all others have used
    /// theirs.
    pub(crate) turn: usize,
    pub(crate) stock: VecDeque<u64>,
    /// Areas in which nothing was found any more, by extent.
    pub(crate) exhausted: Vec<(usize, u64)>,
}

impl Cursor {
    pub(crate) fn new(extents: usize) -> Cursor {
        Cursor {
            open: vec![None; extents],
            turn: 0,
            stock: VecDeque::new(),
            exhausted: Vec::new(),
        }
    }

    /// Gives unused numbers back to their open areas. The areas that are used up are returned.
    pub(crate) fn put_back(&mut self, area_blocks: u64) -> Vec<(usize, u64)> {
        for number in std::mem::take(&mut self.stock) {
            let mut open = self.open.iter_mut().flatten();
            let area = open.find(|area| (area.end - area_blocks..area.end).contains(&number));
            // A number of an area that is used up is simply free; its area is scored again.
            if let Some(area) = area {
                area.next = area.next.min(number);
            }
        }
        std::mem::take(&mut self.exhausted)
    }
}

/// End of the chunk that begins at `number`: chunks do not cross map blocks, nor the blocks that
/// describe them (256 contexts at the aggregate layer, 255 container slots at the volume layer).
pub(crate) fn chunk_end(number: u64, volume: bool) -> u64 {
    let unit = if volume { SPAN } else { CONTEXTS_PER_BLOCK };
    let end = (number / unit + 1) * unit;
    end.min((number / BITS_PER_BLOCK + 1) * BITS_PER_BLOCK)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn chunks_do_not_cross_what_describes_them() {
        assert_eq!(chunk_end(0, false), 256);
        assert_eq!(chunk_end(255, true), 510);
        assert_eq!(chunk_end(32_640, true), 32_768, "the map block ends first");
        assert_eq!(chunk_end(32_768, true), 32_895);
    }

    #[test]
    fn stock_goes_back_to_its_area() {
        let mut cursor = Cursor::new(1);
        cursor.open[0] = Some(OpenArea {
            extent: 0,
            area: 0,
            next: 512,
            end: 1024,
        });
        cursor.stock.extend([300, 400, 511]);
        cursor.put_back(1024);
        assert_eq!(cursor.open[0].map(|area| area.next), Some(300));
    }

    #[test]
    fn stock_of_another_area_does_not_go_back_to_this_one() {
        let mut cursor = Cursor::new(1);
        cursor.open[0] = Some(OpenArea {
            extent: 0,
            area: 2,
            next: 600,
            end: 768,
        });
        cursor.exhausted.push((0, 1));
        cursor.stock.extend([300, 590]);
        assert_eq!(cursor.put_back(256), [(0, 1)]);
        assert_eq!(cursor.open[0].map(|area| area.next), Some(590));
    }

    #[test]
    fn the_lowest_number_in_stock_is_looked_at_again_and_those_ahead_stay() {
        let mut cursor = Cursor::new(2);
        let area = |extent, next, end| OpenArea {
            extent,
            area: 0,
            next,
            end,
        };
        cursor.open = vec![Some(area(0, 512, 1024)), Some(area(1, 4096, 5120))];
        cursor.stock.extend([400, 300, 310, 4096]);
        assert_eq!(cursor.put_back(1024), []);
        let next = cursor.open.iter().flatten().map(|area| area.next);
        assert_eq!(next.collect::<Vec<_>>(), [300, 4096]);
        assert!(cursor.stock.is_empty());
        assert_eq!(cursor.put_back(1024), [], "nothing goes back twice");
    }

    proptest! {
        #[test]
        fn a_chunk_is_described_by_one_block_of_each_map(number in 0..1_u64 << 40, volume: bool) {
            let (end, unit) = (chunk_end(number, volume), if volume { 255 } else { 256 });
            prop_assert!(end > number);
            for described in [unit, BITS_PER_BLOCK] {
                prop_assert_eq!(number / described, (end - 1) / described);
            }
            let is_end = [unit, BITS_PER_BLOCK].into_iter().any(|it| end % it == 0);
            prop_assert!(is_end, "a chunk is as long as it may be");
        }
    }
}
