//! Bitmap metafile blocks: headerless, bit `i` of block `b` stands for number `b × 32,768 + i`.
//!
//! Bit `i` is bit `i % 8` of byte `i / 8`, so that a block read as little-endian 64-bit words has bit
//! `i` at position `i % 64` of word `i / 64`. A set bit means *in use* (Definition 1).

use crate::{BITS_PER_BLOCK, Block};

fn place(bit: u64) -> (usize, u8) {
    assert!(bit < BITS_PER_BLOCK, "bit {bit} is outside a bitmap block");
    ((bit / 8) as usize, 1 << (bit % 8))
}

/// True if `bit` is set.
#[must_use]
pub fn is_set(block: &Block, bit: u64) -> bool {
    let (byte, mask) = place(bit);
    block[byte] & mask != 0
}

/// Sets `bit`; returns whether it was clear.
pub fn set(block: &mut Block, bit: u64) -> bool {
    let (byte, mask) = place(bit);
    let was_clear = block[byte] & mask == 0;
    block[byte] |= mask;
    was_clear
}

/// Clears `bit`; returns whether it was set.
pub fn clear(block: &mut Block, bit: u64) -> bool {
    let (byte, mask) = place(bit);
    let was_set = block[byte] & mask != 0;
    block[byte] &= !mask;
    was_set
}

/// Number of set bits in `from..to`.
#[must_use]
pub fn count(block: &Block, from: u64, to: u64) -> u64 {
    assert!(
        from <= to && to <= BITS_PER_BLOCK,
        "range {from}..{to} is outside a bitmap block"
    );
    let mut total = 0;
    let mut bit = from;
    while bit < to {
        if bit.is_multiple_of(64) && bit + 64 <= to {
            total += u64::from(word(block, bit / 64).count_ones());
            bit += 64;
        } else {
            total += u64::from(is_set(block, bit));
            bit += 1;
        }
    }
    total
}

/// First clear bit in `from..to`.
#[must_use]
pub fn first_clear(block: &Block, from: u64, to: u64) -> Option<u64> {
    assert!(
        from <= to && to <= BITS_PER_BLOCK,
        "range {from}..{to} is outside a bitmap block"
    );
    let mut bit = from;
    while bit < to {
        let free = !word(block, bit / 64) >> (bit % 64);
        if free == 0 {
            bit = (bit / 64 + 1) * 64;
        } else {
            let found = bit + u64::from(free.trailing_zeros());
            return (found < to).then_some(found);
        }
    }
    None
}

fn word(block: &Block, index: u64) -> u64 {
    // `index` is a bit number divided by 64.
    #[expect(clippy::cast_possible_truncation, reason = "below 512")]
    let at = index as usize * 8;
    crate::bytes::u64_at(block, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counting_and_searching_agree_with_looking_at_every_bit(
            bits in proptest::collection::vec(0..BITS_PER_BLOCK, 0..200),
            full in any::<bool>(), from in 0..BITS_PER_BLOCK, length in 0..2000u64,
        ) {
            let mut block = [if full { 0xff } else { 0 }; crate::BLOCK_SIZE];
            for bit in bits {
                if full { clear(&mut block, bit); } else { set(&mut block, bit); }
            }
            let to = (from + length).min(BITS_PER_BLOCK);
            prop_assert_eq!(count(&block, from, to), (from..to).filter(|b| is_set(&block, *b)).count() as u64);
            prop_assert_eq!(first_clear(&block, from, to), (from..to).find(|b| !is_set(&block, *b)));
        }
    }
}
