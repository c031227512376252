//! Blocks of a volume's refcount file (B-15): headerless, like those of the active map, and in
//! snapshots like those.
//!
//! Block `b` has 2,048 little-endian 16-bit counts; count `i` is at byte 2 × i and stands for vvbn
//! b × 2,048 + i. It says how many references the volume's files have to that vvbn *beyond the
//! first*, so a vvbn in use has one reference more than its count, and one that is not in use has
//! count 0. A block that is absent (a hole, or beyond the end) is all zero; a block that becomes
//! all zero is removed, and so is a file without blocks.
//!
//! Counts reach [`COUNT_MAX`]; [`RESERVED`] is never written. A count has two bytes. With
//! one byte, the 256th reference to a block would have to be a copy of the block, but users make a
//! thousand clones of one golden image.

use crate::bytes::u16_at;
use crate::{BLOCK_SIZE, Block, Vvbn};

/// Counts in a block.
pub const COUNTS_PER_BLOCK: u64 = 2_048;
/// The highest count there can be.
pub const COUNT_MAX: u16 = u16::MAX - 1;
/// Clones are refused that would make a count higher: restoring single LUNs, which cannot be
/// refused when it has begun, has the rest.
pub const CLONE_MAX: u16 = COUNT_MAX / 2;
/// A reserved value, which is not a count.
pub const RESERVED: u16 = u16::MAX;
const _: () = assert!(COUNTS_PER_BLOCK * 2 == BLOCK_SIZE as u64);

/// The block of the refcount file that has the count of a vvbn, and which of its counts that is.
#[must_use]
pub fn block_and_slot(vvbn: Vvbn) -> (u64, usize) {
    let slot = usize::try_from(vvbn.0 % COUNTS_PER_BLOCK).expect("below 2,048");
    (vvbn.0 / COUNTS_PER_BLOCK, slot)
}

/// Returns the stored count of a slot.
#[must_use]
pub fn get(block: &Block, slot: usize) -> u16 {
    u16_at(block, slot * 2)
}

/// Writes a count.
pub fn set(block: &mut Block, slot: usize, count: u16) {
    assert!(count != RESERVED, "a count is above the highest");
    block[slot * 2..slot * 2 + 2].copy_from_slice(&count.to_le_bytes());
}

/// True if no count of the block is above zero.
#[must_use]
pub fn is_empty(block: &Block) -> bool {
    block.iter().all(|byte| *byte == 0)
}

/// The counts above zero, each with its slot, ascending.
pub fn counts(block: &Block) -> impl Iterator<Item = (usize, u16)> + '_ {
    let all = (0..BLOCK_SIZE / 2).map(|slot| (slot, get(block, slot)));
    all.filter(|(_, count)| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_where_the_documentation_says() {
        let mut block = [0; BLOCK_SIZE];
        assert!(is_empty(&block));
        assert_eq!(block_and_slot(Vvbn(2_047)), (0, 2_047));
        assert_eq!(block_and_slot(Vvbn(4_097)), (2, 1));
        set(&mut block, 1, 0x1234);
        set(&mut block, 2_047, COUNT_MAX);
        assert_eq!(block[2..4], [0x34, 0x12]);
        assert_eq!(get(&block, 1), 0x1234);
        let found: Vec<_> = counts(&block).collect();
        assert_eq!(found, [(1, 0x1234), (2_047, COUNT_MAX)]);
        set(&mut block, 1, 0);
        set(&mut block, 2_047, 0);
        assert!(is_empty(&block));
    }
}
