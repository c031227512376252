//! Bitmap metafile blocks: headerless, bit `i` of block `b` stands for number `b × 32,768 + i`.
//!
//! Bit `i` is bit `i % 8` of byte `i / 8`, so that a block read as little-endian 64-bit words has
//! bit `i` at position `i % 64` of word `i / 64`. A set bit means *in use* (Definition 1).

use crate::{BITS_PER_BLOCK, Block};

fn byte_and_mask(bit: u64) -> (usize, u8) {
    assert!(bit < BITS_PER_BLOCK, "bit {bit} is outside a bitmap block");
    ((bit / 8) as usize, 1 << (bit % 8))
}

/// True if `bit` is set.
#[must_use]
pub fn is_set(block: &Block, bit: u64) -> bool {
    let (byte, mask) = byte_and_mask(bit);
    block[byte] & mask != 0
}

/// Sets `bit`; returns whether it was clear.
pub fn set(block: &mut Block, bit: u64) -> bool {
    let (byte, mask) = byte_and_mask(bit);
    let was_clear = block[byte] & mask == 0;
    block[byte] |= mask;
    was_clear
}

/// Clears `bit`; returns whether it was set.
pub fn clear(block: &mut Block, bit: u64) -> bool {
    let (byte, mask) = byte_and_mask(bit);
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

/// Returns the first clear bit in `from..to`.
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

/// Sets in `block` every bit that is set in `other`.
pub fn unite(block: &mut Block, other: &Block) {
    for (byte, other) in block.iter_mut().zip(other) {
        *byte |= other;
    }
}

/// Clears in `block` every bit that is set in `other`.
pub fn subtract(block: &mut Block, other: &Block) {
    for (byte, other) in block.iter_mut().zip(other) {
        *byte &= !other;
    }
}

/// Clears in `block` every bit that is clear in `other`.
pub fn intersect(block: &mut Block, other: &Block) {
    for (byte, other) in block.iter_mut().zip(other) {
        *byte &= other;
    }
}

/// True if every bit of `part` is set in `whole` too.
#[must_use]
pub fn is_within(part: &Block, whole: &Block) -> bool {
    part.iter()
        .zip(whole)
        .all(|(part, whole)| part & !whole == 0)
}

/// Clears the bits outside `from..to`.
pub fn keep_range(block: &mut Block, from: u64, to: u64) {
    assert!(
        from <= to && to <= BITS_PER_BLOCK,
        "range {from}..{to} is outside a bitmap block"
    );
    let whole = |bit: u64| usize::try_from(bit / 8).expect("at most 4,096");
    block[..whole(from)].fill(0);
    if let Some(byte) = block.get_mut(whole(from)) {
        *byte &= 0xff << (from % 8);
    }
    if let Some(byte) = block.get_mut(whole(to)) {
        *byte &= !(0xff << (to % 8));
        block[whole(to) + 1..].fill(0);
    }
}

/// The set bits in ascending order.
pub fn ones(block: &Block) -> impl Iterator<Item = u64> + '_ {
    (0..BITS_PER_BLOCK / 64).flat_map(|index| {
        let mut rest = word(block, index);
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| index * 64 + u64::from(rest.trailing_zeros()))?;
            rest &= rest - 1;
            Some(bit)
        })
    })
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
            let counted = (from..to).filter(|bit| is_set(&block, *bit)).count() as u64;
            prop_assert_eq!(count(&block, from, to), counted);
            let found = (from..to).find(|bit| !is_set(&block, *bit));
            prop_assert_eq!(first_clear(&block, from, to), found);
            prop_assert!(ones(&block).eq((0..BITS_PER_BLOCK).filter(|bit| is_set(&block, *bit))));
            let mut kept = block;
            keep_range(&mut kept, from, to);
            prop_assert!(ones(&kept).eq((from..to).filter(|bit| is_set(&block, *bit))));
            prop_assert!(is_within(&kept, &block));
            let mut rest = block;
            subtract(&mut rest, &kept);
            prop_assert_eq!(ones(&rest).count() + ones(&kept).count(), ones(&block).count());
            prop_assert!(ones(&kept).next().is_none() || !is_within(&kept, &rest));
            unite(&mut rest, &kept);
            prop_assert_eq!(&rest, &block);
            intersect(&mut rest, &kept);
            prop_assert_eq!(&rest, &kept);
        }
    }
}
