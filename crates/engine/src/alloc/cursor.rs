//! Cursors: hand out block numbers from one area at a time, chunk by chunk (D-03, D-13, E-10).
//!
//! ```text
//! (no area) ──open──▶ area ──fill()──▶ stock ──take()──▶ in use
//!                       └──exhausted──▶ closed, scored when its map block is sealed
//! ```
//!
//! 1. Filling makes everything changed that taking will touch (map block, and context block or level-1
//!    block of the container), so that taking cannot stop.
//! 2. An area is open in at most one cursor.
//! 3. What is in stock is free in the map; stock left at the end of a consistency point goes back.

use std::collections::VecDeque;

use everglade_format::context::CONTEXTS_PER_BLOCK;
use everglade_format::{BITS_PER_BLOCK, SPAN};

/// An area being used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenArea {
    /// Index of the extent.
    pub(crate) extent: usize,
    /// Index of the area in the extent.
    pub(crate) area: u64,
    /// Next number to look at.
    pub(crate) next: u64,
    /// End of the area.
    pub(crate) end: u64,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// One for each extent.
    pub(crate) open: Vec<Option<OpenArea>>,
    /// The extent that is filled from next: extents take turns, so that drives advance equally (D-16).
    pub(crate) turn: usize,
    pub(crate) stock: VecDeque<u64>,
}

impl Cursor {
    pub(crate) fn new(extents: usize) -> Cursor {
        Cursor {
            open: vec![None; extents],
            turn: 0,
            stock: VecDeque::new(),
        }
    }

    /// Gives unused numbers back to their open areas.
    pub(crate) fn put_back(&mut self) {
        for number in std::mem::take(&mut self.stock) {
            let area = self.open.iter_mut().flatten().find(|area| {
                area.end > number && area.next > number && number + BITS_PER_BLOCK >= area.end
            });
            // A number of an area that was closed meanwhile is simply free; its area is scored again.
            if let Some(area) = area {
                area.next = area.next.min(number);
            }
        }
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
        cursor.put_back();
        assert_eq!(cursor.open[0].map(|area| area.next), Some(300));
    }
}
