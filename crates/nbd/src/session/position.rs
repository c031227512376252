//! The position of a byte in the pages of a span.

use everglade_env::BLOCK_SIZE;

const BLOCK: u64 = BLOCK_SIZE as u64;

/// Returns the index of the page that holds the byte at `position` of the LUN, in a span that
/// begins at `start`.
pub(super) fn page_index(start: u64, position: u64) -> usize {
    usize::try_from(position / BLOCK - start / BLOCK).expect("a span is in memory")
}
