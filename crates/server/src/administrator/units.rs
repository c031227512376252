//! Units: the engine counts blocks, administrators read bytes.

use everglade_env::BLOCK_SIZE;

/// Returns the bytes of this number of blocks.
pub(super) fn bytes(blocks: u64) -> u64 {
    blocks.saturating_mul(BLOCK_SIZE as u64)
}
